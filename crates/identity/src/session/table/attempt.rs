//! Logins, checks and logouts: what begins them, what becomes of them, and what is left alone
//! for a while after they failed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::entry::{Open, Pause, Phase};
use super::super::line::Probe;
use super::super::{Key, LoginError};
use super::{Act, Attempt, Stale, Table};
use crate::credential::Credential;
use crate::reason::Reason;

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

    /// Begins a login, or a check if there is a session.
    pub(super) fn attempt(
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

    /// Whether, and for how long, something is not to be tried: the longest of what there is.
    pub(super) fn paused(&self, key: &Arc<Key>, now: Instant) -> Option<Pause> {
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
            self.pause(
                key,
                Pause {
                    error: LoginError { reason, message },
                    until,
                },
            );
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
    }
}
