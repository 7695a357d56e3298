//! Logins, checks and logouts: what begins them, what becomes of them, and what is left alone
//! for a while after they failed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::concurrency::Seat;
use super::super::endpoint_health::Probe;
use super::super::entry::{Open, Pause, Phase};
use super::super::{Key, LoginError};
use super::{Action, Attempt, Expiry, MAX_REFUSALS, PoolState};
use crate::credential::Credential;
use crate::reason::Reason;

/// Why something is not tried for a while.
pub(super) enum Paused {
    /// The endpoint does not answer anybody.
    Endpoint(Pause),
    /// It is about this session or its credential.
    Key(Pause),
}

impl<S> PoolState<S> {
    /// A login has ended.
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

    /// A check has ended. A session that could not be checked is kept: it may still be one
    /// when the other side answers again.
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

    /// A logout has ended, however.
    pub fn logged_out(&mut self, key: &Arc<Key>, now: Instant) {
        self.counts.closed += 1;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.phase = Phase::Idle;
        }
        self.wake_entry(key, now);
        self.close_if_unused(key, now);
    }

    /// The other side does not know a session any more. Only the first who says so matters.
    pub fn session_lost(&mut self, key: &Arc<Key>, id: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        // One that is being checked is found out about anyway.
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

    /// An endpoint may not answer any more.
    pub fn mark_suspect(&mut self, key: &Key, now: Instant) {
        if let Some(health) = self.routes.get_mut(&key.route()) {
            health.reachable = false;
        }
        let until = now + self.settings.refused_backoff;
        self.limits.mark_suspect(&key.endpoint, until);
        self.schedule_expiry(until, Expiry::Suspicion(key.endpoint.clone()));
    }

    /// An endpoint did what it was asked.
    pub fn clear_suspect(&mut self, key: &Key, now: Instant) {
        self.limits.clear_suspect(&key.endpoint);
        self.grant_seats(now);
    }

    /// Begins a login, or a check if there is a session.
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

    /// What an attempt says about the endpoint; then whoever waited for it is woken.
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

    /// Whoever waited for a session that is open now may use it, whatever its age: else they
    /// could check it for ever.
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

    /// Whether, and for how long, something is not to be tried: the longest of what there is.
    pub(super) fn paused(&self, key: &Arc<Key>, now: Instant) -> Option<Paused> {
        let entry = self.entries.get(key)?;
        let first = self.settings.unreachable_backoff.0;
        let health = self.routes.get(&key.route());
        let health = health.and_then(|health| health.pause_for(key, first));
        let (refused, too_many_refusals) = match entry.phase {
            // A session that is open was not refused.
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

    /// Whether too many contents of the same source were refused just now.
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

    /// It was answered, and yet there is no session: its pauses grow, and nobody else's.
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

    /// Nobody answered. If somebody else was answered meanwhile, it is this account that is
    /// left alone, and not the endpoint.
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

    /// A session that did not live long is not followed at once by the next: a server that
    /// forgets all of them is not to be flooded with logins.
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
