//! Whose turn it is: who comes and goes, who waits for what, who is woken, who has a seat.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::Key;
use super::super::entry::{Entry, Pause};
use super::super::hall::Seat;
use super::{Answer, Asker, Place, Table};

/// How far apart those come back who hope for the same endpoint: all at once they would keep
/// everybody else from being worked on.
const TRICKLE: Duration = Duration::from_millis(50);

/// What was kept for whoever comes.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// A seat, and the number they waited with.
    pub called: Option<(Seat, u64)>,
    /// The number they hoped with.
    pub hoped: Option<u64>,
}

impl<S> Table<S> {
    /// Whoever comes waits no more, is not to be woken, and was not called in vain.
    pub(super) fn arrive(&mut self, asker: &str) -> Arrival {
        let mut arrival = Arrival::default();
        let Some(known) = self.askers.get_mut(asker) else {
            return arrival;
        };
        if let Some(number) = known.wake.take() {
            self.wakes.remove(&number);
        }
        arrival.called = known.called.take();
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
                Place::Hope => {
                    arrival.hoped = Some(number);
                    if let Some(line) = self.lines.get_mut(&key.way()) {
                        line.hoping.leave(number);
                    }
                }
                Place::Seat(sort) => self.hall.leave(&Seat::of(&key, sort), number),
            }
        }
        if let Some((seat, _)) = &arrival.called {
            self.hall.stand_up(seat);
        }
        arrival
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
            vouched: None,
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
        arrival: &Arrival,
    ) {
        let number = match (place, &arrival.called, arrival.hoped) {
            (Place::Seat(_), Some((seat, number)), _) if seat.endpoint == key.endpoint => *number,
            (Place::Hope, _, Some(number)) => number,
            _ => self.number(),
        };
        let line = self.lines.get_mut(&key.way());
        let crowd = match place {
            Place::Entry => self.entries.get_mut(key).map(|entry| &mut entry.waiting),
            Place::Line => line.map(|line| &mut line.waiting),
            Place::Hope => line.map(|line| &mut line.hoping),
            Place::Seat(sort) => {
                self.hall.join(Seat::of(key, sort), number, asker);
                None
            }
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

    /// Tells somebody that an endpoint does not answer. They are woken when it does, and come
    /// back by themselves one after the other: the first of them finds out.
    pub(super) fn hope(
        &mut self,
        asker: &Arc<str>,
        key: &Arc<Key>,
        arrival: &Arrival,
        Pause { error, until }: Pause,
        now: Instant,
    ) -> Answer<S> {
        self.queue(asker, key, Place::Hope, arrival);
        let longest = self.settings.unreachable_for.1;
        let most = longest.as_millis() / TRICKLE.as_millis();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let waits = self.askers.get(asker).and_then(|known| known.waits);
        let line = self.lines.get(&key.way());
        let ahead = match (waits, line) {
            (Some((_, number)), Some(line)) => line.hoping.ahead_of(number, most),
            _ => 0,
        };
        let after = TRICKLE.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        let again_in = until.saturating_duration_since(now) + after;
        Answer::Failed { error, again_in }
    }

    pub(super) fn stand_up(&mut self, seat: &Seat, now: Instant) {
        self.hall.stand_up(seat);
        self.call(now);
    }

    /// Wakes as many as there are free seats, each of which is kept for who was woken: when
    /// they come and do not sit down, the next is called.
    pub(super) fn call(&mut self, now: Instant) {
        while let Some((seat, number, asker)) = self.hall.call(now) {
            match self.askers.get_mut(&asker) {
                Some(known) => {
                    known.called = Some((seat, number));
                    self.wake_one(asker);
                }
                None => self.hall.stand_up(&seat),
            }
        }
    }
}
