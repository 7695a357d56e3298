//! Whose turn it is: who comes and goes, who waits for what, who is woken, who has a seat.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::Key;
use super::super::entry::Entry;
use super::super::line::Seats;
use super::{Asker, Place, Table};
use crate::endpoint::Endpoint;

impl<S> Table<S> {
    /// Whoever comes waits no more, is not to be woken, and was not called in vain.
    pub(super) fn arrive(&mut self, asker: &str) -> Option<(Endpoint, u64)> {
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
    pub(super) fn join(&mut self, asker: &Arc<str>, key: Key, now: Instant) -> Arc<Key> {
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

    pub(super) fn part(&mut self, asker: &str, key: &Arc<Key>, now: Instant) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.askers.remove(asker);
        }
        self.settle(key, now);
    }

    /// Whoever was called and found no seat keeps their place.
    pub(super) fn queue(
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

    pub(super) fn wake_entry(&mut self, key: &Arc<Key>) {
        let entry = self.entries.get_mut(key);
        let woken = entry.map_or_else(Vec::new, |entry| entry.waiting.all());
        self.wake_all(woken);
    }

    pub(super) fn wake_all(&mut self, askers: Vec<Arc<str>>) {
        for asker in askers {
            self.wake_one(asker);
        }
    }

    pub(super) fn wake_one(&mut self, asker: Arc<str>) {
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
    pub(super) fn sit_down(&mut self, endpoint: &Endpoint) -> bool {
        let seats = self.seats.entry(endpoint.clone()).or_default();
        // With none at all nobody would ever be woken.
        let free = seats.taken < self.settings.at_once.max(1);
        seats.taken += usize::from(free);
        free
    }

    pub(super) fn stand_up(&mut self, endpoint: &Endpoint) {
        if let Some(seats) = self.seats.get_mut(endpoint) {
            seats.taken = seats.taken.saturating_sub(1);
        }
        self.call(endpoint);
    }

    /// Wakes as many as there are free seats. Whoever was called and did not come yet counts:
    /// when they come and do not sit down, the next is called.
    pub(super) fn call(&mut self, endpoint: &Endpoint) {
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

    pub(super) fn clear(&mut self, endpoint: &Endpoint) {
        if self.seats.get(endpoint).is_some_and(Seats::is_void) {
            self.seats.remove(endpoint);
        }
    }
}
