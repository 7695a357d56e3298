//! The state machine of the pool, without I/O and without a clock. The caller runs the actions
//! that it returns and reports their results.

mod attempt;
mod wakeups;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::attempt::Attempt;
use super::backoff::{Backoff, Backoffs};
use super::breaker::Breaker;
use super::entry::{Entry, Phase};
use super::limits::{Limits, Seat, SeatKind};
use super::metrics::{self, Counts};
use super::waiting::{Event, WaitQueues};
use super::{Key, LoginError, Settings, Unavailable};
use crate::credential::Credential;
use crate::endpoint::Endpoint;

/// How often expired state is removed.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);

/// The state of all sessions.
pub(super) struct PoolState<S> {
    settings: Settings,
    closed: bool,
    pub entries: HashMap<Arc<Key>, Entry<S>>,
    pub requesters: HashMap<Arc<str>, Requester>,
    pub breakers: HashMap<Endpoint, Breaker>,
    pub backoffs: Backoffs,
    pub limits: Limits,
    pub waiting: WaitQueues,
    actions: Vec<Action<S>>,
    counts: Counts,
    next_purge: Option<Instant>,
}

/// An action for the caller to run.
pub(super) enum Action<S> {
    LogIn {
        attempt: Attempt,
        credential: Box<Credential>,
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

/// A session to use, and its key.
type Acquired<S> = (Arc<Key>, Arc<S>);

pub(super) struct Requester {
    key: Arc<Key>,
    /// What the requester waits for, and its ticket.
    waiting_for: Option<(Event, u64)>,
    /// The seat that is reserved for it.
    reserved: Option<Seat>,
    /// Whether the session was checked for it: it could otherwise wait for ever, if its session
    /// is idle again whenever it returns.
    checked: bool,
}

impl<S> PoolState<S> {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            closed: false,
            entries: HashMap::new(),
            requesters: HashMap::new(),
            breakers: HashMap::new(),
            backoffs: Backoffs::new(settings),
            limits: Limits::new(settings.concurrency),
            waiting: WaitQueues::default(),
            actions: Vec::new(),
            counts: Counts::default(),
            next_purge: None,
        }
    }

    /// Requests a session.
    pub fn acquire(
        &mut self,
        requester: &Arc<str>,
        key: Key,
        credential: &Credential,
        now: Instant,
    ) -> Result<Acquired<S>, Unavailable> {
        if self.closed {
            let error = LoginError::unreachable("the session pool is closed");
            let retry_after = self.settings.unreachable_backoff.1;
            return Err(Unavailable::Failed { error, retry_after });
        }
        self.purge(now);
        let had_seat = self.unsubscribe(requester);
        let key = self.attach(requester, key);
        let answer = self.answer(requester, &key, credential, now);
        if had_seat {
            self.grant_seats(now);
        }
        answer
    }

    /// Removes a requester.
    pub fn release(&mut self, requester: &str, now: Instant) {
        self.purge(now);
        let had_seat = self.unsubscribe(requester);
        if let Some(known) = self.requesters.remove(requester) {
            self.detach(&known.key);
        }
        if had_seat {
            self.grant_seats(now);
        }
    }

    /// Returns a held session.
    pub fn release_session(&mut self, key: &Arc<Key>, session: &Arc<S>, now: Instant) {
        let lifetime = self.settings.lifetime;
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        if let Some(open) = open.filter(|open| Arc::ptr_eq(&open.session, session)) {
            open.held = open.held.saturating_sub(1);
            open.last_used = now;
            if open.is_older_than(lifetime, now) {
                self.log_out_if_free(key);
            }
        }
        self.release_seat(&Seat::of(key, SeatKind::Use), now);
        self.close_if_unused(key);
    }

    /// Refuses further requests and closes all sessions that are not held.
    pub fn close(&mut self) {
        self.closed = true;
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        for key in keys {
            self.close_if_unused(&key);
        }
    }

    /// Closes the held sessions as well.
    pub fn close_held(&mut self) {
        for entry in self.entries.values_mut() {
            if let Some(open) = entry.open_mut() {
                open.held = 0;
            }
        }
        self.close();
    }

    /// Takes the actions to run now.
    pub fn take_actions(&mut self) -> Vec<Action<S>> {
        std::mem::take(&mut self.actions)
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether no session is open, being opened or being closed.
    pub fn is_idle(&self) -> bool {
        let mut entries = self.entries.values();
        entries.all(|entry| matches!(entry.phase, Phase::Idle))
    }

    /// Returns all metrics in the Prometheus text format.
    pub fn metrics(&self) -> String {
        let closed = |entry: &&Entry<S>| matches!(entry.phase, Phase::Idle | Phase::Opening);
        let open = self.entries.len() - self.entries.values().filter(closed).count();
        let failing = self.backoffs.failing_endpoints();
        metrics::text(&self.counts, open, self.waiting.waiting(), failing)
    }

    /// Returns the session, or what the requester waits for.
    fn answer(
        &mut self,
        requester: &Arc<str>,
        key: &Arc<Key>,
        credential: &Credential,
        now: Instant,
    ) -> Result<Acquired<S>, Unavailable> {
        let busy = Event::Session(Arc::clone(key));
        let Some(kind) = self.needed_seat(requester, key, now) else {
            return Err(self.wait(requester, busy));
        };
        if let Some(backoff) = self.backoffs.active(key, kind != SeatKind::Login, now) {
            let (error, until) = (backoff.error.clone(), backoff.until);
            return Err(self.fail(requester, key, error, until.duration_since(now)));
        }
        if self.retire_if_expired(key, now) {
            return Err(self.wait(requester, busy));
        }
        let breaker = self.breakers.entry(key.endpoint.clone()).or_default();
        let probe = !breaker.is_closed();
        if probe && breaker.is_probing(kind) {
            // The requesters of an endpoint that was down do not wait for the probe: it may time
            // out again.
            return Err(match self.backoffs.last_of(&key.endpoint) {
                Some(Backoff { error, .. }) => {
                    let (error, retry_after) = (error.clone(), self.settings.request_timeout);
                    self.fail(requester, key, error, retry_after)
                }
                None => self.wait(requester, Event::Probe(key.endpoint.clone())),
            });
        }
        let kind = match kind {
            SeatKind::Use if probe => SeatKind::Check,
            kind => kind,
        };
        let seat = Seat::of(key, kind);
        if !self.limits.try_acquire(&seat, now) {
            return Err(self.wait(requester, Event::Seat(seat)));
        }
        if kind == SeatKind::Use
            && let Some(session) = self.hold(requester, key, now)
        {
            return Ok((Arc::clone(key), session));
        }
        self.start_attempt(key, credential, seat, probe, now);
        Err(self.wait(requester, busy))
    }

    /// Returns the seat that a requester needs next; none while the session is busy.
    fn needed_seat(&self, requester: &Arc<str>, key: &Arc<Key>, now: Instant) -> Option<SeatKind> {
        match &self.entries.get(key)?.phase {
            Phase::Opening | Phase::Checking(_) | Phase::Closing => None,
            Phase::Idle => Some(SeatKind::Login),
            Phase::Open(open) => {
                let known = self.requesters.get(requester);
                let checked = known.is_some_and(|known| known.checked);
                match checked || !open.was_idle_for(self.settings.check_after, now) {
                    true => Some(SeatKind::Use),
                    false => Some(SeatKind::Check),
                }
            }
        }
    }

    /// Reports a backoff. If the endpoint does not respond, the requester is woken when it does.
    fn fail(
        &mut self,
        requester: &Arc<str>,
        key: &Arc<Key>,
        error: LoginError,
        retry_after: Duration,
    ) -> Unavailable {
        if self.backoffs.last_of(&key.endpoint).is_some() {
            self.subscribe(requester, Event::Recovery(key.endpoint.clone()));
        }
        Unavailable::Failed { error, retry_after }
    }

    /// Holds the session and returns it.
    fn hold(&mut self, requester: &Arc<str>, key: &Arc<Key>, now: Instant) -> Option<Arc<S>> {
        if let Some(known) = self.requesters.get_mut(requester) {
            known.checked = false;
        }
        let open = self.entries.get_mut(key).and_then(Entry::open_mut)?;
        open.held += 1;
        open.last_used = now;
        Some(Arc::clone(&open.session))
    }

    /// Attaches a requester to a key and detaches it from its previous one.
    fn attach(&mut self, requester: &Arc<str>, key: Key) -> Arc<Key> {
        if let Some(known) = self.requesters.get(requester) {
            let before = Arc::clone(&known.key);
            if *before == key {
                return before;
            }
            self.detach(&before);
        }
        let key = match self.entries.get_key_value(&key) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(key),
        };
        let entry = self.entries.entry(Arc::clone(&key));
        entry.or_insert_with(Entry::new).requesters += 1;
        let known = Requester {
            key: Arc::clone(&key),
            waiting_for: None,
            reserved: None,
            checked: false,
        };
        self.requesters.insert(Arc::clone(requester), known);
        key
    }

    fn detach(&mut self, key: &Arc<Key>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.requesters = entry.requesters.saturating_sub(1);
        }
        self.close_if_unused(key);
    }

    /// Closes a session without requesters, and removes an unused entry.
    fn close_if_unused(&mut self, key: &Arc<Key>) {
        let requesters = self.entries.get(key).map_or(0, |entry| entry.requesters);
        if self.closed || requesters == 0 {
            self.log_out_if_free(key);
        }
        if self.entries.get(key).is_some_and(Entry::is_unused) {
            self.entries.remove(key);
        }
    }

    /// Starts the logout of a session that is neither held nor being checked.
    fn log_out_if_free(&mut self, key: &Arc<Key>) {
        if let Some(session) = self.entries.get_mut(key).and_then(Entry::take_free) {
            let key = Arc::clone(key);
            self.actions.push(Action::LogOut { key, session });
        }
    }

    /// Returns whether a session is too old. It is closed when it is no longer held.
    fn retire_if_expired(&mut self, key: &Arc<Key>, now: Instant) -> bool {
        let lifetime = self.settings.lifetime;
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        let expired = open.is_some_and(|open| open.is_older_than(lifetime, now));
        if expired {
            self.log_out_if_free(key);
        }
        expired
    }

    /// Removes expired state, once in an interval.
    fn purge(&mut self, now: Instant) {
        if self.next_purge.is_some_and(|at| now < at) {
            return;
        }
        self.next_purge = Some(now + PURGE_INTERVAL);
        self.backoffs.purge(now);
        self.limits.purge(now);
        let used: HashSet<_> = self.entries.keys().map(|key| &key.endpoint).collect();
        self.breakers.retain(|endpoint, _| used.contains(endpoint));
    }
}
