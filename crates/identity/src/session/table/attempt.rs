//! Logins, checks and logouts: what begins them, what becomes of them, and what is left alone
//! for a while after they failed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::entry::{Open, Pause, Phase};
use super::super::hall::Seat;
use super::super::line::Probe;
use super::super::{Key, LoginError};
use super::{Act, Attempt, GUESSES, Stale, Table};
use crate::credential::Credential;
use crate::reason::Reason;

/// Why something is not tried for a while.
pub(super) enum Paused {
    /// The endpoint does not answer anybody.
    Line(Pause),
    /// It is about this session or its credential.
    Key(Pause),
}

impl<S> Table<S> {
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
            Ok(()) => {
                entry.failures = 0;
                self.counts.opened += 1;
            }
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
    pub fn suspect(&mut self, key: &Key, now: Instant) {
        if let Some(line) = self.lines.get_mut(&key.way()) {
            line.proven = false;
        }
        let until = now + self.settings.refused_for;
        self.hall.suspect(&key.endpoint, until);
        self.note(until, Stale::Room(key.endpoint.clone()));
    }

    /// An endpoint did what it was asked.
    pub fn trust(&mut self, key: &Key, now: Instant) {
        self.hall.trust(&key.endpoint);
        self.call(now);
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
    pub(super) fn conclude(
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
                self.leave_alone(key, error, now);
                true
            }
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
            let mut woken = match answered || attempt.probe.is_some() {
                true => line.waiting.all(),
                false => Vec::new(),
            };
            if answered {
                woken.extend(line.hoping.all());
            }
            self.wake_all(woken);
        }
        self.stand_up(&attempt.seat, now);
        self.vouch(key);
        self.wake_entry(key);
        self.settle(key, now);
    }

    /// Whoever waited for a session that is open now may use it, whatever its age: else they
    /// could check it for ever.
    fn vouch(&mut self, key: &Arc<Key>) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let Phase::Open(open) = &entry.phase else {
            return;
        };
        for asker in entry.waiting.askers() {
            if let Some(known) = self.askers.get_mut(asker) {
                known.vouched = Some(open.id);
            }
        }
    }

    /// Whether, and for how long, something is not to be tried: the longest of what there is.
    pub(super) fn paused(&self, key: &Arc<Key>, now: Instant) -> Option<Paused> {
        let entry = self.entries.get(key)?;
        let first = self.settings.unreachable_for.0;
        let line = self.lines.get(&key.way());
        let line = line.and_then(|line| line.pause_for(key, first));
        let (refused, guessed) = match entry.phase {
            // A session that is open was not refused.
            Phase::Open(_) => (None, None),
            _ => {
                let refused = self.refused.get(&key.account()).cloned();
                (refused, self.guessed(key, now))
            }
        };
        let line = line.map(Paused::Line);
        let keys = [entry.pause.clone(), refused, guessed].map(|pause| pause.map(Paused::Key));
        let pauses = keys.into_iter().chain([line]).flatten();
        let active = pauses.filter(|paused| paused.until() > now);
        active.max_by_key(Paused::until)
    }

    /// Whether too many contents of the same source were refused just now.
    fn guessed(&self, key: &Key, now: Instant) -> Option<Pause> {
        let mut counting = self.guesses.get(&key.guesser())?.clone();
        counting.retain(|until| *until > now);
        counting.sort_unstable();
        let until = *counting.get(counting.len().checked_sub(GUESSES)?)?;
        let message = format!("{GUESSES} other contents of this credential were not taken");
        let error = LoginError {
            reason: Reason::InvalidCredentials,
            message,
            answered: true,
        };
        Some(Pause { error, until })
    }

    /// It was answered, and yet there is no session: its pauses grow, and nobody else's.
    fn leave_alone(&mut self, key: &Arc<Key>, error: LoginError, now: Instant) {
        let (first, longest) = self.settings.unreachable_for;
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
    pub(super) fn fail(&mut self, attempt: &Attempt, error: LoginError, now: Instant) {
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
    pub(super) fn rest(&mut self, key: &Arc<Key>, since: Instant, now: Instant) {
        let until = since + self.settings.unreachable_for.0;
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
        self.note(pause.until, Stale::Entry(Arc::clone(key)));
        if let Some(entry) = self.entries.get_mut(key) {
            entry.pause = Some(pause);
        }
    }

    pub(super) fn refuse(&mut self, key: &Arc<Key>, error: &LoginError, now: Instant) {
        self.counts.refused += 1;
        let until = now + self.settings.refused_for;
        self.note(until, Stale::Account(key.account()));
        let error = error.clone();
        self.refused.insert(key.account(), Pause { error, until });
        self.note(until, Stale::Guesser(key.guesser()));
        self.guesses.entry(key.guesser()).or_default().push(until);
    }
}

impl Paused {
    fn until(&self) -> Instant {
        match self {
            Self::Line(pause) | Self::Key(pause) => pause.until,
        }
    }
}
