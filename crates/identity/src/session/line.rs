//! Whether an endpoint answers, and how many use it.

use std::time::Duration;

use tokio::time::Instant;

use super::LoginError;
use super::crowd::Crowd;
use super::entry::Pause;

/// The way to an endpoint, by whom is believed there. Until it is known that somebody answers,
/// one at a time finds out, and everybody else is woken when that is done.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Somebody answers, as far as is known.
    pub proven: bool,
    /// Somebody finds out.
    pub probing: bool,
    /// It did not answer, and is not tried until then.
    pub pause: Option<Pause>,
    /// How many times in a row it did not.
    failures: u32,
    /// When it last answered.
    answered: Option<Instant>,
    /// Who is woken when that was found out.
    pub waiting: Crowd,
    /// How many keys there are for it.
    pub keys: usize,
}

impl Line {
    pub fn answers(&mut self, now: Instant) {
        self.proven = true;
        self.pause = None;
        self.failures = 0;
        self.answered = Some(now);
    }

    /// Whoever found out found nobody: the pauses grow. Says when they are over.
    pub fn fails(&mut self, error: LoginError, pauses: (Duration, Duration), now: Instant) -> Instant {
        let (first, longest) = pauses;
        let pause = first.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.proven = false;
        let until = now + pause;
        self.pause = Some(Pause { error, until });
        until
    }

    /// Somebody did not get an answer who began then: it has to be found out anew, unless
    /// somebody else got one meanwhile.
    pub fn doubt(&mut self, since: Instant) {
        if !self.answered_since(since) {
            self.proven = false;
        }
    }

    pub fn answered_since(&self, since: Instant) -> bool {
        self.answered.is_some_and(|at| at > since)
    }

    /// Nothing is to be remembered of it.
    pub fn is_void(&self, now: Instant) -> bool {
        self.keys == 0
            && !self.probing
            && self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }
}

/// How many use an endpoint.
#[derive(Debug, Default)]
pub(super) struct Seats {
    pub taken: usize,
    /// Who waits for one.
    pub waiting: Crowd,
    /// How many were woken for one and have not come yet.
    pub called: usize,
}

impl Seats {
    pub fn is_void(&self) -> bool {
        self.taken == 0 && self.called == 0 && self.waiting.is_empty()
    }
}
