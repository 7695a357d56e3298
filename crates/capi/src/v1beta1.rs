//! What a status contains in contract `v1beta1` and no longer in `v1beta2`: conditions with a
//! severity, and terminal failures. In `v1beta2` both are under `status.deprecated.v1beta1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as NewCondition, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The severity of a condition that is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// A person has to act.
    Error,
    /// The controller retries, and may succeed.
    Warning,
    /// The controller waits, as planned.
    Info,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The severity, if and only if the status is `False`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// When the status changed last.
    pub last_transition_time: Time,
    /// The reason, a stable identifier.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message, a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The reason of a condition without one, which `v1beta2` requires.
const NO_REASON: &str = "NoReasonReported";

impl Condition {
    /// Converts a condition of `v1beta2`. The severity is used only if the status is `False`.
    pub fn from_v1beta2(condition: &NewCondition, severity: Severity) -> Self {
        let is_false = condition.status == "False";
        Self {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            severity: is_false.then_some(severity),
            last_transition_time: condition.last_transition_time.clone(),
            reason: match condition.reason.as_str() {
                NO_REASON => String::new(),
                reason => reason.to_owned(),
            },
            message: condition.message.clone(),
        }
    }

    /// Converts it to a condition of `v1beta2`, which has no severity.
    pub fn to_v1beta2(&self) -> NewCondition {
        NewCondition {
            type_: self.kind.clone(),
            status: self.status.clone(),
            last_transition_time: self.last_transition_time.clone(),
            reason: match self.reason.as_str() {
                "" => NO_REASON.to_owned(),
                reason => reason.to_owned(),
            },
            message: self.message.clone(),
            observed_generation: None,
        }
    }
}

/// A terminal failure. Cluster API copies it to the Cluster or Machine, where nothing removes it:
/// it must not report what may recover, such as a wrong credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The reason, a stable identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The message, a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
}

impl Failure {
    /// Returns the failure that a status of either contract reports.
    pub fn of_status(status: &Value) -> Option<Self> {
        let places = [status, &status["deprecated"]["v1beta1"]];
        let text = |value: &Value| {
            let text = value.as_str().filter(|text| !text.is_empty());
            text.map(str::to_owned)
        };
        let mut failures = places.iter().map(|place| Self {
            failure_reason: text(&place["failureReason"]),
            failure_message: text(&place["failureMessage"]),
        });
        failures.find(|failure| *failure != Self::default())
    }
}

/// The field `status.deprecated` of `v1beta2`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deprecated {
    /// What `v1beta1` has in the status itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<DeprecatedStatus>,
}

/// What a status of `v1beta1` has in addition to one of `v1beta2`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeprecatedStatus {
    /// The conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The terminal failure.
    #[serde(flatten)]
    pub failure: Failure,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn v1beta2(status: &str, reason: &str) -> NewCondition {
        serde_json::from_value(json!({
            "type": "Ready", "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn conditions_are_converted_with_a_severity_only_if_false() {
        for (status, reason, severity, expected) in [
            ("False", "Broken", Some("Error"), Some("Broken")),
            ("True", "Done", None, Some("Done")),
            ("Unknown", "Waiting", None, Some("Waiting")),
            ("True", NO_REASON, None, None),
        ] {
            let given = v1beta2(status, reason);
            let old = Condition::from_v1beta2(&given, Severity::Error);
            let mut json = json!({
                "type": "Ready", "status": status, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            if let Some(severity) = severity {
                json["severity"] = severity.into();
            }
            if let Some(reason) = expected {
                json["reason"] = reason.into();
            }
            assert_eq!(serde_json::to_value(&old).unwrap(), json);
            assert_eq!(old.to_v1beta2(), given);
        }
    }

    #[test]
    fn failure_is_read_from_either_contract() {
        let failure = |reason: Option<&str>, message: Option<&str>| Failure {
            failure_reason: reason.map(str::to_owned),
            failure_message: message.map(str::to_owned),
        };
        for (status, expected) in [
            (json!(null), None),
            (json!({"failureReason": "", "ready": false}), None),
            (
                json!({"failureReason": "CreateError", "failureMessage": "no"}),
                Some(failure(Some("CreateError"), Some("no"))),
            ),
            (
                json!({"deprecated": {"v1beta1": {"failureMessage": "no"}}}),
                Some(failure(None, Some("no"))),
            ),
        ] {
            assert_eq!(Failure::of_status(&status), expected, "{status}");
        }
        let deprecated = Deprecated {
            v1beta1: Some(DeprecatedStatus {
                conditions: Vec::new(),
                failure: failure(Some("CreateError"), None),
            }),
        };
        let json = json!({"v1beta1": {"failureReason": "CreateError"}});
        assert_eq!(serde_json::to_value(&deprecated).unwrap(), json);
        assert_eq!(
            serde_json::from_value::<Deprecated>(json).unwrap(),
            deprecated
        );
    }
}
