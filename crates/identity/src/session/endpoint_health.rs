//! Whether an endpoint answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::Pause;
use super::wait_queue::WaitQueue;
use super::{Key, LoginError};

/// The way to an endpoint, by whom is believed there. Until it is known that somebody answers,
/// one at a time finds out, and everybody else is woken when that is done.
#[derive(Debug, Default)]
pub(super) struct EndpointHealth {
    /// Somebody answers, as far as is known.
    pub reachable: bool,
    /// Somebody finds out, by a login or by a check.
    probing: BTreeSet<Probe>,
    /// It did not answer, and is not tried until then.
    pub pause: Option<Pause>,
    /// Who found that out.
    last_prober: Option<Arc<Key>>,
    /// How many times in a row it did not.
    failures: u32,
    /// When it last answered.
    last_success: Option<Instant>,
    /// Who is woken when that was found out.
    pub waiting: WaitQueue,
    /// Who was told that it does not answer, and is woken when it does.
    pub awaiting_recovery: WaitQueue,
    /// How many keys there are for it.
    pub keys: usize,
}

/// How it is found out whether an endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Probe {
    Login,
    Check,
}

impl EndpointHealth {
    /// Whether somebody finds out, so that others wait for it. How long a login takes may be
    /// the account's doing: whoever has a session does not wait for those of others.
    pub fn must_wait(&self, probe: Probe) -> bool {
        match probe {
            Probe::Login => !self.probing.is_empty(),
            Probe::Check => self.probing.contains(&Probe::Check),
        }
    }

    pub fn begin_probe(&mut self, probe: Option<Probe>) {
        self.probing.extend(probe);
    }

    pub fn end_probe(&mut self, probe: Option<Probe>) {
        if let Some(probe) = probe {
            self.probing.remove(&probe);
        }
    }

    pub fn record_success(&mut self, now: Instant) {
        self.reachable = true;
        self.pause = None;
        self.last_prober = None;
        self.failures = 0;
        self.last_success = Some(now);
    }

    /// Whoever found out found nobody: the pauses grow. Says when they are over.
    pub fn record_failure(
        &mut self,
        last_prober: &Arc<Key>,
        error: LoginError,
        pauses: (Duration, Duration),
        now: Instant,
    ) -> Instant {
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.until > now) {
            // Somebody else has found the same.
            return pause.until;
        }
        let (first, longest) = pauses;
        let pause = first
            .saturating_mul(1 << self.failures.min(16))
            .min(longest);
        self.failures = self.failures.saturating_add(1);
        self.reachable = false;
        self.last_prober = Some(Arc::clone(last_prober));
        let until = now + pause;
        self.pause = Some(Pause { error, until });
        until
    }

    /// How long it is left alone by this one. Whoever found out the last time comes after the
    /// others: it may be their account that is never answered, and not the endpoint.
    pub fn pause_for(&self, key: &Arc<Key>, first: Duration) -> Option<Pause> {
        let mut pause = self.pause.clone()?;
        if self.keys > 1 && self.last_prober.as_ref() == Some(key) {
            pause.until += first;
        }
        Some(pause)
    }

    /// Somebody did not get an answer who began then: it has to be found out anew, unless
    /// somebody else got one meanwhile.
    pub fn record_inconclusive(&mut self, since: Instant) {
        if !self.succeeded_since(since) {
            self.reachable = false;
        }
    }

    pub fn succeeded_since(&self, since: Instant) -> bool {
        self.last_success.is_some_and(|at| at > since)
    }

    /// Nothing is to be remembered of it.
    pub fn is_unused(&self, now: Instant) -> bool {
        self.keys == 0
            && self.probing.is_empty()
            && self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }
}
