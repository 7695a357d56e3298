//! Conditions of objects.

use insula_identity::reason::Reason;
use insula_operator::condition::{self, NewCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

/// Whether the vCenter can be used.
pub(crate) const VCENTER: &str = "VCenterAvailable";
/// The summary of all other conditions.
pub(super) const READY: &str = "Ready";

/// Returns a reason as it is written to conditions and Events, in this provider's terms.
pub(crate) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Unreachable => "VCenterUnreachable",
        Reason::EndpointNotAllowed => "ServerNotAllowed",
        other => other.as_str(),
    }
}

/// A writer for the conditions of one object.
pub(super) struct ConditionWriter<'a> {
    /// The conditions to change.
    pub conditions: &'a mut Vec<Condition>,
    /// The generation that was observed.
    pub generation: Option<i64>,
    /// The time of a transition.
    pub now: Timestamp,
}

impl ConditionWriter<'_> {
    /// Sets a condition to true.
    pub fn set_true(&mut self, kind: &str, reason: &str, message: impl Into<String>) {
        self.set(kind, true, reason, message.into());
    }

    /// Sets a condition to false.
    pub fn set_false(&mut self, kind: &str, reason: &str, message: impl Into<String>) {
        self.set(kind, false, reason, message.into());
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: &str) {
        self.conditions.retain(|condition| condition.type_ != kind);
    }

    /// Sets `Ready` from these conditions; its message lists those that are not true, in this
    /// order. Missing conditions are ignored, but without the first one `Ready` is not set.
    pub fn summary(&mut self, kinds: &[&str]) {
        let find_kind = |kind: &&str| find(self.conditions, kind);
        if kinds.first().and_then(find_kind).is_none() {
            return;
        }
        let conditions: Vec<_> = kinds.iter().filter_map(find_kind).collect();
        let issues: Vec<_> = conditions
            .iter()
            .filter(|condition| condition.status != "True")
            .collect();
        let lines: Vec<_> = issues.iter().map(|condition| line(condition)).collect();
        match lines.is_empty() {
            true => self.set_true(READY, "Ready", ""),
            false => self.set_false(READY, "NotReady", lines.join("\n")),
        }
    }

    fn set(&mut self, kind: &str, is: bool, reason: &str, message: String) {
        let said = NewCondition {
            kind,
            status: is,
            reason,
            message,
            generation: self.generation,
        };
        condition::set(self.conditions, said, self.now);
    }
}

/// Returns the condition of that type.
pub(crate) fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Returns the line of the summary for a condition that is not true.
fn line(condition: &Condition) -> String {
    let text = match condition.message.as_str() {
        "" => &condition.reason,
        message => message,
    };
    format!("* {}: {text}", condition.type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_summarizes_false_conditions_in_order() {
        const KINDS: &[&str] = &[VCENTER, "FailureDomainsReady"];
        type There = &'static [(&'static str, bool, &'static str)];
        type Expected = Option<(&'static str, &'static str, &'static str)>;
        let table: &[(There, Expected)] = &[
            (&[], None),
            (&[("FailureDomainsReady", false, "no")], None),
            (&[(VCENTER, true, "")], Some(("True", "Ready", ""))),
            (
                &[(VCENTER, true, "fine"), ("FailureDomainsReady", true, "")],
                Some(("True", "Ready", "")),
            ),
            (
                &[
                    (VCENTER, true, "fine"),
                    ("FailureDomainsReady", false, "one is not"),
                ],
                Some(("False", "NotReady", "* FailureDomainsReady: one is not")),
            ),
            (
                &[
                    ("FailureDomainsReady", false, ""),
                    (VCENTER, false, "no answer"),
                ],
                Some((
                    "False",
                    "NotReady",
                    "* VCenterAvailable: no answer\n* FailureDomainsReady: Why",
                )),
            ),
        ];
        for (said, expected) in table {
            let mut conditions = Vec::new();
            let mut writer = ConditionWriter {
                conditions: &mut conditions,
                generation: Some(3),
                now: Timestamp::UNIX_EPOCH,
            };
            for (kind, is, message) in *said {
                writer.set(kind, *is, "Why", (*message).to_owned());
            }
            writer.summary(KINDS);
            let ready = find(&conditions, READY);
            let ready = ready.map(|condition| {
                assert_eq!(condition.observed_generation, Some(3));
                (
                    condition.status.as_str(),
                    condition.reason.as_str(),
                    condition.message.as_str(),
                )
            });
            assert_eq!(ready, *expected, "{said:?}");
        }
    }

    #[test]
    fn reasons_are_named_in_provider_terms() {
        assert_eq!(reason(Reason::Unreachable), "VCenterUnreachable");
        assert_eq!(reason(Reason::EndpointNotAllowed), "ServerNotAllowed");
        assert_eq!(reason(Reason::NamespaceNotAllowed), "NamespaceNotAllowed");
    }
}
