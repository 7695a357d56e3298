//! Logins, checks and logouts: their start and their results.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::backoff::Scope;
use super::super::entry::{Open, Phase};
use super::super::limits::Seat;
use super::super::waiting::Event;
use super::super::{Key, LoginError};
use super::{Action, PoolState};
use crate::credential::Credential;
use crate::reason::Reason;

/// A running login or check.
#[derive(Debug)]
pub(in super::super) struct Attempt {
    pub key: Arc<Key>,
    since: Instant,
    /// Whether it probes the endpoint for all requesters.
    probe: bool,
    seat: Seat,
}

impl<S> PoolState<S> {
    /// Starts a login, or a check if there is a session.
    pub(super) fn start_attempt(
        &mut self,
        key: &Arc<Key>,
        credential: &Credential,
        seat: Seat,
        probe: bool,
        now: Instant,
    ) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        if probe && let Some(breaker) = self.breakers.get_mut(&key.endpoint) {
            breaker.set_probing(seat.kind, true);
        }
        let attempt = Attempt {
            key: Arc::clone(key),
            since: now,
            probe,
            seat,
        };
        let action = match std::mem::replace(&mut entry.phase, Phase::Opening) {
            Phase::Open(open) => {
                let session = Arc::clone(&open.session);
                entry.phase = Phase::Checking(open);
                Action::Check { attempt, session }
            }
            _ => Action::LogIn {
                attempt,
                credential: Box::new(credential.clone()),
            },
        };
        self.actions.push(action);
    }

    /// Records the end of a login.
    pub fn logged_in(&mut self, attempt: &Attempt, opened: Result<S, LoginError>, now: Instant) {
        let key = &attempt.key;
        let (phase, outcome) = match opened {
            Ok(session) => {
                self.counts.opened += 1;
                self.backoffs.clear(&Scope::Key(Arc::clone(key)));
                (Phase::Open(Open::new(session, now)), Ok(()))
            }
            Err(error) if error.reason == Reason::InvalidCredentials => {
                self.counts.refused += 1;
                self.backoffs.refuse(key, &error, now);
                (Phase::Idle, Ok(()))
            }
            Err(error) => {
                self.counts.failed += 1;
                (Phase::Idle, Err(error))
            }
        };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.phase = phase;
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
    pub fn logged_out(&mut self, key: &Arc<Key>) {
        self.counts.closed += 1;
        self.remove_session(key);
    }

    /// Records that the server does not know a session any more. Only the first report counts.
    pub fn session_lost(&mut self, key: &Arc<Key>, session: &Arc<S>, now: Instant) {
        // A running check will find out.
        if let Some(Phase::Open(open)) = self.entries.get(key).map(|entry| &entry.phase)
            && Arc::ptr_eq(&open.session, session)
        {
            self.delay_relogin(key, open.since, now);
            self.remove_session(key);
        }
    }

    /// Records that a request timed out: the endpoint is probed before it is used again, and
    /// has few users until it completes a request.
    pub fn mark_suspect(&mut self, key: &Key, now: Instant) {
        if let Some(breaker) = self.breakers.get_mut(&key.endpoint) {
            breaker.half_open();
        }
        let until = now + self.settings.refused_backoff;
        self.limits.mark_suspect(&key.endpoint, until);
    }

    /// Records a completed request.
    pub fn clear_suspect(&mut self, key: &Key, now: Instant) {
        self.limits.clear_suspect(&key.endpoint);
        self.record_response(key, now);
        self.grant_seats(now);
    }

    /// Records what an attempt says about its endpoint and its key, and wakes their requesters.
    fn finish_attempt(&mut self, attempt: &Attempt, outcome: Result<(), LoginError>, now: Instant) {
        let key = &attempt.key;
        if attempt.probe
            && let Some(breaker) = self.breakers.get_mut(&key.endpoint)
        {
            breaker.set_probing(attempt.seat.kind, false);
        }
        let certificate = Scope::Certificate(key.endpoint.clone(), key.trust.clone());
        match outcome {
            Ok(()) => {
                self.backoffs.clear(&certificate);
                self.record_response(key, now);
            }
            Err(error) if error.reason == Reason::CertificateNotTrusted => {
                self.backoffs.increase(certificate, error, now);
                self.record_response(key, now);
            }
            Err(error) if error.answered => {
                let scope = Scope::Key(Arc::clone(key));
                self.backoffs.increase(scope, error, now);
                self.record_response(key, now);
            }
            Err(error) => self.record_timeout(attempt, error, now),
        }
        self.release_seat(&attempt.seat, now);
        let entry = self.entries.get(key);
        let is_open = entry.is_some_and(|entry| matches!(entry.phase, Phase::Open(_)));
        for requester in self.waiting.drain(&Event::Session(Arc::clone(key))) {
            self.wake(requester, |known| known.checked = is_open);
        }
        self.close_if_unused(key);
    }

    /// Closes the endpoint's breaker, and wakes the requesters that wait for it.
    fn record_response(&mut self, key: &Key, now: Instant) {
        let breaker = self.breakers.entry(key.endpoint.clone()).or_default();
        breaker.record_response(now);
        self.backoffs.clear(&Scope::Endpoint(key.endpoint.clone()));
        self.notify(&Event::Probe(key.endpoint.clone()));
        self.notify(&Event::Recovery(key.endpoint.clone()));
    }

    /// Opens the endpoint's breaker after a probe. Without a probe, or if the endpoint responded
    /// to another attempt meanwhile, the account may be the cause.
    fn record_timeout(&mut self, attempt: &Attempt, error: LoginError, now: Instant) {
        let key = &attempt.key;
        let breaker = self.breakers.entry(key.endpoint.clone()).or_default();
        let responded = breaker.responded_since(attempt.since);
        if !responded {
            breaker.half_open();
        }
        let own = Scope::Key(Arc::clone(key));
        if attempt.probe && !responded {
            let endpoint = Scope::Endpoint(key.endpoint.clone());
            let until = self.backoffs.increase(endpoint, error.clone(), now);
            // Another account, if there is one, gets the next probe.
            let until = until + self.settings.unreachable_backoff.0;
            self.backoffs.set(own, error, until);
        } else {
            self.backoffs.increase(own, error, now);
        }
        if attempt.probe {
            self.notify(&Event::Probe(key.endpoint.clone()));
        }
    }

    /// Delays the next login after a short-lived session, so that a server that loses all
    /// sessions is not flooded with logins.
    fn delay_relogin(&mut self, key: &Arc<Key>, since: Instant, now: Instant) {
        let until = since + self.settings.unreachable_backoff.0;
        if until > now {
            let error =
                LoginError::unreachable("the server ended the session right after the login");
            self.backoffs.set(Scope::Key(Arc::clone(key)), error, until);
        }
    }

    /// Removes a closed session, and wakes the requesters that wait for that.
    fn remove_session(&mut self, key: &Arc<Key>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.phase = Phase::Idle;
        }
        self.notify(&Event::Session(Arc::clone(key)));
        self.close_if_unused(key);
    }
}
