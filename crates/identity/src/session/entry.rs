//! One session and its requesters.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::LoginError;
use super::wait_queue::WaitQueue;

/// The state of one key. It has at most one session: a new one is opened only after the old one
/// was closed or is unknown to the server.
pub(super) struct Entry<S> {
    pub phase: Phase<S>,
    /// The requesters that use the session or wait for it.
    pub requesters: HashSet<Arc<str>>,
    /// The requesters to wake when the current action ends.
    pub waiting: WaitQueue,
    /// A backoff of this key only; the endpoint may respond to others.
    pub pause: Option<Pause>,
    /// Consecutive attempts that the server answered without a session.
    pub failures: u32,
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
    pub id: u64,
    pub session: Arc<S>,
    pub since: Instant,
    /// When it was last used.
    pub last_used: Instant,
    /// The number of guards that hold it.
    pub held: usize,
}

/// A backoff and its cause.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    pub error: LoginError,
    pub until: Instant,
}

impl<S> Entry<S> {
    pub fn new() -> Self {
        Self {
            phase: Phase::Idle,
            requesters: HashSet::new(),
            waiting: WaitQueue::default(),
            pause: None,
            failures: 0,
        }
    }

    /// Returns the session, unless it is being closed.
    pub fn open_mut(&mut self) -> Option<&mut Open<S>> {
        match &mut self.phase {
            Phase::Open(open) | Phase::Checking(open) => Some(open),
            Phase::Idle | Phase::Opening | Phase::Closing => None,
        }
    }

    /// Returns whether an action is running.
    pub fn is_busy(&self) -> bool {
        matches!(
            self.phase,
            Phase::Opening | Phase::Checking(_) | Phase::Closing
        )
    }

    /// Returns whether the entry can be removed.
    pub fn is_unused(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Idle)
            && self.requesters.is_empty()
            && self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }
}

impl<S> Open<S> {
    pub fn is_older_than(&self, lifetime: Duration, now: Instant) -> bool {
        now.duration_since(self.since) > lifetime
    }

    pub fn was_idle_for(&self, long: Duration, now: Instant) -> bool {
        self.held == 0 && now.duration_since(self.last_used) >= long
    }
}
