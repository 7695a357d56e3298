//! A circuit breaker per endpoint.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::Pause;
use super::wait_queue::WaitQueue;
use super::{Key, LoginError};

/// The health of an endpoint under one trust setting. While it is unknown, one requester at a
/// time probes the endpoint and the others are woken by the result.
#[derive(Debug, Default)]
pub(super) struct EndpointHealth {
    /// Whether the endpoint responded the last time.
    pub reachable: bool,
    /// Running probes.
    probing: BTreeSet<Probe>,
    /// The backoff after a failed probe.
    pub pause: Option<Pause>,
    /// The key of the last failed probe.
    last_prober: Option<Arc<Key>>,
    /// Consecutive failures.
    failures: u32,
    /// When the endpoint last responded.
    last_success: Option<Instant>,
    /// The requesters to wake after the running probe.
    pub waiting: WaitQueue,
    /// The requesters to wake on recovery.
    pub awaiting_recovery: WaitQueue,
    /// The number of keys with this endpoint.
    pub keys: usize,
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Probe {
    Login,
    Check,
}

impl EndpointHealth {
    /// Returns whether a requester has to wait for a running probe. A slow login may be caused
    /// by the account, so requesters with a session do not wait for logins.
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

    /// Records a failed probe and doubles the backoff. Returns when the backoff ends.
    pub fn record_failure(
        &mut self,
        last_prober: &Arc<Key>,
        error: LoginError,
        pauses: (Duration, Duration),
        now: Instant,
    ) -> Instant {
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.until > now) {
            // Another probe has recorded the failure.
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

    /// Returns the backoff of a key. The key of the last failed probe waits longer than the
    /// others, because its account may be the cause and not the endpoint.
    pub fn pause_for(&self, key: &Arc<Key>, first: Duration) -> Option<Pause> {
        let mut pause = self.pause.clone()?;
        if self.keys > 1 && self.last_prober.as_ref() == Some(key) {
            pause.until += first;
        }
        Some(pause)
    }

    /// Records a timeout of an attempt that began at `since`. The endpoint has to be probed
    /// again, unless it responded to another attempt meanwhile.
    pub fn record_inconclusive(&mut self, since: Instant) {
        if !self.succeeded_since(since) {
            self.reachable = false;
        }
    }

    pub fn succeeded_since(&self, since: Instant) -> bool {
        self.last_success.is_some_and(|at| at > since)
    }

    /// Returns whether the entry can be removed.
    pub fn is_unused(&self, now: Instant) -> bool {
        self.keys == 0
            && self.probing.is_empty()
            && self.pause.as_ref().is_none_or(|pause| pause.until <= now)
    }
}
