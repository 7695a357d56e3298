//! Whether and when an object is reconciled again.

use std::time::Duration;

/// The class of a failure, which decides about the retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Another actor must act first, and that may not be observable.
    Blocked,
    /// A retry may succeed.
    Transient,
    /// The server refuses it until permissions change.
    Refused,
    /// The object is invalid: only a change of it helps.
    Mistaken,
}

impl Class {
    /// Classifies an error of the server.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                400 | 401 | 403 | 405 | 422 => Self::Refused,
                _ => Self::Transient,
            },
            _ => Self::Transient,
        }
    }

    /// The first and the longest backoff.
    const fn pauses(self) -> Option<(Duration, Duration)> {
        let (first, longest) = match self {
            Self::Blocked => (1_000, 10_000),
            Self::Transient => (200, 15_000),
            Self::Refused => (2_000, 60_000),
            Self::Mistaken => return None,
        };
        Some((Duration::from_millis(first), Duration::from_millis(longest)))
    }
}

/// The outcome of a reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The actual state is the desired one; the object is resynced after this interval.
    Settled(Duration),
    /// A part that was in its desired state had to be repaired: if another actor keeps undoing it,
    /// repairs slow down.
    Repaired,
    /// Progress was made, and there may be more to do.
    Progressed,
    /// The object waits for an event, at most for this interval.
    Waits(Duration),
    /// The reconciliation failed.
    Failed(Class),
    /// The object no longer exists.
    Gone,
}

/// When an object is reconciled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// After this interval; `None` waits for an event.
    pub after: Option<Duration>,
    /// How long events of its parts are delayed. Events of the object itself never are.
    pub rests: Duration,
}

/// The history of an object's reconciliations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Consecutive failures, this one included.
    pub failures: u32,
    /// Consecutive repairs, this one included.
    pub repairs: u32,
    /// Reconciliations since the desired state was last reached.
    pub rounds: u32,
}

/// How long events of parts are delayed for an object in its desired state, so that an actor that
/// only touches parts cannot keep the operator busy.
const REST: Duration = Duration::from_secs(1);
/// The first and the longest delay before a repair that another actor keeps undoing.
const TRUCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The consecutive repairs that are not delayed: an administrator may change several parts.
const HONEST: u32 = 10;
/// The reconciliations after which another actor must be preventing the desired state.
pub(crate) const ROUNDS: u32 = 20;

impl Outcome {
    /// Returns whether and when the object is reconciled again.
    pub fn next(self, row: Row) -> Next {
        let rest_if = |rests: bool| if rests { REST } else { Duration::ZERO };
        let truce = grown(TRUCE, row.repairs.saturating_sub(HONEST));
        let endless = row.rounds > ROUNDS;
        let (after, rests) = match self {
            Self::Settled(pause) => (Some(pause), REST),
            Self::Waits(pause) => (Some(pause), rest_if(endless)),
            Self::Repaired => (Some(truce), truce),
            Self::Progressed => (Some(rest_if(endless)), rest_if(endless)),
            Self::Failed(class) => {
                let pause = class.pauses().map(|pauses| grown(pauses, row.failures));
                (pause, pause.unwrap_or(REST))
            }
            Self::Gone => (None, Duration::ZERO),
        };
        Next { after, rests }
    }
}

/// Returns the backoff after so many times: each twice the one before.
fn grown((first, longest): (Duration, Duration), times: u32) -> Duration {
    let factor = 2_u32.saturating_pow(times.saturating_sub(1));
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_outcome_says_when_and_how_long_others_are_not_heard_before() {
        let (none, tenth) = (Duration::ZERO, SECOND / 5);
        let table = [
            (Outcome::Settled(60 * SECOND), Some(60 * SECOND), SECOND),
            (Outcome::Waits(SECOND), Some(SECOND), none),
            (Outcome::Progressed, Some(none), none),
            (Outcome::Repaired, Some(SECOND), SECOND),
            (Outcome::Gone, None, none),
            (Outcome::Failed(Class::Blocked), Some(SECOND), SECOND),
            (Outcome::Failed(Class::Transient), Some(tenth), tenth),
            (
                Outcome::Failed(Class::Refused),
                Some(2 * SECOND),
                2 * SECOND,
            ),
            (Outcome::Failed(Class::Mistaken), None, SECOND),
        ];
        let row = Row {
            failures: 1,
            repairs: 1,
            rounds: 1,
        };
        for (outcome, after, rests) in table {
            assert_eq!(outcome.next(row), Next { after, rests }, "{outcome:?}");
        }
    }

    #[test]
    fn pauses_grow_with_failures_in_a_row_up_to_the_longest() {
        for (class, failures, seconds) in [
            (Class::Blocked, 3, 4),
            (Class::Blocked, 9, 10),
            (Class::Transient, 40, 15),
            (Class::Refused, u32::MAX, 60),
        ] {
            let row = Row {
                failures,
                ..Row::default()
            };
            let after = Outcome::Failed(class).next(row).after;
            assert_eq!(after, Some(seconds * SECOND), "{class:?} {failures}");
        }
    }

    #[test]
    fn a_truce_is_short_for_honest_work_and_grows_to_a_minute_for_a_war() {
        for (repairs, seconds) in [
            (0, 1),
            (1, 1),
            (10, 1),
            (11, 1),
            (12, 2),
            (13, 4),
            (16, 32),
            (17, 60),
            (u32::MAX, 60),
        ] {
            let row = Row {
                repairs,
                ..Row::default()
            };
            let truce = seconds * SECOND;
            let (after, rests) = (Some(truce), truce);
            assert_eq!(
                Outcome::Repaired.next(row),
                Next { after, rests },
                "{repairs}"
            );
        }
    }

    #[test]
    fn what_does_not_come_to_an_end_is_slowed_down() {
        for (rounds, rests) in [(ROUNDS, Duration::ZERO), (ROUNDS + 1, SECOND)] {
            let row = Row {
                rounds,
                ..Row::default()
            };
            let waits = Next {
                after: Some(9 * SECOND),
                rests,
            };
            assert_eq!(Outcome::Waits(9 * SECOND).next(row), waits);
            let after = Some(rests);
            assert_eq!(Outcome::Progressed.next(row), Next { after, rests });
        }
    }

    #[test]
    fn only_what_the_server_refuses_is_refused() {
        let answered = |code| {
            kube::Error::Api(
                Status {
                    code,
                    ..Status::default()
                }
                .boxed(),
            )
        };
        for (code, class) in [
            (400, Class::Refused),
            (401, Class::Refused),
            (403, Class::Refused),
            (404, Class::Transient),
            (409, Class::Transient),
            (410, Class::Transient),
            (422, Class::Refused),
            (429, Class::Transient),
            (500, Class::Transient),
            (503, Class::Transient),
            (504, Class::Transient),
        ] {
            assert_eq!(Class::of(&answered(code)), class, "{code}");
        }
        let cut = kube::Error::Service("connection reset".into());
        assert_eq!(Class::of(&cut), Class::Transient);
    }
}
