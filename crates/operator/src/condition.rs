//! Status conditions.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A condition without its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition<'a> {
    /// The condition type.
    pub kind: &'a str,
    /// Whether the status is `True` or `False`.
    pub status: bool,
    /// The reason, a stable identifier.
    pub reason: &'a str,
    /// The message, a sentence.
    pub message: String,
    /// The observed generation.
    pub generation: Option<i64>,
}

/// Sets a condition and keeps all others. The transition time changes only with the status,
/// because users and tools wait for it.
pub fn set(conditions: &mut Vec<Condition>, new: NewCondition<'_>, now: Timestamp) {
    let status = if new.status { "True" } else { "False" };
    let place = conditions
        .iter()
        .position(|condition| condition.type_ == new.kind);
    let since = place
        .map(|at| &conditions[at])
        .filter(|before| before.status == status)
        .map_or_else(
            || seconds(now),
            |before| before.last_transition_time.clone(),
        );
    let condition = Condition {
        type_: new.kind.to_owned(),
        status: status.to_owned(),
        reason: new.reason.to_owned(),
        message: new.message,
        observed_generation: new.generation,
        last_transition_time: since,
    };
    match place {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Truncates a time to whole seconds, as the API server stores it.
pub fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// The summary of all other conditions.
pub const READY: &str = "Ready";

/// A status with conditions.
pub trait Conditions {
    /// Returns the conditions.
    fn conditions(&self) -> &[Condition];

    /// Returns the conditions to change.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

/// Implements [`Conditions`](crate::condition::Conditions) for types with a field `conditions`.
#[macro_export]
macro_rules! has_conditions {
    ($($status:ty),+ $(,)?) => {$(
        impl $crate::condition::Conditions for $status {
            fn conditions(&self) -> &[$crate::condition::Condition] {
                &self.conditions
            }

            fn conditions_mut(&mut self) -> &mut Vec<$crate::condition::Condition> {
                &mut self.conditions
            }
        }
    )+};
}

/// A writer for the conditions of one object.
pub struct ConditionWriter<'a> {
    /// The conditions to change.
    pub conditions: &'a mut Vec<Condition>,
    /// The generation that was observed.
    pub generation: Option<i64>,
    /// The time of a transition.
    pub now: Timestamp,
}

impl<'a> ConditionWriter<'a> {
    /// Returns a writer for the conditions of an object, which are about its current generation.
    pub fn of<K>(object: &'a mut K, now: Timestamp) -> Self
    where
        K: Resource + HasStatus<Status: Conditions + Default>,
    {
        let generation = object.meta().generation;
        let status = object.status_mut().get_or_insert_default();
        Self {
            conditions: status.conditions_mut(),
            generation,
            now,
        }
    }

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
        set(self.conditions, said, self.now);
    }
}

/// Returns the condition of that type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Returns the condition of that type in the status of an object.
pub fn find_in<'a, K>(object: &'a K, kind: &str) -> Option<&'a Condition>
where
    K: HasStatus<Status: Conditions + 'a>,
{
    find(object.status()?.conditions(), kind)
}

/// Returns the line of the summary for a condition that is not true.
fn line(condition: &Condition) -> String {
    let text = match condition.message.as_str() {
        "" => &condition.reason,
        message => message,
    };
    format!("* {}: {text}", condition.type_)
}

/// Deserializes the conditions that are valid and skips the others: a user who may write a status
/// must not be able to make the whole object unreadable with an invalid time.
///
/// # Errors
///
/// If the input is no list.
pub fn valid_conditions<'de, D>(input: D) -> Result<Vec<Condition>, D::Error>
where
    D: Deserializer<'de>,
{
    let all = Option::<Vec<Value>>::deserialize(input)?.unwrap_or_default();
    let understood = all
        .into_iter()
        .filter_map(|one| serde_json::from_value(one).ok());
    Ok(understood.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(status: bool, reason: &'static str) -> NewCondition<'static> {
        NewCondition {
            kind: "Ready",
            status,
            reason,
            message: format!("because of {reason}"),
            generation: Some(2),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_changes_only_with_status() {
        let mut conditions = Vec::new();
        for (second, status, reason, since) in [
            (1, false, "Made", 1),
            (2, false, "Failed", 1),
            (3, true, "Done", 3),
            (4, true, "Done", 3),
            (5, false, "Failed", 5),
        ] {
            set(&mut conditions, new(status, reason), at(second));
            let [condition] = conditions.as_slice() else {
                panic!("one condition, not {conditions:?}");
            };
            assert_eq!(condition.last_transition_time, Time(at(since)), "{second}");
            assert_eq!(condition.status, if status { "True" } else { "False" });
            assert_eq!(condition.reason, reason);
            assert_eq!(condition.message, format!("because of {reason}"));
            assert_eq!(condition.observed_generation, Some(2));
        }
    }

    #[test]
    fn other_conditions_keep_their_position() {
        let mut conditions = Vec::new();
        set(
            &mut conditions,
            NewCondition {
                kind: "A",
                ..new(true, "X")
            },
            at(1),
        );
        set(
            &mut conditions,
            NewCondition {
                kind: "B",
                ..new(true, "X")
            },
            at(2),
        );
        set(
            &mut conditions,
            NewCondition {
                kind: "A",
                ..new(false, "Y")
            },
            at(3),
        );
        let kinds: Vec<_> = conditions
            .iter()
            .map(|condition| (condition.type_.as_str(), condition.status.as_str()))
            .collect();
        assert_eq!(kinds, [("A", "False"), ("B", "True")]);
    }

    #[test]
    fn time_is_truncated_to_seconds() {
        let now = Timestamp::new(7, 999_999_999).unwrap();
        assert_eq!(seconds(now), Time(at(7)));
    }

    #[test]
    fn ready_summarizes_false_conditions_in_order() {
        const KINDS: &[&str] = &["Available", "FailureDomainsReady"];
        type There = &'static [(&'static str, bool, &'static str)];
        type Expected = Option<(&'static str, &'static str, &'static str)>;
        let table: &[(There, Expected)] = &[
            (&[], None),
            (&[("FailureDomainsReady", false, "no")], None),
            (&[("Available", true, "")], Some(("True", "Ready", ""))),
            (
                &[
                    ("Available", true, "fine"),
                    ("FailureDomainsReady", true, ""),
                ],
                Some(("True", "Ready", "")),
            ),
            (
                &[
                    ("Available", true, "fine"),
                    ("FailureDomainsReady", false, "one is not"),
                ],
                Some(("False", "NotReady", "* FailureDomainsReady: one is not")),
            ),
            (
                &[
                    ("FailureDomainsReady", false, ""),
                    ("Available", false, "no answer"),
                ],
                Some((
                    "False",
                    "NotReady",
                    "* Available: no answer\n* FailureDomainsReady: Why",
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
}
