//! Conditions: what is so, since when, and why.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// What a condition says, without since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// Which condition.
    pub kind: &'a str,
    /// Whether it is so.
    pub is: bool,
    /// Why, in one word that never changes its meaning.
    pub reason: &'a str,
    /// Why, in a sentence.
    pub message: String,
    /// The generation of the object that was looked at.
    pub generation: Option<i64>,
}

/// Sets a condition among others, which stay. Since when it is so changes only with whether
/// it is so: that is what people and tools wait for.
pub fn set(conditions: &mut Vec<Condition>, said: Said<'_>, now: Timestamp) {
    let status = if said.is { "True" } else { "False" };
    let place = conditions
        .iter()
        .position(|condition| condition.type_ == said.kind);
    let since = place
        .map(|at| &conditions[at])
        .filter(|before| before.status == status)
        .map_or_else(
            || seconds(now),
            |before| before.last_transition_time.clone(),
        );
    let condition = Condition {
        type_: said.kind.to_owned(),
        status: status.to_owned(),
        reason: said.reason.to_owned(),
        message: said.message,
        observed_generation: said.generation,
        last_transition_time: since,
    };
    match place {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// A time as servers keep it: in whole seconds.
pub fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(is: bool, reason: &'static str) -> Said<'static> {
        Said {
            kind: "Ready",
            is,
            reason,
            message: format!("because of {reason}"),
            generation: Some(2),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn since_when_changes_only_with_whether() {
        let mut conditions = Vec::new();
        for (second, is, reason, since) in [
            (1, false, "Made", 1),
            (2, false, "Failed", 1),
            (3, true, "Done", 3),
            (4, true, "Done", 3),
            (5, false, "Failed", 5),
        ] {
            set(&mut conditions, said(is, reason), at(second));
            let [condition] = conditions.as_slice() else {
                panic!("one condition, not {conditions:?}");
            };
            assert_eq!(condition.last_transition_time, Time(at(since)), "{second}");
            assert_eq!(condition.status, if is { "True" } else { "False" });
            assert_eq!(condition.reason, reason);
            assert_eq!(condition.message, format!("because of {reason}"));
            assert_eq!(condition.observed_generation, Some(2));
        }
    }

    #[test]
    fn conditions_of_others_stay_where_they_are() {
        let mut conditions = Vec::new();
        set(
            &mut conditions,
            Said {
                kind: "A",
                ..said(true, "X")
            },
            at(1),
        );
        set(
            &mut conditions,
            Said {
                kind: "B",
                ..said(true, "X")
            },
            at(2),
        );
        set(
            &mut conditions,
            Said {
                kind: "A",
                ..said(false, "Y")
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
    fn a_time_is_what_the_server_gives_back() {
        let now = Timestamp::new(7, 999_999_999).unwrap();
        assert_eq!(seconds(now), Time(at(7)));
    }
}
