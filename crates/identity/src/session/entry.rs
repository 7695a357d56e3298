//! The session of one key.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The state of one key. It has at most one session and one running action: a new session is
/// opened only after the old one was closed or is unknown to the server.
pub(super) struct Entry<S> {
    pub phase: Phase<S>,
    /// The number of requesters that use the session or wait for it.
    pub requesters: usize,
}

/// The state of a session.
pub(super) enum Phase<S> {
    /// No session.
    Idle,
    /// A login is running.
    Opening,
    /// The session can be used.
    Open(Open<S>),
    /// A check is running.
    Checking(Open<S>),
    /// A logout is running.
    Closing,
}

/// An open session.
pub(super) struct Open<S> {
    pub session: Arc<S>,
    pub since: Instant,
    pub last_used: Instant,
    /// The number of guards that hold it.
    pub held: usize,
}

impl<S> Entry<S> {
    pub fn new() -> Self {
        Self {
            phase: Phase::Idle,
            requesters: 0,
        }
    }

    /// Returns the session, unless it is being closed.
    pub fn open_mut(&mut self) -> Option<&mut Open<S>> {
        match &mut self.phase {
            Phase::Open(open) | Phase::Checking(open) => Some(open),
            Phase::Idle | Phase::Opening | Phase::Closing => None,
        }
    }

    /// Takes a session that is neither held nor being checked, in order to close it.
    pub fn take_free(&mut self) -> Option<Arc<S>> {
        match std::mem::replace(&mut self.phase, Phase::Closing) {
            Phase::Open(open) if open.held == 0 => Some(open.session),
            other => {
                self.phase = other;
                None
            }
        }
    }

    pub fn is_unused(&self) -> bool {
        matches!(self.phase, Phase::Idle) && self.requesters == 0
    }
}

impl<S> Open<S> {
    pub fn new(session: S, now: Instant) -> Self {
        Self {
            session: Arc::new(session),
            since: now,
            last_used: now,
            held: 0,
        }
    }

    pub fn is_older_than(&self, lifetime: Duration, now: Instant) -> bool {
        now.duration_since(self.since) > lifetime
    }

    pub fn was_idle_for(&self, idle: Duration, now: Instant) -> bool {
        self.held == 0 && now.duration_since(self.last_used) >= idle
    }
}
