//! The condition `Ready`, with a severity as users of Azure Service Operator know it.

use insula_identity::reason::Reason;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::arm::error::ArmError;

/// The type of the condition.
pub(crate) const READY: &str = "Ready";
/// The type of the condition of an object that two operators are to reconcile.
pub(super) const OVERLAP: &str = "OperatorOverlap";

/// Reasons for which nothing is sent to Azure. They are obsolete once Azure works on the resource.
const BEFORE_REQUEST: [&str; 17] = [
    "WaitingForOwner",
    "ReferenceNotFound",
    "SecretNotFound",
    "ConfigMapNotFound",
    "AzureResourceNotFound",
    "ReconciliationBlocked",
    "DuplicateResource",
    "SubscriptionMismatch",
    Reason::IdentityNotFound.as_str(),
    Reason::NamespaceNotAllowed.as_str(),
    Reason::SecretNotAvailable.as_str(),
    Reason::InvalidCredentials.as_str(),
    Reason::EndpointNotAllowed.as_str(),
    Reason::NoCredentials.as_str(),
    Reason::CertificateNotTrusted.as_str(),
    Reason::Unreachable.as_str(),
    Reason::Forbidden.as_str(),
];

/// How serious a condition is that is not true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// The operator is working.
    Info,
    /// The operator tries again.
    Warning,
    /// The operator waits for a change of the object.
    Error,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "Info",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

/// A state that is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// How serious it is.
    pub severity: Severity,
    /// A stable identifier: one of the operator's, or the code of Azure's error.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

impl Problem {
    pub(super) fn new(severity: Severity, reason: &str, message: impl Into<String>) -> Self {
        Self {
            severity,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, reason, message)
    }

    pub(super) fn error(reason: &str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, reason, message)
    }

    /// Returns the state during an operation in Azure.
    pub(super) fn reconciling() -> Self {
        let message = "Azure is creating or updating the resource";
        Self::new(Severity::Info, "Reconciling", message)
    }

    /// Returns the state during a deletion in Azure.
    pub(super) fn deleting() -> Self {
        let message = "Azure is deleting the resource";
        Self::new(Severity::Info, "Deleting", message)
    }

    /// Returns the problem of an error of Azure.
    pub(super) fn of_azure(severity: Severity, error: &ArmError) -> Self {
        let code = error.code.as_str();
        // Reasons of conditions have no other characters.
        let is_reason = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let reason = match code.bytes().all(is_reason) && !code.is_empty() {
            true => code,
            false => "Failed",
        };
        Self::new(severity, reason, error.to_string())
    }
}

/// The condition as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a>(&'a Value);

impl<'a> Stored<'a> {
    /// Returns the condition of a status, if it has one.
    pub(super) fn of(status: &'a Value) -> Option<Self> {
        Self::among(status["conditions"].as_array()?)
    }

    fn among(conditions: &'a [Value]) -> Option<Self> {
        let mut conditions = conditions.iter();
        conditions
            .find(|condition| condition["type"] == READY)
            .map(Self)
    }

    /// Returns whether it is true for this generation.
    pub(super) fn is_true_at(self, generation: i64) -> bool {
        self.0["status"] == "True" && self.is_at(generation)
    }

    /// Returns whether it is an error for this generation, after which the operator waits.
    pub(super) fn is_error_at(self, generation: i64) -> bool {
        self.0["severity"] == Severity::Error.as_str() && self.is_at(generation)
    }

    /// Returns whether it has this reason.
    pub(super) fn has_reason(self, reason: &str) -> bool {
        self.0["reason"] == reason
    }

    /// Returns whether it stays in the place of another one for this generation: the resource of
    /// an object that has not changed is as ready or as broken as it was while Azure works on it.
    fn outweighs(self, problem: Option<&Problem>, generation: i64) -> bool {
        let is_info = problem.is_some_and(|problem| problem.severity == Severity::Info);
        let reason = self.0["reason"].as_str().unwrap_or_default();
        self.is_at(generation)
            && is_info
            && self.0["severity"] != Severity::Info.as_str()
            && !BEFORE_REQUEST.contains(&reason)
    }

    fn is_at(self, generation: i64) -> bool {
        self.0["observedGeneration"] == generation
    }
}

/// Sets `Ready` in a status, unless the condition that it has outweighs the new one. The transition
/// time changes only with the status, reason or severity, because users and tools wait for it.
pub(super) fn set(
    status: &mut Map<String, Value>,
    problem: Option<&Problem>,
    generation: i64,
    now: Timestamp,
) {
    let conditions = status.get("conditions").and_then(Value::as_array);
    let stored = conditions.and_then(|conditions| Stored::among(conditions));
    if stored.is_some_and(|stored| stored.outweighs(problem, generation)) {
        return;
    }
    let mut condition = match problem {
        None => json!({"type": READY, "status": "True", "reason": "Succeeded"}),
        Some(problem) => json!({
            "type": READY, "status": "False", "severity": problem.severity.as_str(),
            "reason": problem.reason, "message": problem.message,
        }),
    };
    condition["observedGeneration"] = generation.into();
    put(status, condition, &["status", "reason", "severity"], now);
}

/// Sets or removes the condition of an object that two operators are to reconcile.
pub(super) fn set_overlap(status: &mut Map<String, Value>, message: Option<&str>, now: Timestamp) {
    match message {
        Some(message) => {
            let condition = json!({
                "type": OVERLAP, "status": "True", "severity": Severity::Warning.as_str(),
                "reason": "Overlap", "message": message,
            });
            put(status, condition, &["status", "message"], now);
        }
        None => {
            if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
                conditions.retain(|condition| condition["type"] != OVERLAP);
            }
        }
    }
}

/// Replaces the condition of a type. The time of the last transition stays unless one of these
/// members changes.
fn put(status: &mut Map<String, Value>, mut condition: Value, members: &[&str], now: Timestamp) {
    let conditions = status
        .entry("conditions")
        .or_insert_with(|| Value::Array(Vec::new()));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let before = conditions
        .iter()
        .position(|known| known["type"] == condition["type"]);
    let unchanged = before.filter(|&at| {
        let known = &conditions[at];
        members
            .iter()
            .all(|member| known[*member] == condition[*member])
    });
    condition["lastTransitionTime"] = match unchanged {
        Some(at) => conditions[at]["lastTransitionTime"].clone(),
        None => now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into(),
    };
    match before {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn transition_time_changes_with_status_reason_or_severity_only() {
        let mut status = Map::new();
        set(&mut status, Some(&Problem::warning("A", "one")), 1, time(0));
        let since =
            |status: &Map<String, Value>| status["conditions"][0]["lastTransitionTime"].clone();
        assert_eq!(since(&status), "1970-01-01T00:00:00Z");
        set(&mut status, Some(&Problem::warning("A", "two")), 2, time(5));
        assert_eq!(since(&status), "1970-01-01T00:00:00Z");
        assert_eq!(status["conditions"][0]["message"], "two");
        assert_eq!(status["conditions"][0]["observedGeneration"], 2);
        set(&mut status, Some(&Problem::error("A", "two")), 2, time(6));
        assert_eq!(since(&status), "1970-01-01T00:00:06Z");
        set(&mut status, None, 2, time(7));
        assert_eq!(since(&status), "1970-01-01T00:00:07Z");
        let ready = &status["conditions"][0];
        assert_eq!(ready["reason"], "Succeeded");
        assert_eq!(ready.get("severity"), None);
        assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
    }

    /// The rules of one generation: what `Ready` is after it was one thing and another is reported.
    #[test]
    fn work_in_azure_replaces_nothing_but_work_and_what_blocked_it() {
        let (succeeded, info) = (None, Some(Problem::reconciling()));
        let warning = Some(Problem::warning("Conflict", ""));
        let error = Some(Problem::error("LocationRequired", ""));
        let waiting = Some(Problem::warning("WaitingForOwner", ""));
        let denied = Some(Problem::warning("InvalidCredentials", ""));
        let mismatch = Some(Problem::error("SubscriptionMismatch", ""));
        let deleting = Some(Problem::deleting());
        let reason = |problem: &Option<Problem>| {
            let reason = problem.as_ref().map(|problem| problem.reason.clone());
            reason.unwrap_or_else(|| "Succeeded".to_owned())
        };
        let after = |before: &Option<Problem>, next: &Option<Problem>, generations: (i64, i64)| {
            let mut status = Map::new();
            set(&mut status, before.as_ref(), generations.0, time(0));
            set(&mut status, next.as_ref(), generations.1, time(5));
            let ready = &status["conditions"][0];
            let text = |name: &str| ready[name].as_str().unwrap().to_owned();
            let is_same = text("lastTransitionTime") == "1970-01-01T00:00:00Z";
            assert_eq!(ready["observedGeneration"], generations.1);
            (text("reason"), is_same)
        };
        for before in [&succeeded, &warning, &error] {
            assert_eq!(after(before, &info, (1, 1)), (reason(before), true));
            assert_eq!(after(before, &deleting, (1, 1)), (reason(before), true));
            assert_eq!(after(before, before, (1, 1)), (reason(before), true));
            // A change of the object begins from the start.
            assert_eq!(after(before, &info, (1, 2)), (reason(&info), false));
            for next in [&succeeded, &warning, &error] {
                let is_same = before == next;
                assert_eq!(after(before, next, (1, 1)), (reason(next), is_same));
            }
        }
        for before in [&info, &waiting, &denied, &mismatch] {
            for next in [&info, &deleting, &succeeded, &warning, &error] {
                let is_same = before == next;
                assert_eq!(after(before, next, (1, 1)), (reason(next), is_same));
            }
        }
    }

    #[test]
    fn condition_counts_for_its_generation_only() {
        let mut status = Map::new();
        set(&mut status, None, 3, time(0));
        let status = Value::Object(status);
        let ready = Stored::of(&status).unwrap();
        assert!(ready.is_true_at(3) && !ready.is_true_at(4) && !ready.is_error_at(3));
        let mut status = Map::new();
        set(&mut status, Some(&Problem::error("A", "")), 3, time(0));
        let status = Value::Object(status);
        let ready = Stored::of(&status).unwrap();
        assert!(ready.is_error_at(3) && !ready.is_error_at(4) && !ready.is_true_at(3));
        assert!(Stored::of(&json!({"conditions": []})).is_none());
    }

    #[test]
    fn overlap_is_beside_ready() {
        let mut status = Map::new();
        set(&mut status, None, 1, time(0));
        set_overlap(&mut status, Some("two operators"), time(1));
        let types = |status: &Map<String, Value>| -> Vec<String> {
            let conditions = status["conditions"].as_array().unwrap().iter();
            conditions
                .map(|condition| condition["type"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(types(&status), [READY, OVERLAP]);
        set_overlap(&mut status, None, time(2));
        assert_eq!(types(&status), [READY]);
    }

    #[test]
    fn code_of_an_error_is_the_reason_if_it_can_be_one() {
        for (code, reason) in [
            ("ScopeLocked", "ScopeLocked"),
            ("", "Failed"),
            ("a b", "Failed"),
        ] {
            let error = ArmError::new(StatusCode::CONFLICT, code, "no");
            let problem = Problem::of_azure(Severity::Warning, &error);
            assert_eq!(problem.reason, reason, "{code}");
            assert!(problem.message.contains("no"), "{code}");
        }
    }
}
