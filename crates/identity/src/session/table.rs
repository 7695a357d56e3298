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

use self::attempt::Paused;
use self::turn::Arrival;
use super::entry::{Entry, Pause, Phase};
use super::hall::{Hall, Seat, Sort};
use super::line::{Line, Probe};
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
    hall: Hall,
    refused: HashMap<Account, Pause>,
    /// Until when contents of a source count that were refused.
    guesses: HashMap<Guesser, Vec<Instant>>,
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
    seat: Seat,
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
/// whoever asks chooses that, and is not to lock an account by choosing anew. Nor is where it
/// is from: the same content in ten places is one account.
type Account = (Option<Arc<str>>, Endpoint, Fingerprint);

/// Whose contents are refused somewhere.
type Guesser = (Option<Arc<str>>, Source, Endpoint);

/// How many contents of a source may be refused before the next has to wait: an account is
/// locked after a handful.
const GUESSES: usize = 3;

struct Asker {
    key: Arc<Key>,
    /// Where they wait, and under which number.
    waits: Option<(Place, u64)>,
    /// They are to be woken, in this order.
    wake: Option<u64>,
    /// They were woken for this seat, and had this number.
    called: Option<(Seat, u64)>,
    /// They were woken because this session was found to be one: they need not check it.
    vouched: Option<u64>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// What is being done with the session.
    Entry,
    /// Whether the endpoint answers.
    Line,
    /// That the endpoint answers again, by those who were told that it does not.
    Hope,
    /// That somebody goes.
    Seat(Sort),
}

enum Stale {
    Entry(Arc<Key>),
    Line(Way),
    Account(Account),
    Guesser(Guesser),
    Room(Endpoint),
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
        let (endpoint, fingerprint) = (self.endpoint.clone(), self.fingerprint.clone());
        (self.space.clone(), endpoint, fingerprint)
    }

    fn guesser(&self) -> Guesser {
        let (source, endpoint) = (self.source.clone(), self.endpoint.clone());
        (self.space.clone(), source, endpoint)
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
            hall: Hall::new(settings.at_once),
            refused: HashMap::new(),
            guesses: HashMap::new(),
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
            let answered = false;
            return Answer::Failed {
                error: LoginError {
                    reason,
                    message,
                    answered,
                },
                again_in,
            };
        }
        self.forget(now);
        let arrival = self.arrive(asker);
        let key = self.join(asker, key, now);
        let answer = self.answer(asker, &arrival, &key, credential, now);
        let answer = answer.unwrap_or_else(|place| {
            self.queue(asker, &key, place, &arrival);
            Answer::Wait
        });
        if arrival.called.is_some() {
            self.call(now);
        }
        answer
    }

    /// Somebody uses none any more.
    pub fn release(&mut self, asker: &str, now: Instant) {
        self.forget(now);
        let arrival = self.arrive(asker);
        if let Some(known) = self.askers.remove(asker) {
            self.part(asker, &known.key, now);
        }
        if arrival.called.is_some() {
            self.call(now);
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
        self.stand_up(&Seat::of(key, Sort::Use), now);
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
        asker: &Arc<str>,
        arrival: &Arrival,
        key: &Arc<Key>,
        credential: &Credential,
        now: Instant,
    ) -> Result<Answer<S>, Place> {
        let busy = self.entries.get(key).is_none_or(Entry::is_busy);
        if busy {
            return Err(Place::Entry);
        }
        match self.paused(key, now) {
            Some(Paused::Line(pause)) => {
                return Ok(self.hope(asker, key, arrival, pause, now));
            }
            Some(Paused::Key(Pause { error, until })) => {
                let again_in = until.duration_since(now);
                return Ok(Answer::Failed { error, again_in });
            }
            None => {}
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
            let Some(before) = &line.pause else {
                return Err(Place::Line);
            };
            // It did not answer before: whoever finds out whether it does now is not waited
            // for by everybody.
            let (error, until) = (before.error.clone(), now + self.settings.patience);
            return Ok(self.hope(asker, key, arrival, Pause { error, until }, now));
        }
        let sort = match probe {
            Probe::Login => Sort::Login,
            Probe::Check if proven && self.is_usable(asker, key, now) => Sort::Use,
            Probe::Check => Sort::Check,
        };
        let seat = Seat::of(key, sort);
        if !self.hall.sit_down(&seat, now) {
            return Err(Place::Seat(sort));
        }
        if sort == Sort::Use
            && let Some((id, session)) = self.hold(asker, key, now)
        {
            let key = Arc::clone(key);
            return Ok(Answer::Use { key, id, session });
        }
        let probe = (!proven).then_some(probe);
        self.attempt(key, credential, (probe, seat), now);
        Err(Place::Entry)
    }

    /// Whether the session may be used without a check.
    fn is_usable(&self, asker: &Arc<str>, key: &Arc<Key>, now: Instant) -> bool {
        let check_after = self.settings.check_after;
        let vouched = self.askers.get(asker).and_then(|known| known.vouched);
        match self.entries.get(key).map(|entry| &entry.phase) {
            Some(Phase::Open(open)) => {
                vouched == Some(open.id) || !open.was_idle_for(check_after, now)
            }
            _ => false,
        }
    }

    /// The session; it is held from now.
    fn hold(&mut self, asker: &Arc<str>, key: &Arc<Key>, now: Instant) -> Option<(u64, Arc<S>)> {
        if let Some(known) = self.askers.get_mut(asker) {
            known.vouched = None;
        }
        let open = self.entries.get_mut(key).and_then(Entry::open_mut)?;
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
            self.hall.len(),
            self.refused.len() + self.guesses.len(),
            self.stale.len(),
            self.wakes.len(),
        ]
    }

    pub fn waiting(&self) -> usize {
        let entries = self.entries.values().map(|entry| entry.waiting.len());
        let lines = self.lines.values().map(|line| line.waiting.len());
        entries.chain(lines).sum::<usize>() + self.hall.waiting()
    }

    /// How many hope for an endpoint that answers: nobody is to.
    pub fn hoping_in_vain(&self) -> usize {
        let lines = self.lines.values().filter(|line| line.proven);
        lines.map(|line| line.hoping.len()).sum()
    }
}
