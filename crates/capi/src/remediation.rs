//! The request of an external remediation that the owner of a Machine replaces it.
//!
//! A MachineSet or control plane replaces a Machine with the conditions `HealthCheckSucceeded`, which
//! the health check sets, and `OwnerRemediated`, both false. Owners of different versions look at
//! the conditions of either contract.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// The condition.
const OWNER_REMEDIATED: &str = "OwnerRemediated";
/// Its reason.
const REASON: &str = "WaitingForRemediation";

/// Returns whether the owner of a Machine was asked to replace it. An owner that has begun may have
/// changed the reason.
pub fn is_requested(machine: &Value) -> bool {
    let lists = [conditions(machine), deprecated_conditions(machine)];
    lists.iter().all(|list| is_false(list))
}

/// Returns the merge patch of the status of a Machine that asks its owner to replace it. Conditions
/// of others stay as they are.
pub fn request(machine: &Value, message: &str, now: Timestamp) -> Value {
    let since = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut condition = json!({
        "type": OWNER_REMEDIATED, "status": "False", "reason": REASON, "message": message,
        "lastTransitionTime": since.to_string(),
    });
    let newer = with(conditions(machine), &condition);
    condition["severity"] = "Warning".into();
    let older = with(deprecated_conditions(machine), &condition);
    json!({"status": {
        "conditions": newer,
        "deprecated": {"v1beta1": {"conditions": older}},
    }})
}

fn conditions(machine: &Value) -> &Value {
    &machine["status"]["conditions"]
}

fn deprecated_conditions(machine: &Value) -> &Value {
    &machine["status"]["deprecated"]["v1beta1"]["conditions"]
}

fn is_false(conditions: &Value) -> bool {
    let mut all = conditions.as_array().into_iter().flatten();
    all.any(|one| one["type"] == OWNER_REMEDIATED && one["status"] == "False")
}

/// Returns the conditions with this one, unless it is there with the same status.
fn with(conditions: &Value, condition: &Value) -> Value {
    if is_false(conditions) {
        return conditions.clone();
    }
    let mut all = conditions.as_array().cloned().unwrap_or_default();
    all.retain(|one| one["type"] != condition["type"]);
    all.push(condition.clone());
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_asked_in_the_form_of_both_contracts() {
        let other = json!({"type": "HealthCheckSucceeded", "status": "False", "reason": "Node"});
        let was_remediated = json!({"type": "OwnerRemediated", "status": "True", "reason": "Done"});
        let machine = json!({"status": {
            "nodeRef": {"name": "n"},
            "conditions": [was_remediated, other],
            "deprecated": {"v1beta1": {"failureReason": "kept", "conditions": [other]}},
        }});
        assert!(!is_requested(&machine));
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let patch = request(&machine, "not healthy", now);
        let condition = json!({
            "type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation",
            "message": "not healthy", "lastTransitionTime": "2027-01-15T08:00:00Z",
        });
        let mut older = condition.clone();
        older["severity"] = "Warning".into();
        let expected = json!({"status": {
            "conditions": [other, condition],
            "deprecated": {"v1beta1": {"conditions": [other, older]}},
        }});
        assert_eq!(patch, expected);
        assert!(is_requested(&patch));
    }

    #[test]
    fn owner_that_has_begun_is_not_disturbed() {
        let begun = json!({"type": "OwnerRemediated", "status": "False", "reason": "Deleting"});
        let machine = json!({"status": {"conditions": [begun]}});
        assert!(!is_requested(&machine), "an older owner was not asked");
        let patch = request(&machine, "", Timestamp::UNIX_EPOCH);
        assert_eq!(patch["status"]["conditions"], json!([begun]));
        let older = &patch["status"]["deprecated"]["v1beta1"]["conditions"][0];
        assert_eq!(older["reason"], "WaitingForRemediation");
    }
}
