//! The explanation of a credential, and what it amounts to.

use std::fmt;

use insula_identity::decide::Refusal;
use insula_identity::explain::Explanation;
use insula_identity::reason::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The explanation of an object's credential.
#[derive(Debug)]
pub struct CredentialReport {
    /// The object, as in `VSphereCluster red/prod`.
    pub object: String,
    /// The decision.
    pub decision: Decision,
    /// Facts that were assumed.
    pub assumptions: Vec<String>,
    /// The operator's last condition in the object's status.
    pub operator_condition: Option<Condition>,
    /// Settings of the operator that the decision depends on.
    pub(super) settings: Vec<String>,
    pub(super) generation: Option<i64>,
    pub(super) reasons: fn(Reason) -> &'static str,
}

/// How the credential was decided.
#[derive(Debug)]
pub enum Decision {
    /// Decided step by step.
    Explained(Box<Explanation>),
    /// Refused before anything was read.
    Refused(Refusal),
    /// Not decidable, because the caller may not read something.
    Unknown(String),
}

/// What an explanation amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object gets a credential.
    Granted,
    /// The object gets none.
    Refused,
    /// The caller may not read what decides, and the operator has not reported it.
    Unknown,
}

impl CredentialReport {
    /// Returns whether the object gets a credential. If something had to be assumed or is not
    /// known, the operator's condition decides.
    pub fn verdict(&self) -> Verdict {
        let verdict = match &self.decision {
            Decision::Explained(explanation) if explanation.decision.is_ok() => Verdict::Granted,
            Decision::Explained(_) | Decision::Refused(_) => return Verdict::Refused,
            Decision::Unknown(_) => Verdict::Unknown,
        };
        if verdict == Verdict::Granted && self.assumptions.is_empty() {
            return Verdict::Granted;
        }
        match &self.operator_condition {
            Some(condition) if !self.is_current(condition) => verdict,
            Some(condition) if condition.status == "True" => Verdict::Granted,
            Some(condition) if self.has_reason(condition, &REFUSALS) => Verdict::Refused,
            Some(condition) if self.has_reason(condition, &SENT) => Verdict::Granted,
            Some(_) | None => verdict,
        }
    }

    /// Returns whether a condition is about the object as it is now.
    fn is_current(&self, condition: &Condition) -> bool {
        let observed = condition.observed_generation;
        observed.is_none() || observed == self.generation
    }

    /// Returns whether the object gets a credential, as far as is known.
    pub fn is_granted(&self) -> bool {
        self.verdict() == Verdict::Granted
    }

    /// Returns whether a condition is false for one of these reasons.
    fn has_reason(&self, condition: &Condition, reasons: &[Reason]) -> bool {
        let is = |reason: &Reason| (self.reasons)(*reason) == condition.reason;
        condition.status == "False" && reasons.iter().any(is)
    }
}

/// Reasons for which an object gets no credential.
const REFUSALS: [Reason; 7] = [
    Reason::IdentityNotFound,
    Reason::IdentityNotReady,
    Reason::NamespaceNotAllowed,
    Reason::SecretNotAvailable,
    Reason::SecretInUse,
    Reason::EndpointNotAllowed,
    Reason::NoCredentials,
];

/// Reasons that are about a server to which a credential was sent, or would have been.
const SENT: [Reason; 4] = [
    Reason::CertificateNotTrusted,
    Reason::Unreachable,
    Reason::Forbidden,
    Reason::NotServed,
];

impl fmt::Display for CredentialReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.object)?;
        for setting in &self.settings {
            writeln!(out, "{setting}")?;
        }
        match &self.decision {
            Decision::Explained(explanation) => self.write_explanation(out, explanation)?,
            Decision::Refused(refusal) => self.write_refusal(out, refusal)?,
            Decision::Unknown(why) => writeln!(out, "not known: {why}")?,
        }
        for assumption in &self.assumptions {
            writeln!(out, "note: {assumption}")?;
        }
        match &self.operator_condition {
            None => writeln!(out, "the operator has not reported a condition yet"),
            Some(condition) => {
                let (kind, status, reason) =
                    (&condition.type_, &condition.status, &condition.reason);
                write!(out, "the operator reports {kind}={status} ({reason})")?;
                match condition.message.as_str() {
                    "" => writeln!(out),
                    message => writeln!(out, ": {message}"),
                }
            }
        }
    }
}

impl CredentialReport {
    fn write_explanation(
        &self,
        out: &mut fmt::Formatter<'_>,
        explanation: &Explanation,
    ) -> fmt::Result {
        match &explanation.decision {
            Ok(_) => writeln!(out, "{explanation}"),
            Err(refusal) => {
                for step in &explanation.steps {
                    writeln!(out, "- {step}")?;
                }
                self.write_refusal(out, refusal)
            }
        }
    }

    fn write_refusal(&self, out: &mut fmt::Formatter<'_>, refusal: &Refusal) -> fmt::Result {
        let (message, reason) = (&refusal.message, (self.reasons)(refusal.reason));
        writeln!(out, "no credential: {message} ({reason})")?;
        match &refusal.hint {
            Some(hint) => writeln!(out, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::condition::seconds;

    #[test]
    fn unknown_credential_is_reported_as_the_operator_knows_it() {
        let (unknown, refused) = (Verdict::Unknown, Verdict::Refused);
        for (status, reason, observed, expected) in [
            ("True", "Available", Some(2), Verdict::Granted),
            ("True", "Available", None, Verdict::Granted),
            ("True", "Available", Some(1), unknown),
            ("False", "IdentityNotFound", Some(2), refused),
            ("False", "IdentityNotFound", Some(1), unknown),
            ("False", "SecretInUse", Some(2), refused),
            ("False", "Unreachable", Some(2), Verdict::Granted),
            ("False", "InvalidCredentials", Some(2), unknown),
            ("False", "Deleting", Some(2), unknown),
            ("False", "ServerUnavailable", Some(2), unknown),
            ("False", "OwnerMismatch", Some(2), unknown),
        ] {
            let report = CredentialReport {
                object: "Cloud a/b".to_owned(),
                decision: Decision::Unknown("you may not read it".to_owned()),
                assumptions: Vec::new(),
                operator_condition: Some(Condition {
                    type_: "Available".to_owned(),
                    status: status.to_owned(),
                    reason: reason.to_owned(),
                    message: String::new(),
                    observed_generation: observed,
                    last_transition_time: seconds(Timestamp::UNIX_EPOCH),
                }),
                settings: Vec::new(),
                generation: Some(2),
                reasons: Reason::as_str,
            };
            assert_eq!(report.verdict(), expected, "{status} {reason} {observed:?}");
        }
    }
}
