//! Whether and when something is tried again.

use std::time::Duration;

/// Why something was not done, as far as trying it again is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Others must act first, and what they do may not be seen.
    Blocked,
    /// It may go well the next time.
    Transient,
    /// The server does not allow it: until somebody changes that, it will not.
    Refused,
    /// The object itself says what cannot be: only a change of it helps.
    Mistaken,
}

impl Class {
    /// What an answer of the server means.
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                400 | 401 | 403 | 405 | 422 => Self::Refused,
                _ => Self::Transient,
            },
            _ => Self::Transient,
        }
    }

    /// The first pause and the longest.
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

/// What became of the work on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as it should be; it is looked at again after this long in any case.
    Settled(Duration),
    /// Something was done that was not needed before: if somebody undoes it, they are not
    /// followed as fast as they can go.
    Repaired,
    /// Something was done, and there may be more.
    Progressed,
    /// It goes on when something happens that will be seen, and after this long in any case.
    Waits(Duration),
    /// It failed.
    Failed(Class),
    /// The object is not there any more.
    Gone,
}

/// When an object is worked on next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// After this long; if never, when something happens.
    pub after: Option<Duration>,
    /// Whether what happens to its parts waits until then. What happens to the object itself
    /// never does.
    pub holds: bool,
}

/// How long whoever undoes what we do is left alone.
const TRUCE: Duration = Duration::from_secs(1);

impl Outcome {
    /// Whether and when the object is worked on again, after it failed this many times in a
    /// row, this one included.
    pub fn next(self, failures: u32) -> Next {
        let (after, holds) = match self {
            Self::Settled(pause) | Self::Waits(pause) => (Some(pause), false),
            Self::Repaired => (Some(TRUCE), true),
            Self::Progressed => (Some(Duration::ZERO), false),
            Self::Failed(class) => (class.pauses().map(|pauses| grown(pauses, failures)), true),
            Self::Gone => (None, false),
        };
        Next {
            after,
            holds: holds && after.is_some(),
        }
    }
}

/// The pause after so many failures: each twice the one before.
fn grown((first, longest): (Duration, Duration), failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_outcome_says_when_and_whether_others_are_heard_before() {
        let table = [
            (Outcome::Settled(60 * SECOND), 0, Some(60 * SECOND), false),
            (Outcome::Waits(SECOND), 0, Some(SECOND), false),
            (Outcome::Progressed, 0, Some(Duration::ZERO), false),
            (Outcome::Repaired, 0, Some(SECOND), true),
            (Outcome::Gone, 0, None, false),
            (Outcome::Failed(Class::Blocked), 1, Some(SECOND), true),
            (Outcome::Failed(Class::Blocked), 3, Some(4 * SECOND), true),
            (Outcome::Failed(Class::Blocked), 9, Some(10 * SECOND), true),
            (Outcome::Failed(Class::Transient), 1, Some(SECOND / 5), true),
            (
                Outcome::Failed(Class::Transient),
                40,
                Some(15 * SECOND),
                true,
            ),
            (Outcome::Failed(Class::Refused), 1, Some(2 * SECOND), true),
            (
                Outcome::Failed(Class::Refused),
                u32::MAX,
                Some(60 * SECOND),
                true,
            ),
            (Outcome::Failed(Class::Mistaken), 1, None, false),
        ];
        for (outcome, failures, after, holds) in table {
            let next = Next { after, holds };
            assert_eq!(outcome.next(failures), next, "{outcome:?} {failures}");
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
