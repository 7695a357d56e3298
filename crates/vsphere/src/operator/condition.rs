//! Conditions of objects.

use insula_identity::reason::Reason;
use insula_operator::condition::{self, Said};
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
pub(super) struct Saying<'a> {
    /// The conditions to change.
    pub conditions: &'a mut Vec<Condition>,
    /// The generation that was observed.
    pub generation: Option<i64>,
    /// The time of a transition.
    pub now: Timestamp,
}

impl Saying<'_> {
    /// Sets a condition to true.
    pub fn yes(&mut self, kind: &str, reason: &str, message: impl Into<String>) {
        self.say(kind, true, reason, message.into());
    }

    /// Sets a condition to false.
    pub fn no(&mut self, kind: &str, reason: &str, message: impl Into<String>) {
        self.say(kind, false, reason, message.into());
    }

    /// Removes a condition.
    pub fn nothing(&mut self, kind: &str) {
        self.conditions.retain(|condition| condition.type_ != kind);
    }

    /// Sets `Ready` from these conditions; its message lists those that are not true, in this
    /// order. Missing conditions are ignored, but without the first one `Ready` is not set.
    pub fn summary(&mut self, kinds: &[&str]) {
        let said = |kind: &&str| find(self.conditions, kind);
        if kinds.first().and_then(said).is_none() {
            return;
        }
        let told: Vec<_> = kinds.iter().filter_map(said).collect();
        let issues: Vec<_> = told.iter().filter(|told| told.status != "True").collect();
        let lines: Vec<_> = issues.iter().map(|told| line(told)).collect();
        match lines.is_empty() {
            true => self.yes(READY, "Ready", ""),
            false => self.no(READY, "NotReady", lines.join("\n")),
        }
    }

    fn say(&mut self, kind: &str, is: bool, reason: &str, message: String) {
        let said = Said {
            kind,
            is,
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
fn line(told: &Condition) -> String {
    let text = match told.message.as_str() {
        "" => &told.reason,
        message => message,
    };
    format!("* {}: {text}", told.type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_a_line_for_everything_that_is_not_so_in_order() {
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
            let mut saying = Saying {
                conditions: &mut conditions,
                generation: Some(3),
                now: Timestamp::UNIX_EPOCH,
            };
            for (kind, is, message) in *said {
                saying.say(kind, *is, "Why", (*message).to_owned());
            }
            saying.summary(KINDS);
            let ready = find(&conditions, READY);
            let ready = ready.map(|told| {
                assert_eq!(told.observed_generation, Some(3));
                (
                    told.status.as_str(),
                    told.reason.as_str(),
                    told.message.as_str(),
                )
            });
            assert_eq!(ready, *expected, "{said:?}");
        }
    }

    #[test]
    fn reasons_are_told_in_the_words_of_this_provider() {
        assert_eq!(reason(Reason::Unreachable), "VCenterUnreachable");
        assert_eq!(reason(Reason::EndpointNotAllowed), "ServerNotAllowed");
        assert_eq!(reason(Reason::NamespaceNotAllowed), "NamespaceNotAllowed");
    }
}
