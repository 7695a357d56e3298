//! What is known of a definition: the conditions of its status, with Kubernetes' types,
//! reasons and messages.

use insula_kinds::{Object, Value};
use serde_json::json;

/// What keeps a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// All names are the definition's own.
pub const NAMES_ACCEPTED: &str = "NamesAccepted";
/// Objects can be read and written.
pub const ESTABLISHED: &str = "Established";
/// The definition is being deleted, and its objects with it.
pub const TERMINATING: &str = "Terminating";
/// A group of the Kubernetes community is used with its approval.
pub const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";

/// One condition, without the times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, for programs.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

impl Condition {
    /// A condition.
    pub fn new(kind: &'static str, holds: bool, reason: &'static str, message: &str) -> Self {
        Self {
            kind,
            holds,
            reason,
            message: message.to_owned(),
        }
    }

    /// No other definition has any of the names.
    pub fn no_conflicts() -> Self {
        Self::new(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found")
    }

    /// Not served, because others have its names.
    pub fn not_accepted() -> Self {
        let message = "not all names are accepted";
        Self::new(ESTABLISHED, false, "NotAccepted", message)
    }

    /// About to be served.
    pub fn installing() -> Self {
        let message = "the initial names have been accepted";
        Self::new(ESTABLISHED, false, "Installing", message)
    }

    /// Served from now on.
    pub fn established() -> Self {
        let message = "the initial names have been accepted";
        Self::new(ESTABLISHED, true, "InitialNamesAccepted", message)
    }

    /// Not served, because nobody could be trusted to convert its objects.
    pub fn invalid_ca_bundle() -> Self {
        let message = "The conversion webhook CABundle is invalid";
        Self::new(ESTABLISHED, false, "InvalidCABundle", message)
    }

    /// A client asked for the deletion.
    pub fn deletion_pending() -> Self {
        let message =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        Self::new(TERMINATING, true, "InstanceDeletionPending", message)
    }

    /// Objects are being deleted.
    pub fn deletion_in_progress() -> Self {
        let message = "CustomResource deletion is in progress";
        Self::new(TERMINATING, true, "InstanceDeletionInProgress", message)
    }

    /// Nobody knows which objects there are.
    pub fn list_failed(why: &str) -> Self {
        let message = format!("could not list instances: {why}");
        Self::new(TERMINATING, true, "InstanceDeletionFailed", &message)
    }

    /// Objects could not be deleted.
    pub fn deletion_failed(why: &str) -> Self {
        let message = format!("could not issue all deletes: {why}");
        Self::new(TERMINATING, true, "InstanceDeletionFailed", &message)
    }

    /// Objects may remain.
    pub fn deletion_unconfirmed(why: &str) -> Self {
        let message = format!("could not confirm zero CustomResources remaining: {why}");
        Self::new(TERMINATING, true, "InstanceDeletionCheck", &message)
    }

    /// All objects are gone.
    pub fn deletion_completed() -> Self {
        let message = "removed all instances";
        Self::new(TERMINATING, false, "InstanceDeletionCompleted", message)
    }

    /// There never were objects.
    pub fn never_established() -> Self {
        let message = "resource was never established";
        Self::new(TERMINATING, false, "NeverEstablished", message)
    }

    /// The objects are those of a kind that the server has anyway.
    pub fn overlaps_built_in() -> Self {
        let message = "instances overlap with built-in resources in storage";
        Self::new(TERMINATING, false, "OverlappingBuiltInResource", message)
    }
}

/// Writes the condition into the definition's status. It changed `now` only if it holds now
/// and did not before, or the other way round.
pub fn set_condition(status: &mut Object, condition: &Condition, now: &str) {
    let truth = if condition.holds { "True" } else { "False" };
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = Value::Array(Vec::new());
    }
    let Value::Array(conditions) = conditions else {
        return;
    };
    let known = conditions
        .iter_mut()
        .find(|known| text(known, "type") == condition.kind);
    let Some(known) = known else {
        conditions.push(json!({
            "type": condition.kind,
            "status": truth,
            "lastTransitionTime": now,
            "reason": condition.reason,
            "message": condition.message,
        }));
        return;
    };
    if text(known, "status") != truth || text(known, "lastTransitionTime").is_empty() {
        known["lastTransitionTime"] = now.into();
    }
    known["status"] = truth.into();
    known["reason"] = condition.reason.into();
    known["message"] = condition.message.clone().into();
}

/// What becomes of `Established` once it is decided about the names: nothing if objects are
/// served already, and nothing new while names are still not accepted.
pub fn establishing(definition: &Object, names_accepted: bool) -> Option<Condition> {
    if holds(definition, ESTABLISHED) {
        None
    } else if names_accepted {
        Some(Condition::installing())
    } else {
        find(definition, ESTABLISHED)
            .is_none()
            .then(Condition::not_accepted)
    }
}

/// Removes the condition of this type, if there is one.
pub fn remove_condition(status: &mut Object, kind: &str) {
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        conditions.retain(|condition| text(condition, "type") != kind);
    }
}

/// Whether the definition's condition of this type is there and true.
pub fn holds(definition: &Object, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| text(condition, "status") == "True")
}

fn find<'a>(definition: &'a Object, kind: &str) -> Option<&'a Value> {
    let status = definition.get("status")?;
    let mut conditions = status.get("conditions")?.as_array()?.iter();
    conditions.find(|condition| text(condition, "type") == kind)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-02T00:00:00Z";

    fn status(condition: Value) -> Object {
        let Value::Object(status) = json!({"conditions": [condition]}) else {
            unreachable!("it is an object");
        };
        status
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let before = json!({
            "type": "Established", "status": "False", "lastTransitionTime": THEN,
            "reason": "NotAccepted", "message": "not all names are accepted",
        });
        for (condition, since) in [
            (Condition::installing(), THEN),
            (Condition::established(), NOW),
        ] {
            let mut status = status(before.clone());
            set_condition(&mut status, &condition, NOW);
            let wanted = json!([{
                "type": "Established",
                "status": if condition.holds { "True" } else { "False" },
                "lastTransitionTime": since,
                "reason": condition.reason,
                "message": "the initial names have been accepted",
            }]);
            assert_eq!(status["conditions"], wanted);
        }
    }

    #[test]
    fn conditions_are_added_in_the_order_in_which_they_come_about() {
        let mut status = Object::new();
        status.insert("conditions".to_owned(), Value::Null);
        set_condition(&mut status, &Condition::no_conflicts(), NOW);
        set_condition(&mut status, &Condition::installing(), NOW);
        assert_eq!(
            Value::Object(status.clone()),
            json!({"conditions": [
                {"type": "NamesAccepted", "status": "True", "lastTransitionTime": NOW,
                 "reason": "NoConflicts", "message": "no conflicts found"},
                {"type": "Established", "status": "False", "lastTransitionTime": NOW,
                 "reason": "Installing", "message": "the initial names have been accepted"},
            ]})
        );
        remove_condition(&mut status, NAMES_ACCEPTED);
        assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
        let mut definition = Object::new();
        definition.insert("status".to_owned(), Value::Object(status));
        assert!(!holds(&definition, ESTABLISHED));
        assert!(!holds(&definition, NAMES_ACCEPTED));
    }

    #[test]
    fn a_definition_is_installed_when_its_names_are_accepted_and_stays_established() {
        let definition = |condition| {
            let mut definition = Object::new();
            definition.insert("status".to_owned(), Value::Object(status(condition)));
            definition
        };
        let established = definition(json!({"type": "Established", "status": "True"}));
        let waiting = definition(json!({"type": "Established", "status": "False"}));
        let cases = [
            (&Object::new(), false, Some(Condition::not_accepted())),
            (&Object::new(), true, Some(Condition::installing())),
            (&waiting, false, None),
            (&waiting, true, Some(Condition::installing())),
            (&established, false, None),
            (&established, true, None),
        ];
        for (definition, accepted, wanted) in cases {
            assert_eq!(establishing(definition, accepted), wanted);
        }
    }

    #[test]
    fn a_condition_without_a_time_gets_one() {
        let mut status = status(json!({"type": "Established", "status": "True"}));
        set_condition(&mut status, &Condition::established(), NOW);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], NOW);
    }
}
