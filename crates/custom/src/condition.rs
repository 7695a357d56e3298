//! The status conditions of a definition, with Kubernetes' types, reasons and messages.

use insula_kinds::{Object, Value};
use serde_json::json;

/// The finalizer that keeps a definition until its objects are deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// All requested names have been accepted.
pub(crate) const NAMES_ACCEPTED: &str = "NamesAccepted";
/// The kind is served.
pub const ESTABLISHED: &str = "Established";
/// The definition and its objects are being deleted.
pub(crate) const TERMINATING: &str = "Terminating";
/// The use of a protected group is approved.
pub(crate) const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";

/// A condition without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The type.
    pub kind: &'static str,
    /// The status.
    pub holds: bool,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl Condition {
    /// Creates a condition.
    pub fn new(kind: &'static str, holds: bool, reason: &'static str, message: &str) -> Self {
        Self {
            kind,
            holds,
            reason,
            message: message.to_owned(),
        }
    }

    /// The names conflict with no other definition.
    pub(crate) fn no_conflicts() -> Self {
        Self::new(NAMES_ACCEPTED, true, "NoConflicts", "no conflicts found")
    }

    /// Not served because names are not accepted.
    pub(crate) fn not_accepted() -> Self {
        let message = "not all names are accepted";
        Self::new(ESTABLISHED, false, "NotAccepted", message)
    }

    /// About to be served.
    pub(crate) fn installing() -> Self {
        let message = "the initial names have been accepted";
        Self::new(ESTABLISHED, false, "Installing", message)
    }

    /// Served.
    pub fn established() -> Self {
        let message = "the initial names have been accepted";
        Self::new(ESTABLISHED, true, "InitialNamesAccepted", message)
    }

    /// Not served because the conversion webhook's CA bundle is invalid.
    pub fn invalid_ca_bundle() -> Self {
        let message = "The conversion webhook CABundle is invalid";
        Self::new(ESTABLISHED, false, "InvalidCABundle", message)
    }

    /// Deletion was requested.
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

    /// The absence of objects could not be confirmed.
    pub fn deletion_unconfirmed(why: &str) -> Self {
        let message = format!("could not confirm zero CustomResources remaining: {why}");
        Self::new(TERMINATING, true, "InstanceDeletionCheck", &message)
    }

    /// All objects are deleted.
    pub fn deletion_completed() -> Self {
        let message = "removed all instances";
        Self::new(TERMINATING, false, "InstanceDeletionCompleted", message)
    }

    /// There were never any objects.
    pub fn never_established() -> Self {
        let message = "resource was never established";
        Self::new(TERMINATING, false, "NeverEstablished", message)
    }
}

/// Sets a condition in the definition's status. The transition time becomes `now` only if the
/// status of the condition changes.
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

/// The `Established` condition that follows from the acceptance of names. `None` if nothing
/// changes: the kind is already served, or its names are still not accepted.
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

/// Reports whether the condition of this type is present and true.
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
    fn condition_keeps_its_transition_time_until_its_status_changes() {
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
    fn conditions_are_appended_in_order() {
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
        let mut definition = Object::new();
        definition.insert("status".to_owned(), Value::Object(status));
        assert!(!holds(&definition, ESTABLISHED));
        assert!(holds(&definition, NAMES_ACCEPTED));
    }

    #[test]
    fn definition_is_installed_once_its_names_are_accepted_and_stays_established() {
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
    fn condition_without_a_transition_time_gets_one() {
        let mut status = status(json!({"type": "Established", "status": "True"}));
        set_condition(&mut status, &Condition::established(), NOW);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], NOW);
    }
}
