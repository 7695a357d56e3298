//! Requested delays, holds and errors.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::state::State;

/// The step at which a host failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    /// Its management controller cannot be used.
    Registration,
    /// Its hardware was not found.
    Inspection,
    /// It could not be configured.
    Preparation,
    /// Its image, or the data for that, cannot be used.
    Provisioning,
    /// It could not be switched on or off.
    PowerManagement,
}

impl ErrorType {
    /// Returns the text in `status.errorType`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registration => "registration error",
            Self::Inspection => "inspection error",
            Self::Preparation => "preparation error",
            Self::Provisioning => "provisioning error",
            Self::PowerManagement => "power management error",
        }
    }
}

/// A problem of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub kind: ErrorType,
    pub message: String,
}

/// What a test requested.
#[derive(Debug)]
pub(super) struct Knobs {
    default_delay: Duration,
    delays: HashMap<State, Duration>,
    held: HashSet<State>,
    held_hosts: HashSet<(String, State)>,
    problems: HashMap<(String, State), Problem>,
}

impl Knobs {
    pub(super) fn new(default_delay: Duration) -> Self {
        Self {
            default_delay,
            delays: HashMap::new(),
            held: HashSet::new(),
            held_hosts: HashSet::new(),
            problems: HashMap::new(),
        }
    }

    pub(super) fn delay(&mut self, state: State, delay: Duration) {
        self.delays.insert(state, delay);
    }

    pub(super) fn hold(&mut self, host: Option<&str>, state: State) {
        match host {
            None => self.held.insert(state),
            Some(host) => self.held_hosts.insert((host.to_owned(), state)),
        };
    }

    pub(super) fn release(&mut self) {
        self.held.clear();
        self.held_hosts.clear();
    }

    pub(super) fn fail(&mut self, host: &str, state: State, kind: ErrorType, message: &str) {
        let message = message.to_owned();
        self.problems
            .insert((host.to_owned(), state), Problem { kind, message });
    }

    pub(super) fn heal(&mut self, host: &str) {
        self.problems.retain(|(known, _), _| known != host);
    }

    pub(super) fn is_held(&self, host: &str, state: State) -> bool {
        self.held.contains(&state) || self.held_hosts.contains(&(host.to_owned(), state))
    }

    pub(super) fn problem(&self, host: &str, state: State) -> Option<&Problem> {
        self.problems.get(&(host.to_owned(), state))
    }

    pub(super) fn delay_of(&self, state: State) -> Duration {
        let delay = self.delays.get(&state).copied();
        delay.unwrap_or(self.default_delay)
    }
}
