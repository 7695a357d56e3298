//! Status conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

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
}
