//! The status of data, from its state.

use super::super::access::Problem;
use crate::kinds::data::Metal3DataStatus;

/// The state of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its Secrets exist.
    Ready,
    /// It waits for another object.
    Waiting,
    /// What was known before still holds.
    AsBefore,
    /// It cannot be rendered, or not be deleted.
    Problem(Problem),
}

/// Returns the new status. Data that was ready stays so: its Secrets are not rewritten.
pub(super) fn conclude(before: &Metal3DataStatus, state: &State) -> Metal3DataStatus {
    let was_ready = before.ready == Some(true);
    Metal3DataStatus {
        ready: Some(was_ready || *state == State::Ready),
        error_message: match state {
            State::Ready | State::Waiting => None,
            State::AsBefore => before.error_message.clone(),
            State::Problem(problem) => Some(problem.message.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_data_stays_ready() {
        let status = |ready, message: Option<&str>| Metal3DataStatus {
            ready,
            error_message: message.map(str::to_owned),
        };
        let problem = State::Problem(Problem {
            reason: "SecretConflict",
            message: "new".to_owned(),
        });
        let none = Metal3DataStatus::default();
        let failed = status(Some(false), Some("old"));
        let ready = status(Some(true), None);
        for (before, state, expected) in [
            (&none, &State::Waiting, status(Some(false), None)),
            (&none, &State::Ready, status(Some(true), None)),
            (&none, &problem, status(Some(false), Some("new"))),
            (&failed, &State::Waiting, status(Some(false), None)),
            (&failed, &State::AsBefore, status(Some(false), Some("old"))),
            (&failed, &problem, status(Some(false), Some("new"))),
            (&failed, &State::Ready, status(Some(true), None)),
            (&ready, &State::Waiting, status(Some(true), None)),
            (&ready, &State::AsBefore, status(Some(true), None)),
            (&ready, &problem, status(Some(true), Some("new"))),
        ] {
            assert_eq!(conclude(before, state), expected, "{before:?} {state:?}");
        }
    }
}
