//! Logins, checks and logouts: their start, their results, and the backoff after failures.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::concurrency::Seat;
use super::super::endpoint_health::Probe;
use super::super::entry::{Open, Pause, Phase};
use super::super::{Key, LoginError};
use super::{Action, Attempt, Expiry, MAX_REFUSALS, PoolState};
use crate::credential::Credential;
use crate::reason::Reason;

/// The scope of a backoff.
pub(super) enum Paused {
    /// The endpoint.
    Endpoint(Pause),
    /// One session or its credential.
    Key(Pause),
}

impl<S> PoolState<S> {
    /// Records the end of a login.
    pub fn logged_in(&mut self, attempt: &Attempt, opened: Result<S, LoginError>, now: Instant) {
        let key = &attempt.key;
        let outcome = opened.as_ref().map(|_| ()).map_err(Clone::clone);
        let ticket = self.next_ticket();
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.phase = match opened {
            Ok(session) => Phase::Open(Open {
                id: ticket,
                session: Arc::new(session),
                since: now,
                last_used: now,
                held: 0,
            }),
            Err(_) => Phase::Idle,
        };
        match &outcome {
            Ok(()) => {
                entry.failures = 0;
                self.counts.opened += 1;
            }
            Err(error) if error.reason == Reason::InvalidCredentials => {
                self.refuse(key, error, now)
            }
            Err(_) => self.counts.failed += 1,
        }
        self.finish_attempt(attempt, outcome, now);
    }

    /// Records the end of a check. A session that could not be checked is kept, because it may
    /// still be valid when the server responds again.
    pub fn checked(&mut self, attempt: &Attempt, alive: Result<bool, LoginError>, now: Instant) {
        let key = &attempt.key;
        self.counts.checks += 1;
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let Phase::Checking(mut open) = std::mem::replace(&mut entry.phase, Phase::Idle) else {
            return;
        };
        let outcome = match alive {
            Ok(true) => {
                open.last_used = now;
                entry.phase = Phase::Open(open);
                Ok(())
            }
            Err(error) if error.reason != Reason::InvalidCredentials => {
                entry.phase = Phase::Open(open);
                Err(error)
            }
            Ok(false) | Err(_) => {
                self.delay_relogin(key, open.since, now);
                Ok(())
            }
        };
        self.finish_attempt(attempt, outcome, now);
    }

    /// Records the end of a logout, successful or not.
    pub fn logged_out(&mut self, key: &Arc<Key>, now: Instant) {
        self.counts.closed += 1;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.phase = Phase::Idle;
        }
        self.wake_entry(key, now);
        self.close_if_unused(key, now);
    }

    /// Records that the server does not know a session any more. Only the first report counts.
    pub fn session_lost(&mut self, key: &Arc<Key>, id: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        // A running check will find out.
        let Phase::Open(open) = &entry.phase else {
            return;
        };
        if open.id != id {
            return;
        }
        let since = open.since;
        entry.phase = Phase::Idle;
        self.delay_relogin(key, since, now);
        self.wake_entry(key, now);
        self.close_if_unused(key, now);
    }

    /// Marks an endpoint as suspect.
    pub fn mark_suspect(&mut self, key: &Key, now: Instant) {
        if let Some(health) = self.routes.get_mut(&key.route()) {
            health.reachable = false;
        }
        let until = now + self.settings.refused_backoff;
        self.limits.mark_suspect(&key.endpoint, until);
        self.schedule_expiry(until, Expiry::Suspicion(key.endpoint.clone()));
    }

    /// Clears the mark of an endpoint.
    pub fn clear_suspect(&mut self, key: &Key, now: Instant) {
        self.limits.clear_suspect(&key.endpoint);
        self.grant_seats(now);
    }

    /// Starts a login, or a check if there is a session.
    pub(super) fn attempt(
        &mut self,
        key: &Arc<Key>,
        credential: &Credential,
        (probe, seat): (Option<Probe>, Seat),
        now: Instant,
    ) {
        let attempt = Attempt {
            key: Arc::clone(key),
            since: now,
            probe,
            seat,
        };
        if let Some(health) = self.routes.get_mut(&key.route()) {
            health.begin_probe(probe);
        }
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.pause = None;
        match std::mem::replace(&mut entry.phase, Phase::Opening) {
            Phase::Open(open) => {
                let session = Arc::clone(&open.session);
                entry.phase = Phase::Checking(open);
                self.actions.push(Action::Check { attempt, session });
            }
            _ => {
                let credential = credential.clone();
                self.actions.push(Action::LogIn {
                    attempt,
                    credential,
                });
            }
        }
    }

    /// Records what an attempt says about the endpoint, and wakes its requesters.
    pub(super) fn finish_attempt(
        &mut self,
        attempt: &Attempt,
        outcome: Result<(), LoginError>,
        now: Instant,
    ) {
        let key = &attempt.key;
        let answered = match outcome {
            Ok(()) => true,
            Err(error) if error.reason == Reason::InvalidCredentials => true,
            Err(error) if error.answered => {
                self.back_off(key, error, now);
                true
            }
            Err(error) => {
                self.record_unreachable(attempt, error, now);
                false
            }
        };
        if let Some(health) = self.routes.get_mut(&key.route()) {
            health.end_probe(attempt.probe);
            if answered {
                health.record_success(now);
            }
            let waited = match answered || attempt.probe.is_some() {
                true => health.waiting.drain(),
                false => Vec::new(),
            };
            match answered {
                true => {
                    let recovery_ticket = health.awaiting_recovery.drain();
                    self.wake_all(waited, now);
                    self.wake_all(recovery_ticket, now);
                }
                false => self.wake_staggered(waited, now),
            }
        }
        self.release_seat(&attempt.seat, now);
        self.mark_checked(key);
        match answered {
            true => self.wake_entry(key, now),
            false => {
                let entry = self.entries.get_mut(key);
                let waited = entry.map_or_else(Vec::new, |entry| entry.waiting.drain());
                self.wake_staggered(waited, now);
            }
        }
        self.close_if_unused(key, now);
    }

    /// Lets the waiting requesters use an open session without a check of their own; otherwise
    /// they could check it for ever.
    fn mark_checked(&mut self, key: &Arc<Key>) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let Phase::Open(open) = &entry.phase else {
            return;
        };
        for requester in entry.waiting.requesters() {
            if let Some(known) = self.requesters.get_mut(requester) {
                known.checked_session = Some(open.id);
            }
        }
    }

    /// Returns the longest active backoff that applies to a key.
    pub(super) fn paused(&self, key: &Arc<Key>, now: Instant) -> Option<Paused> {
        let entry = self.entries.get(key)?;
        let first = self.settings.unreachable_backoff.0;
        let health = self.routes.get(&key.route());
        let health = health.and_then(|health| health.pause_for(key, first));
        let (refused, too_many_refusals) = match entry.phase {
            // An open session was not refused.
            Phase::Open(_) => (None, None),
            _ => {
                let refused = self.refused.get(&key.account()).cloned();
                (refused, self.too_many_refusals(key, now))
            }
        };
        let health = health.map(Paused::Endpoint);
        let keys =
            [entry.pause.clone(), refused, too_many_refusals].map(|pause| pause.map(Paused::Key));
        let pauses = keys.into_iter().chain([health]).flatten();
        let active = pauses.filter(|paused| paused.until() > now);
        active.max_by_key(Paused::until)
    }

    /// Returns a backoff if too many contents of the same source were refused recently.
    fn too_many_refusals(&self, key: &Key, now: Instant) -> Option<Pause> {
        let mut counting = self.refusals.get(&key.refusal_source())?.clone();
        counting.retain(|until| *until > now);
        counting.sort_unstable();
        let until = *counting.get(counting.len().checked_sub(MAX_REFUSALS)?)?;
        let message = format!("{MAX_REFUSALS} other contents of this credential were not taken");
        let error = LoginError {
            reason: Reason::InvalidCredentials,
            message,
            answered: true,
        };
        Some(Pause { error, until })
    }

    /// Increases the backoff of one key after an answered attempt without a session.
    fn back_off(&mut self, key: &Arc<Key>, error: LoginError, now: Instant) {
        let (first, longest) = self.settings.unreachable_backoff;
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let long = first.saturating_mul(1 << entry.failures.min(16));
        entry.failures = entry.failures.saturating_add(1);
        let until = now + long.min(longest);
        self.pause(key, Pause { error, until });
    }

    /// Records a timeout. If the endpoint responded to another attempt meanwhile, the backoff
    /// applies to this key only.
    pub(super) fn record_unreachable(
        &mut self,
        attempt: &Attempt,
        error: LoginError,
        now: Instant,
    ) {
        let key = &attempt.key;
        let pauses = self.settings.unreachable_backoff;
        let route = key.route();
        let Some(health) = self.routes.get_mut(&route) else {
            return;
        };
        if attempt.probe.is_some() && !health.succeeded_since(attempt.since) {
            let over = health.record_failure(key, error, pauses, now);
            self.schedule_expiry(over, Expiry::Route(route));
        } else {
            health.record_inconclusive(attempt.since);
            let until = now + pauses.0;
            self.pause(key, Pause { error, until });
        }
    }

    /// Delays the next login after a short-lived session, so that a server that loses all
    /// sessions is not flooded with logins.
    pub(super) fn delay_relogin(&mut self, key: &Arc<Key>, since: Instant, now: Instant) {
        let until = since + self.settings.unreachable_backoff.0;
        if until > now {
            let message = "the session ended as soon as it was opened".to_owned();
            let reason = Reason::Unreachable;
            let error = LoginError {
                reason,
                message,
                answered: true,
            };
            self.pause(key, Pause { error, until });
        }
    }

    pub(super) fn pause(&mut self, key: &Arc<Key>, pause: Pause) {
        self.schedule_expiry(pause.until, Expiry::Entry(Arc::clone(key)));
        if let Some(entry) = self.entries.get_mut(key) {
            entry.pause = Some(pause);
        }
    }

    pub(super) fn refuse(&mut self, key: &Arc<Key>, error: &LoginError, now: Instant) {
        self.counts.refused += 1;
        let until = now + self.settings.refused_backoff;
        self.schedule_expiry(until, Expiry::Account(key.account()));
        let error = error.clone();
        self.refused.insert(key.account(), Pause { error, until });
        self.schedule_expiry(until, Expiry::RefusalSource(key.refusal_source()));
        self.refusals
            .entry(key.refusal_source())
            .or_default()
            .push(until);
    }
}

impl Paused {
    fn until(&self) -> Instant {
        match self {
            Self::Endpoint(pause) | Self::Key(pause) => pause.until,
        }
    }
}
