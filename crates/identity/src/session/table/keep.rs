//! What is kept, and what is closed and forgotten.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::Key;
use super::super::entry::{Entry, Phase};
use super::{Act, Stale, Table, Way};

impl<S> Table<S> {
    /// Closes a session that nobody uses; forgets a key of which nothing is to be remembered.
    pub(super) fn settle(&mut self, key: &Arc<Key>, now: Instant) {
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

    pub(super) fn settle_line(&mut self, way: &Way, now: Instant) {
        if self.lines.get(way).is_some_and(|line| line.is_void(now)) {
            self.lines.remove(way);
        }
    }

    /// Closes a session if nobody holds it, and it is not being checked.
    pub(super) fn shut(&mut self, key: &Arc<Key>) {
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

    /// Whether a session has become too old. It is closed when nobody holds it any more.
    pub(super) fn retire(&mut self, key: &Arc<Key>, now: Instant) -> bool {
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

    /// Notes that something may be forgotten from then.
    pub(super) fn note(&mut self, when: Instant, what: Stale) {
        let number = self.number();
        self.stale.insert((when, number), what);
    }

    pub(super) fn forget(&mut self, now: Instant) {
        while let Some(first) = self.stale.first_entry() {
            if first.key().0 > now {
                return;
            }
            match first.remove() {
                Stale::Entry(key) => self.settle(&key, now),
                Stale::Line(way) => self.settle_line(&way, now),
                Stale::Room(endpoint) => {
                    self.hall.forgive(&endpoint, now);
                    self.call(now);
                }
                Stale::Guesser(guesser) => {
                    if let Some(counting) = self.guesses.get_mut(&guesser) {
                        counting.retain(|until| *until > now);
                        if counting.is_empty() {
                            self.guesses.remove(&guesser);
                        }
                    }
                }
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
}
