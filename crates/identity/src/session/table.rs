//! Pure: who uses what, what is to be done next, and who is to be woken. It does nothing and
//! asks no clock; what it wants done is done by others, who tell it what became of that.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{Entry, Open, Pause, Phase};
use super::line::{Line, Probe, Seats};
use super::{Key, LoginError, Settings};
use crate::credential::{Credential, Fingerprint, Source};
use crate::endpoint::{Endpoint, Trust};
use crate::reason::Reason;

/// Everything that is known.
pub(super) struct Table<S> {
    settings: Settings,
    closed: bool,
    entries: HashMap<Arc<Key>, Entry<S>>,
    askers: HashMap<Arc<str>, Asker>,
    lines: HashMap<Way, Line>,
    seats: HashMap<Endpoint, Seats>,
    refused: HashMap<Account, Pause>,
    /// What may be forgotten, and when.
    stale: BTreeMap<(Instant, u64), Stale>,
    wakes: BTreeMap<u64, Arc<str>>,
    acts: Vec<Act<S>>,
    numbers: u64,
    counts: Counts,
}

/// Something to be done.
pub(super) enum Act<S> {
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

/// A login or a check that is under way.
#[derive(Debug)]
pub(super) struct Attempt {
    key: Arc<Key>,
    since: Instant,
    /// It finds out for all whether the endpoint answers.
    probe: Option<Probe>,
}

/// What whoever asks is told.
pub(super) enum Answer<S> {
    Use {
        key: Arc<Key>,
        id: u64,
        session: Arc<S>,
    },
    Wait,
    Failed {
        error: LoginError,
        again_in: Duration,
    },
}

/// A way to an endpoint.
type Way = (Endpoint, Trust);

/// What a login is counted against at the other side. Whom we believe there is no part of it:
/// whoever asks chooses that, and is not to lock an account by choosing anew.
type Account = (Option<Arc<str>>, Source, Endpoint, Fingerprint);

struct Asker {
    key: Arc<Key>,
    /// Where they wait, and under which number.
    waits: Option<(Place, u64)>,
    /// They are to be woken, in this order.
    wake: Option<u64>,
    /// They were woken for a seat there, and had this number.
    called: Option<(Endpoint, u64)>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// What is being done with the session.
    Entry,
    /// Whether the endpoint answers.
    Line,
    /// That somebody goes.
    Seat,
}

enum Stale {
    Entry(Arc<Key>),
    Line(Way),
    Account(Account),
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
    fn way(&self) -> Way {
        (self.endpoint.clone(), self.trust.clone())
    }

    fn account(&self) -> Account {
        let (source, endpoint) = (self.source.clone(), self.endpoint.clone());
        (
            self.space.clone(),
            source,
            endpoint,
            self.fingerprint.clone(),
        )
    }
}

impl Attempt {
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl<S> Table<S> {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            closed: false,
            entries: HashMap::new(),
            askers: HashMap::new(),
            lines: HashMap::new(),
            seats: HashMap::new(),
            refused: HashMap::new(),
            stale: BTreeMap::new(),
            wakes: BTreeMap::new(),
            acts: Vec::new(),
            numbers: 0,
            counts: Counts::default(),
        }
    }

    /// Somebody asks.
    pub fn ask(
        &mut self,
        asker: &Arc<str>,
        key: Key,
        credential: &Credential,
        now: Instant,
    ) -> Answer<S> {
        if self.closed {
            let message = "sessions are not opened any more".to_owned();
            let reason = Reason::Unreachable;
            let again_in = self.settings.unreachable_for.1;
            return Answer::Failed {
                error: LoginError { reason, message },
                again_in,
            };
        }
        self.forget(now);
        let called = self.arrive(asker);
        let key = self.join(asker, key, now);
        let answer = self.answer(&key, credential, now).unwrap_or_else(|place| {
            self.queue(asker, &key, place, called.as_ref());
            Answer::Wait
        });
        if let Some((endpoint, _)) = called {
            self.call(&endpoint);
        }
        answer
    }

    /// Somebody uses none any more.
    pub fn release(&mut self, asker: &str, now: Instant) {
        self.forget(now);
        let called = self.arrive(asker);
        if let Some(known) = self.askers.remove(asker) {
            self.part(asker, &known.key, now);
        }
        if let Some((endpoint, _)) = called {
            self.call(&endpoint);
        }
    }

    /// A login has ended.
    pub fn logged_in(&mut self, attempt: &Attempt, opened: Result<S, LoginError>, now: Instant) {
        let key = &attempt.key;
        let outcome = opened.as_ref().map(|_| ()).map_err(Clone::clone);
        let number = self.number();
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.phase = match opened {
            Ok(session) => Phase::Open(Open {
                id: number,
                session: Arc::new(session),
                since: now,
                used: now,
                held: 0,
            }),
            Err(_) => Phase::Idle,
        };
        match &outcome {
            Ok(()) => self.counts.opened += 1,
            Err(error) if error.reason == Reason::InvalidCredentials => {
                self.refuse(key, error, now)
            }
            Err(_) => self.counts.failed += 1,
        }
        self.conclude(attempt, outcome, now);
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
                open.used = now;
                entry.phase = Phase::Open(open);
                Ok(())
            }
            Err(error) if error.reason != Reason::InvalidCredentials => {
                entry.phase = Phase::Open(open);
                Err(error)
            }
            Ok(false) | Err(_) => {
                self.rest(key, open.since, now);
                Ok(())
            }
        };
        self.conclude(attempt, outcome, now);
    }

    /// A logout has ended, however.
    pub fn logged_out(&mut self, key: &Arc<Key>, now: Instant) {
        self.counts.closed += 1;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.phase = Phase::Idle;
        }
        self.wake_entry(key);
        self.settle(key, now);
    }

    /// Somebody who held a session does not any more.
    pub fn dropped(&mut self, key: &Arc<Key>, id: u64, now: Instant) {
        let lifetime = self.settings.lifetime;
        let mut old = false;
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        if let Some(open) = open.filter(|open| open.id == id) {
            open.held = open.held.saturating_sub(1);
            open.used = now;
            old = open.is_older_than(lifetime, now);
        }
        self.stand_up(&key.endpoint);
        match old {
            true => self.shut(key),
            false => self.settle(key, now),
        }
    }

    /// The other side does not know a session any more. Only the first who says so matters.
    pub fn dead(&mut self, key: &Arc<Key>, id: u64, now: Instant) {
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
        self.rest(key, since, now);
        self.wake_entry(key);
        self.settle(key, now);
    }

    /// An endpoint may not answer any more.
    pub fn suspect(&mut self, key: &Key) {
        if let Some(line) = self.lines.get_mut(&key.way()) {
            line.proven = false;
        }
    }

    /// Opens none any more, and closes what nobody holds.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        for key in keys {
            self.settle(&key, now);
        }
    }

    /// Closes what is held too.
    pub fn close_held(&mut self, now: Instant) {
        for entry in self.entries.values_mut() {
            if let Some(open) = entry.open_mut() {
                open.held = 0;
            }
        }
        self.close(now);
    }

    /// What is to be done from now.
    pub fn acts(&mut self) -> Vec<Act<S>> {
        std::mem::take(&mut self.acts)
    }

    /// Who is to ask again, the next of them.
    pub fn wake(&mut self) -> Option<Arc<str>> {
        let (_, asker) = self.wakes.pop_first()?;
        if let Some(known) = self.askers.get_mut(&asker) {
            known.wake = None;
        }
        Some(asker)
    }

    pub fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nothing is open, and nothing being opened or closed.
    pub fn is_quiet(&self) -> bool {
        let mut entries = self.entries.values();
        entries.all(|entry| matches!(entry.phase, Phase::Idle))
    }

    /// All figures, in the text form of Prometheus.
    pub fn metrics(&self) -> String {
        let open = self.entries.values().filter(|entry| {
            matches!(
                entry.phase,
                Phase::Open(_) | Phase::Checking(_) | Phase::Closing
            )
        });
        let waits = self.askers.values().filter(|asker| asker.waits.is_some());
        let paused = self.lines.values().filter(|line| line.pause.is_some());
        let counts = &self.counts;
        let mut text = String::new();
        for (name, kind, help, lines) in [
            (
                "sessions_open",
                "gauge",
                "Sessions that are open.",
                vec![("", open.count() as u64)],
            ),
            (
                "sessions_waiting",
                "gauge",
                "Objects that wait for a session.",
                vec![("", waits.count() as u64)],
            ),
            (
                "session_endpoints_failing",
                "gauge",
                "Endpoints that do not answer.",
                vec![("", paused.count() as u64)],
            ),
            (
                "session_logins_total",
                "counter",
                "Logins, by what became of them.",
                vec![
                    ("{result=\"opened\"}", counts.opened),
                    ("{result=\"refused\"}", counts.refused),
                    ("{result=\"failed\"}", counts.failed),
                ],
            ),
            (
                "session_checks_total",
                "counter",
                "Sessions that were checked before use.",
                vec![("", counts.checks)],
            ),
            (
                "session_logouts_total",
                "counter",
                "Sessions that were closed.",
                vec![("", counts.closed)],
            ),
        ] {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "# HELP insula_{name} {help}\n# TYPE insula_{name} {kind}"
            );
            for (label, value) in lines {
                let _ = writeln!(text, "insula_{name}{label} {value}");
            }
        }
        text
    }

    /// What to tell whoever asks, or what they are to wait for.
    fn answer(
        &mut self,
        key: &Arc<Key>,
        credential: &Credential,
        now: Instant,
    ) -> Result<Answer<S>, Place> {
        let busy = self.entries.get(key).is_none_or(Entry::is_busy);
        if busy {
            return Err(Place::Entry);
        }
        if let Some(Pause { error, until }) = self.paused(key, now) {
            let again_in = until.duration_since(now);
            return Ok(Answer::Failed { error, again_in });
        }
        if self.retire(key, now) {
            return Err(Place::Entry);
        }
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        let probe = match open {
            Some(_) => Probe::Check,
            None => Probe::Login,
        };
        let line = self.lines.entry(key.way()).or_default();
        let proven = line.proven;
        if !proven && line.is_waited_for_by(probe) {
            return Err(Place::Line);
        }
        if !self.sit_down(&key.endpoint) {
            return Err(Place::Seat);
        }
        if proven && let Some((id, session)) = self.usable(key, now) {
            let key = Arc::clone(key);
            return Ok(Answer::Use { key, id, session });
        }
        let probe = (!proven).then_some(probe);
        self.attempt(key, credential, probe, now);
        Err(Place::Entry)
    }

    /// Whether, and for how long, something is not to be tried: the longest of what there is.
    fn paused(&self, key: &Arc<Key>, now: Instant) -> Option<Pause> {
        let entry = self.entries.get(key)?;
        let first = self.settings.unreachable_for.0;
        let line = self.lines.get(&key.way());
        let line = line.and_then(|line| line.pause_for(key, first));
        let refused = match entry.phase {
            // A session that is open was not refused.
            Phase::Open(_) => None,
            _ => self.refused.get(&key.account()).cloned(),
        };
        let pauses = [entry.pause.clone(), line, refused].into_iter().flatten();
        let active = pauses.filter(|pause| pause.until > now);
        active.max_by_key(|pause| pause.until)
    }

    /// Whether a session has become too old. It is closed when nobody holds it any more.
    fn retire(&mut self, key: &Arc<Key>, now: Instant) -> bool {
        let open = self.entries.get_mut(key).and_then(Entry::open_mut);
        let Some(open) = open else {
            return false;
        };
        if !open.is_older_than(self.settings.lifetime, now) {
            return false;
        }
        self.shut(key);
        true
    }

    /// The session, if it may be used without a check; it is held from now.
    fn usable(&mut self, key: &Arc<Key>, now: Instant) -> Option<(u64, Arc<S>)> {
        let check_after = self.settings.check_after;
        let open = self.entries.get_mut(key).and_then(Entry::open_mut)?;
        if open.was_idle_for(check_after, now) {
            return None;
        }
        open.held += 1;
        open.used = now;
        Some((open.id, Arc::clone(&open.session)))
    }

    /// Begins a login, or a check if there is a session.
    fn attempt(
        &mut self,
        key: &Arc<Key>,
        credential: &Credential,
        probe: Option<Probe>,
        now: Instant,
    ) {
        let attempt = Attempt {
            key: Arc::clone(key),
            since: now,
            probe,
        };
        if let Some(line) = self.lines.get_mut(&key.way()) {
            line.begin(probe);
        }
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.pause = None;
        match std::mem::replace(&mut entry.phase, Phase::Opening) {
            Phase::Open(open) => {
                let session = Arc::clone(&open.session);
                entry.phase = Phase::Checking(open);
                self.acts.push(Act::Check { attempt, session });
            }
            _ => {
                let credential = credential.clone();
                self.acts.push(Act::LogIn {
                    attempt,
                    credential,
                });
            }
        }
    }

    /// What an attempt says about the endpoint; then whoever waited for it is woken.
    fn conclude(&mut self, attempt: &Attempt, outcome: Result<(), LoginError>, now: Instant) {
        let key = &attempt.key;
        let answered = match outcome {
            Ok(()) => true,
            Err(error) if error.reason == Reason::InvalidCredentials => true,
            Err(error) => {
                self.fail(attempt, error, now);
                false
            }
        };
        if let Some(line) = self.lines.get_mut(&key.way()) {
            line.end(attempt.probe);
            if answered {
                line.answers(now);
            }
            let woken = match answered || attempt.probe.is_some() {
                true => line.waiting.all(),
                false => Vec::new(),
            };
            self.wake_all(woken);
        }
        self.stand_up(&key.endpoint);
        self.wake_entry(key);
        self.settle(key, now);
    }

    /// Nobody answered. If somebody else was answered meanwhile, it is this account that is
    /// left alone, and not the endpoint.
    fn fail(&mut self, attempt: &Attempt, error: LoginError, now: Instant) {
        let key = &attempt.key;
        let pauses = self.settings.unreachable_for;
        let way = key.way();
        let Some(line) = self.lines.get_mut(&way) else {
            return;
        };
        if attempt.probe.is_some() && !line.answered_since(attempt.since) {
            let over = line.fails(key, error, pauses, now);
            self.note(over, Stale::Line(way));
        } else {
            line.doubt(attempt.since);
            let until = now + pauses.0;
            self.pause(key, Pause { error, until });
        }
    }

    /// A session that did not live long is not followed at once by the next: a server that
    /// forgets all of them is not to be flooded with logins.
    fn rest(&mut self, key: &Arc<Key>, since: Instant, now: Instant) {
        let until = since + self.settings.unreachable_for.0;
        if until > now {
            let message = "the session ended as soon as it was opened".to_owned();
            let reason = Reason::Unreachable;
            self.pause(
                key,
                Pause {
                    error: LoginError { reason, message },
                    until,
                },
            );
        }
    }

    fn pause(&mut self, key: &Arc<Key>, pause: Pause) {
        self.note(pause.until, Stale::Entry(Arc::clone(key)));
        if let Some(entry) = self.entries.get_mut(key) {
            entry.pause = Some(pause);
        }
    }

    fn refuse(&mut self, key: &Arc<Key>, error: &LoginError, now: Instant) {
        self.counts.refused += 1;
        let until = now + self.settings.refused_for;
        self.note(until, Stale::Account(key.account()));
        let error = error.clone();
        self.refused.insert(key.account(), Pause { error, until });
    }

    /// Whoever comes waits no more, is not to be woken, and was not called in vain.
    fn arrive(&mut self, asker: &str) -> Option<(Endpoint, u64)> {
        let known = self.askers.get_mut(asker)?;
        if let Some(number) = known.wake.take() {
            self.wakes.remove(&number);
        }
        let called = known.called.take();
        let (waits, key) = (known.waits.take(), Arc::clone(&known.key));
        if let Some((place, number)) = waits {
            match place {
                Place::Entry => {
                    if let Some(entry) = self.entries.get_mut(&key) {
                        entry.waiting.leave(number);
                    }
                }
                Place::Line => {
                    if let Some(line) = self.lines.get_mut(&key.way()) {
                        line.waiting.leave(number);
                    }
                }
                Place::Seat => {
                    if let Some(seats) = self.seats.get_mut(&key.endpoint) {
                        seats.waiting.leave(number);
                    }
                    self.clear(&key.endpoint);
                }
            }
        }
        if let Some((endpoint, _)) = &called
            && let Some(seats) = self.seats.get_mut(endpoint)
        {
            seats.called = seats.called.saturating_sub(1);
        }
        called
    }

    /// Whoever asks uses this from now, and what they used before no more.
    fn join(&mut self, asker: &Arc<str>, key: Key, now: Instant) -> Arc<Key> {
        if let Some(known) = self.askers.get(asker) {
            if *known.key == key {
                return Arc::clone(&known.key);
            }
            let before = Arc::clone(&known.key);
            self.part(asker, &before, now);
        }
        let key = match self.entries.get_key_value(&key) {
            Some((known, _)) => Arc::clone(known),
            None => {
                self.lines.entry(key.way()).or_default().keys += 1;
                let key = Arc::new(key);
                self.entries.insert(Arc::clone(&key), Entry::new());
                key
            }
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.askers.insert(Arc::clone(asker));
        }
        let known = Asker {
            key: Arc::clone(&key),
            waits: None,
            wake: None,
            called: None,
        };
        self.askers.insert(Arc::clone(asker), known);
        key
    }

    fn part(&mut self, asker: &str, key: &Arc<Key>, now: Instant) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.askers.remove(asker);
        }
        self.settle(key, now);
    }

    /// Whoever was called and found no seat keeps their place.
    fn queue(
        &mut self,
        asker: &Arc<str>,
        key: &Arc<Key>,
        place: Place,
        called: Option<&(Endpoint, u64)>,
    ) {
        let number = match called {
            Some((endpoint, number)) if place == Place::Seat && *endpoint == key.endpoint => {
                *number
            }
            _ => self.number(),
        };
        let crowd = match place {
            Place::Entry => self.entries.get_mut(key).map(|entry| &mut entry.waiting),
            Place::Line => self.lines.get_mut(&key.way()).map(|line| &mut line.waiting),
            Place::Seat => self
                .seats
                .get_mut(&key.endpoint)
                .map(|seats| &mut seats.waiting),
        };
        if let Some(crowd) = crowd {
            crowd.join(number, asker);
        }
        if let Some(known) = self.askers.get_mut(asker) {
            known.waits = Some((place, number));
        }
    }

    fn wake_entry(&mut self, key: &Arc<Key>) {
        let entry = self.entries.get_mut(key);
        let woken = entry.map_or_else(Vec::new, |entry| entry.waiting.all());
        self.wake_all(woken);
    }

    fn wake_all(&mut self, askers: Vec<Arc<str>>) {
        for asker in askers {
            self.wake_one(asker);
        }
    }

    fn wake_one(&mut self, asker: Arc<str>) {
        let number = self.number();
        let Some(known) = self.askers.get_mut(&asker) else {
            return;
        };
        known.waits = None;
        if known.wake.is_none() {
            known.wake = Some(number);
            self.wakes.insert(number, asker);
        }
    }

    /// Takes a seat, if there is one.
    fn sit_down(&mut self, endpoint: &Endpoint) -> bool {
        let seats = self.seats.entry(endpoint.clone()).or_default();
        // With none at all nobody would ever be woken.
        let free = seats.taken < self.settings.at_once.max(1);
        seats.taken += usize::from(free);
        free
    }

    fn stand_up(&mut self, endpoint: &Endpoint) {
        if let Some(seats) = self.seats.get_mut(endpoint) {
            seats.taken = seats.taken.saturating_sub(1);
        }
        self.call(endpoint);
    }

    /// Wakes as many as there are free seats. Whoever was called and did not come yet counts:
    /// when they come and do not sit down, the next is called.
    fn call(&mut self, endpoint: &Endpoint) {
        let at_once = self.settings.at_once.max(1);
        while let Some(seats) = self.seats.get_mut(endpoint) {
            if seats.taken + seats.called >= at_once {
                break;
            }
            let Some((number, asker)) = seats.waiting.first() else {
                break;
            };
            let Some(known) = self.askers.get_mut(&asker) else {
                continue;
            };
            seats.called += 1;
            known.called = Some((endpoint.clone(), number));
            self.wake_one(asker);
        }
        self.clear(endpoint);
    }

    fn clear(&mut self, endpoint: &Endpoint) {
        if self.seats.get(endpoint).is_some_and(Seats::is_void) {
            self.seats.remove(endpoint);
        }
    }

    /// Closes a session that nobody uses; forgets a key of which nothing is to be remembered.
    fn settle(&mut self, key: &Arc<Key>, now: Instant) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        if self.closed || entry.askers.is_empty() {
            self.shut(key);
        }
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.is_void(now))
        {
            self.entries.remove(key);
            if let Some(line) = self.lines.get_mut(&key.way()) {
                line.keys = line.keys.saturating_sub(1);
            }
            self.settle_line(&key.way(), now);
        }
    }

    fn settle_line(&mut self, way: &Way, now: Instant) {
        if self.lines.get(way).is_some_and(|line| line.is_void(now)) {
            self.lines.remove(way);
        }
    }

    /// Closes a session if nobody holds it, and it is not being checked.
    fn shut(&mut self, key: &Arc<Key>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        match std::mem::replace(&mut entry.phase, Phase::Closing) {
            Phase::Open(open) if open.held == 0 => {
                let key = Arc::clone(key);
                self.acts.push(Act::LogOut {
                    key,
                    session: open.session,
                });
            }
            other => entry.phase = other,
        }
    }

    /// Notes that something may be forgotten from then.
    fn note(&mut self, when: Instant, what: Stale) {
        let number = self.number();
        self.stale.insert((when, number), what);
    }

    fn forget(&mut self, now: Instant) {
        while let Some(first) = self.stale.first_entry() {
            if first.key().0 > now {
                return;
            }
            match first.remove() {
                Stale::Entry(key) => self.settle(&key, now),
                Stale::Line(way) => self.settle_line(&way, now),
                Stale::Account(account) => {
                    if self
                        .refused
                        .get(&account)
                        .is_some_and(|pause| pause.until <= now)
                    {
                        self.refused.remove(&account);
                    }
                }
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

#[cfg(test)]
impl<S> Table<S> {
    /// How much is remembered, by what it is.
    pub fn weight(&self) -> [usize; 7] {
        [
            self.entries.len(),
            self.askers.len(),
            self.lines.len(),
            self.seats.len(),
            self.refused.len(),
            self.stale.len(),
            self.wakes.len(),
        ]
    }

    pub fn waiting(&self) -> usize {
        let entries = self.entries.values().map(|entry| entry.waiting.len());
        let lines = self.lines.values().map(|line| line.waiting.len());
        let seats = self.seats.values().map(|seats| seats.waiting.len());
        entries.chain(lines).chain(seats).sum()
    }
}
