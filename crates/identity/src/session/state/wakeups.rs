//! Requesters that wait, their wakeups, and the seats that are reserved for them.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::Unavailable;
use super::super::limits::Seat;
use super::super::waiting::Event;
use super::{PoolState, Requester};

impl<S> PoolState<S> {
    /// Returns the next requester to wake.
    pub fn next_woken(&mut self) -> Option<Arc<str>> {
        let requester = self.waiting.pop_woken()?;
        if let Some(known) = self.requesters.get_mut(&requester) {
            known.waiting_for = None;
        }
        Some(requester)
    }

    pub fn has_woken(&self) -> bool {
        self.waiting.queues.contains_key(&Event::Woken)
    }

    /// Lets a requester wait for an event.
    pub(super) fn wait(&mut self, requester: &Arc<str>, event: Event) -> Unavailable {
        self.subscribe(requester, event);
        Unavailable::Wait
    }

    pub(super) fn subscribe(&mut self, requester: &Arc<str>, event: Event) {
        let ticket = self.waiting.add(event.clone(), requester);
        if let Some(known) = self.requesters.get_mut(requester) {
            known.waiting_for = Some((event, ticket));
        }
    }

    /// Cancels a requester's wait, wakeup and reserved seat. Returns whether it had a seat.
    pub(super) fn unsubscribe(&mut self, requester: &str) -> bool {
        let Some(known) = self.requesters.get_mut(requester) else {
            return false;
        };
        if let Some((event, ticket)) = known.waiting_for.take() {
            self.waiting.remove(&event, ticket);
        }
        let reserved = known.reserved.take();
        if let Some(seat) = &reserved {
            self.limits.release(seat);
        }
        reserved.is_some()
    }

    /// Wakes all requesters that wait for an event.
    pub(super) fn notify(&mut self, event: &Event) {
        for requester in self.waiting.drain(event) {
            self.wake(requester, |_| ());
        }
    }

    pub(super) fn wake(&mut self, requester: Arc<str>, change: impl FnOnce(&mut Requester)) {
        if let Some(known) = self.requesters.get_mut(&requester) {
            change(known);
            self.subscribe(&requester, Event::Woken);
        }
    }

    pub(super) fn release_seat(&mut self, seat: &Seat, now: Instant) {
        self.limits.release(seat);
        self.grant_seats(now);
    }

    /// Reserves the free seats and wakes their requesters. Without a reservation, a requester
    /// that arrives later could take the seat first, again and again.
    pub(super) fn grant_seats(&mut self, now: Instant) {
        loop {
            let limits = &self.limits;
            let next = self.waiting.pop_seat(|seat| limits.is_free(seat, now));
            let Some((seat, requester)) = next else {
                return;
            };
            // Known, because a requester that is released leaves its queue.
            if self.limits.try_acquire(&seat, now) {
                self.wake(requester, |known| known.reserved = Some(seat));
            }
        }
    }
}
