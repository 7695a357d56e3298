//! The state machine of the pool, without I/O and without a clock. The caller runs the actions
//! that it returns and reports their results.

mod attempt;
mod expiry;
mod metrics;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::attempt::Paused;
use self::waiting::Reservation;
use super::concurrency::{ConcurrencyLimits, Seat, SeatKind};
use super::endpoint_health::{EndpointHealth, Probe};
use super::entry::{Entry, Pause, Phase};
use super::{Key, LoginError, Settings};
use crate::credential::{Credential, Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

/// The state of all sessions.
pub(super) struct PoolState<S> {
    settings: Settings,
    closed: bool,
    entries: HashMap<Arc<Key>, Entry<S>>,
    requesters: HashMap<Arc<str>, Requester>,
    routes: HashMap<Route, EndpointHealth>,
    limits: ConcurrencyLimits,
    refused: HashMap<Account, Pause>,
    /// The expiry of each refusal of a source's contents.
    refusals: HashMap<RefusalSource, Vec<Instant>>,
    /// Scheduled clean-ups.
    expiries: BTreeMap<(Instant, u64), Expiry>,
    /// Scheduled wakeups.
    wakeups: BTreeMap<(Instant, u64), Arc<str>>,
    actions: Vec<Action<S>>,
    last_ticket: u64,
    counts: Counts,
}

/// An action for the caller to run.
pub(super) enum Action<S> {
    LogIn {
        attempt: Attempt,
        credential: Credential,
    },
    Check {
        attempt: Attempt,
        session: Arc<S>,
    },
    LogOut {
        key: Arc<Key>,
        session: Arc<S>,
    },
}

/// A running login or check.
#[derive(Debug)]
pub(super) struct Attempt {
    key: Arc<Key>,
    since: Instant,
    /// Set if the attempt probes the endpoint for all requesters.
    probe: Option<Probe>,
    seat: Seat,
}

/// The result of a request for a session.
pub(super) enum Answer<S> {
    Use {
        key: Arc<Key>,
        id: u64,
        session: Arc<S>,
    },
    Wait,
    Failed {
        error: LoginError,
        retry_after: Duration,
    },
}

/// An endpoint and the certificates that are accepted there.
type Route = (Endpoint, Trust);

/// The account that the server counts a failed login against. Neither trust nor source are part
/// of it: a requester must not be able to lock an account by varying them.
type Account = (Option<Arc<str>>, Endpoint, Fingerprint);

/// A source of refused contents.
type RefusalSource = (Option<Arc<str>>, Source, Endpoint);

/// How many contents of one source may be refused within the backoff. Servers lock an account
/// after a handful of failures.
const MAX_REFUSALS: usize = 3;

struct Requester {
    key: Arc<Key>,
    /// What the requester waits for, and its ticket.
    waiting_at: Option<(WaitPoint, u64)>,
    /// Its scheduled wakeup.
    wake: Option<(Instant, u64)>,
    /// The seat that is reserved for it, and its ticket.
    reserved: Option<(Seat, u64)>,
    /// The session that was checked for it and needs no further check.
    checked_session: Option<u64>,
}

/// The event that a requester waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPoint {
    /// The end of the session's current action.
    Entry,
    /// The end of the endpoint's probe.
    Probe,
    /// The recovery of the endpoint.
    Recovery,
    /// A free seat.
    Seat(SeatKind),
}

enum Expiry {
    Entry(Arc<Key>),
    Route(Route),
    Account(Account),
    RefusalSource(RefusalSource),
    Suspicion(Endpoint),
}

#[derive(Debug, Default)]
struct Counts {
    opened: u64,
    refused: u64,
    failed: u64,
    checks: u64,
    closed: u64,
}

impl Key {
    fn route(&self) -> Route {
        (self.endpoint.clone(), self.trust.clone())
    }

    fn account(&self) -> Account {
        let (endpoint, fingerprint) = (self.endpoint.clone(), self.fingerprint.clone());
        (self.space.clone(), endpoint, fingerprint)
    }

    fn refusal_source(&self) -> RefusalSource {
        let (source, endpoint) = (self.source.clone(), self.endpoint.clone());
        (self.space.clone(), source, endpoint)
    }
}

impl Attempt {
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl<S> PoolState<S> {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            closed: false,
            entries: HashMap::new(),
            requesters: HashMap::new(),
            routes: HashMap::new(),
            limits: ConcurrencyLimits::new(settings.max_per_endpoint),
            refused: HashMap::new(),
            refusals: HashMap::new(),
            expiries: BTreeMap::new(),
            wakeups: BTreeMap::new(),
            actions: Vec::new(),
            last_ticket: 0,
            counts: Counts::default(),
        }
    }

    /// Requests a session.
    pub fn acquire(
        &mut self,
        requester: &Arc<str>,
        key: Key,
        credential: &Credential,
        now: Instant,
    ) -> Answer<S> {
        if self.closed {
            let message = "sessions are not opened any more".to_owned();
            let reason = Reason::Unreachable;
            let retry_after = self.settings.unreachable_backoff.1;
            let answered = false;
            return Answer::Failed {
                error: LoginError {
                    reason,
                    message,
                    answered,
                },
                retry_after,
            };
        }
        self.expire(now);
        let reservation = self.take_reservation(requester);
        let key = self.attach(requester, key, now);
        let answer = self.answer(requester, &reservation, &key, credential, now);
        let answer = answer.unwrap_or_else(|place| {
            self.enqueue(requester, &key, place, &reservation);
            Answer::Wait
        });
        if reservation.reserved.is_some() {
            self.grant_seats(now);
        }
        answer
    }

    /// Removes a requester.
    pub fn release(&mut self, requester: &str, now: Instant) {
        self.expire(now);
        let reservation = self.take_reservation(requester);
        if let Some(known) = self.requesters.remove(requester) {
            self.detach(requester, &known.key, now);
        }
        if reservation.reserved.is_some() {
            self.grant_seats(now);
        }
    }

    /// Returns a held session.
    pub fn release_session(&mut self, key: &Arc<Key>, id: u64, now: Instant) {
        let lifetime = self.settings.lifetime;
        let mut old = false;
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        if let Some(open) = open.filter(|open| open.id == id) {
            open.held = open.held.saturating_sub(1);
            open.last_used = now;
            old = open.is_older_than(lifetime, now);
        }
        self.release_seat(&Seat::of(key, SeatKind::Use), now);
        match old {
            true => self.log_out_if_free(key),
            false => self.close_if_unused(key, now),
        }
    }

    /// Refuses further requests and closes all sessions that are not held.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        for key in keys {
            self.close_if_unused(&key, now);
        }
    }

    /// Closes the held sessions as well.
    pub fn close_held(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if let Some(open) = entry.open_mut() {
                open.held = 0;
            }
        }
        self.close(now);
    }

    /// Takes the actions to run now.
    pub fn take_actions(&mut self) -> Vec<Action<S>> {
        std::mem::take(&mut self.actions)
    }

    /// Returns the next requester that is due to be woken.
    pub fn wake(&mut self, now: Instant) -> Option<Arc<str>> {
        self.next_wake().filter(|at| *at <= now)?;
        let (_, requester) = self.wakeups.pop_first()?;
        if let Some(known) = self.requesters.get_mut(&requester) {
            known.wake = None;
        }
        Some(requester)
    }

    /// Returns when the next requester is due.
    pub fn next_wake(&self) -> Option<Instant> {
        let ((at, _), _) = self.wakeups.first_key_value()?;
        Some(*at)
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether no session is open, being opened or being closed.
    pub fn is_idle(&self) -> bool {
        let mut entries = self.entries.values();
        entries.all(|entry| matches!(entry.phase, Phase::Idle))
    }

    /// Returns the answer to a requester, or what it has to wait for.
    fn answer(
        &mut self,
        requester: &Arc<str>,
        reservation: &Reservation,
        key: &Arc<Key>,
        credential: &Credential,
        now: Instant,
    ) -> Result<Answer<S>, WaitPoint> {
        let busy = self.entries.get(key).is_none_or(Entry::is_busy);
        if busy {
            return Err(WaitPoint::Entry);
        }
        match self.paused(key, now) {
            Some(Paused::Endpoint(pause)) => {
                return Ok(self.fail_until_recovery(requester, key, reservation, pause, now));
            }
            Some(Paused::Key(Pause { error, until })) => {
                let retry_after = until.duration_since(now);
                return Ok(Answer::Failed { error, retry_after });
            }
            None => {}
        }
        if self.retire_if_expired(key, now) {
            return Err(WaitPoint::Entry);
        }
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        let probe = match open {
            Some(_) => Probe::Check,
            None => Probe::Login,
        };
        let health = self.routes.entry(key.route()).or_default();
        let reachable = health.reachable;
        if !reachable && health.must_wait(probe) {
            let Some(before) = &health.pause else {
                return Err(WaitPoint::Probe);
            };
            // The endpoint was down before: do not make all requesters wait for the probe's
            // timeout.
            let (error, until) = (before.error.clone(), now + self.settings.request_timeout);
            return Ok(self.fail_until_recovery(
                requester,
                key,
                reservation,
                Pause { error, until },
                now,
            ));
        }
        let kind = match probe {
            Probe::Login => SeatKind::Login,
            Probe::Check if reachable && self.is_usable(requester, key, now) => SeatKind::Use,
            Probe::Check => SeatKind::Check,
        };
        let seat = Seat::of(key, kind);
        if !self.limits.try_acquire_seat(&seat, now) {
            return Err(WaitPoint::Seat(kind));
        }
        if kind == SeatKind::Use
            && let Some((id, session)) = self.hold(requester, key, now)
        {
            let key = Arc::clone(key);
            return Ok(Answer::Use { key, id, session });
        }
        let probe = (!reachable).then_some(probe);
        self.attempt(key, credential, (probe, seat), now);
        Err(WaitPoint::Entry)
    }

    /// Returns whether the session may be used without a check.
    fn is_usable(&self, requester: &Arc<str>, key: &Arc<Key>, now: Instant) -> bool {
        let check_after = self.settings.check_after;
        let checked_session = self
            .requesters
            .get(requester)
            .and_then(|known| known.checked_session);
        match self.entries.get(key).map(|entry| &entry.phase) {
            Some(Phase::Open(open)) => {
                checked_session == Some(open.id) || !open.was_idle_for(check_after, now)
            }
            _ => false,
        }
    }

    /// Holds the session and returns it.
    fn hold(
        &mut self,
        requester: &Arc<str>,
        key: &Arc<Key>,
        now: Instant,
    ) -> Option<(u64, Arc<S>)> {
        if let Some(known) = self.requesters.get_mut(requester) {
            known.checked_session = None;
        }
        let open = self.entries.get_mut(key).and_then(Entry::open_mut)?;
        open.held += 1;
        open.last_used = now;
        Some((open.id, Arc::clone(&open.session)))
    }

    fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }
}

#[cfg(test)]
impl<S> PoolState<S> {
    /// Returns the numbers of remembered items.
    pub fn sizes(&self) -> [usize; 7] {
        [
            self.entries.len(),
            self.requesters.len(),
            self.routes.len(),
            self.limits.len(),
            self.refused.len() + self.refusals.len(),
            self.expiries.len(),
            self.wakeups.len(),
        ]
    }

    pub fn waiting(&self) -> usize {
        let entries = self.entries.values().map(|entry| entry.waiting.len());
        let routes = self.routes.values().map(|health| health.waiting.len());
        entries.chain(routes).sum::<usize>() + self.limits.waiting()
    }

    /// Returns how many requesters await the recovery of a healthy endpoint, which must be none.
    pub fn stuck_awaiting_recovery(&self) -> usize {
        let routes = self.routes.values().filter(|health| health.reachable);
        routes.map(|health| health.awaiting_recovery.len()).sum()
    }
}
