//! Pure: who uses what, what is to be done next, and who is to be woken. It does nothing and
//! asks no clock; what it wants done is done by others, who tell it what became of that.

mod attempt;
mod figures;
mod keep;
mod turn;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::entry::{Entry, Pause, Phase};
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
