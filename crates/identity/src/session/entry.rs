//! One session and who uses it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::LoginError;
use super::wait_queue::WaitQueue;

/// What is known of a key. There is never more than one session for it: a new one is opened
/// only when the old one is closed, or not known any more at the other side.
pub(super) struct Entry<S> {
    pub phase: Phase<S>,
    /// Who uses it, or would.
    pub requesters: HashSet<Arc<str>>,
    /// Who is woken when what is being done is done.
    pub waiting: WaitQueue,
    /// It is left alone for a while, though its endpoint may answer others.
    pub pause: Option<Pause>,
    /// How many times in a row it was answered, and yet there is no session.
    pub failures: u32,
}

/// How a session is.
pub(super) enum Phase<S> {
    /// There is none.
    Idle,
    /// A login is under way.
    Opening,
    /// It can be used.
    Open(Open<S>),
    /// A check is under way.
    Checking(Open<S>),
    /// A logout is under way.
    Closing,
}

/// A session that is open.
pub(super) struct Open<S> {
    pub id: u64,
    pub session: Arc<S>,
    pub since: Instant,
    /// When it was last seen in use.
    pub last_used: Instant,
    /// How many hold it.
    pub held: usize,
}

/// Something is not tried until then, for this reason.
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

    /// The session, if there is one that is not being closed.
    pub fn open_mut(&mut self) -> Option<&mut Open<S>> {
        match &mut self.phase {
            Phase::Open(open) | Phase::Checking(open) => Some(open),
            Phase::Idle | Phase::Opening | Phase::Closing => None,
        }
    }

    /// Whether something is being done that its end will tell of.
    pub fn is_busy(&self) -> bool {
        matches!(
            self.phase,
            Phase::Opening | Phase::Checking(_) | Phase::Closing
        )
    }

    /// Nothing is to be remembered of it.
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
