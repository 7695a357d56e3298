//! Requesters: their arrival and release, wait queues, wakeups and seats.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::Key;
use super::super::concurrency::Seat;
use super::super::entry::{Entry, Pause};
use super::{Answer, PoolState, Requester, WaitPoint};

/// The interval between retries of requesters of the same unreachable endpoint. All at once,
/// they would delay the reconciliation of other objects.
const STAGGER_INTERVAL: Duration = Duration::from_millis(50);
/// The number of requesters that are woken without an interval.
const WAKE_BURST: usize = 8;

/// The place that a returning requester had.
#[derive(Debug, Default)]
pub(super) struct Reservation {
    /// The reserved seat, and the ticket it waited with.
    pub reserved: Option<(Seat, u64)>,
    /// The ticket it awaited recovery with.
    pub recovery_ticket: Option<u64>,
}

impl<S> PoolState<S> {
    /// Removes a requester from its queue, its wakeup and its reserved seat.
    pub(super) fn take_reservation(&mut self, requester: &str) -> Reservation {
        let mut reservation = Reservation::default();
        let Some(known) = self.requesters.get_mut(requester) else {
            return reservation;
        };
        if let Some(waiting) = known.wake.take() {
            self.wakeups.remove(&waiting);
        }
        reservation.reserved = known.reserved.take();
        let (waiting_at, key) = (known.waiting_at.take(), Arc::clone(&known.key));
        if let Some((place, ticket)) = waiting_at {
            match place {
                WaitPoint::Entry => {
                    if let Some(entry) = self.entries.get_mut(&key) {
                        entry.waiting.remove(ticket);
                    }
                }
                WaitPoint::Probe => {
                    if let Some(health) = self.routes.get_mut(&key.route()) {
                        health.waiting.remove(ticket);
                    }
                }
                WaitPoint::Recovery => {
                    reservation.recovery_ticket = Some(ticket);
                    if let Some(health) = self.routes.get_mut(&key.route()) {
                        health.awaiting_recovery.remove(ticket);
                    }
                }
                WaitPoint::Seat(kind) => self.limits.dequeue(&Seat::of(&key, kind), ticket),
            }
        }
        if let Some((seat, _)) = &reservation.reserved {
            self.limits.release_seat(seat);
        }
        reservation
    }

    /// Attaches a requester to a key and detaches it from its previous one.
    pub(super) fn attach(&mut self, requester: &Arc<str>, key: Key, now: Instant) -> Arc<Key> {
        if let Some(known) = self.requesters.get(requester) {
            if *known.key == key {
                return Arc::clone(&known.key);
            }
            let before = Arc::clone(&known.key);
            self.detach(requester, &before, now);
        }
        let key = match self.entries.get_key_value(&key) {
            Some((known, _)) => Arc::clone(known),
            None => {
                self.routes.entry(key.route()).or_default().keys += 1;
                let key = Arc::new(key);
                self.entries.insert(Arc::clone(&key), Entry::new());
                key
            }
        };
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.requesters.insert(Arc::clone(requester));
        }
        let known = Requester {
            key: Arc::clone(&key),
            waiting_at: None,
            wake: None,
            reserved: None,
            checked_session: None,
        };
        self.requesters.insert(Arc::clone(requester), known);
        key
    }

    pub(super) fn detach(&mut self, requester: &str, key: &Arc<Key>, now: Instant) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.requesters.remove(requester);
        }
        self.close_if_unused(key, now);
    }

    /// Enqueues a requester. One that was woken without getting a seat keeps its ticket.
    pub(super) fn enqueue(
        &mut self,
        requester: &Arc<str>,
        key: &Arc<Key>,
        place: WaitPoint,
        reservation: &Reservation,
    ) {
        let ticket = match (place, &reservation.reserved, reservation.recovery_ticket) {
            (WaitPoint::Seat(_), Some((seat, ticket)), _) if seat.endpoint == key.endpoint => {
                *ticket
            }
            (WaitPoint::Recovery, _, Some(ticket)) => ticket,
            _ => self.next_ticket(),
        };
        let health = self.routes.get_mut(&key.route());
        let queue = match place {
            WaitPoint::Entry => self.entries.get_mut(key).map(|entry| &mut entry.waiting),
            WaitPoint::Probe => health.map(|health| &mut health.waiting),
            WaitPoint::Recovery => health.map(|health| &mut health.awaiting_recovery),
            WaitPoint::Seat(kind) => {
                self.limits.enqueue(Seat::of(key, kind), ticket, requester);
                None
            }
        };
        if let Some(queue) = queue {
            queue.push(ticket, requester);
        }
        if let Some(known) = self.requesters.get_mut(requester) {
            known.waiting_at = Some((place, ticket));
        }
    }

    pub(super) fn wake_entry(&mut self, key: &Arc<Key>, now: Instant) {
        let entry = self.entries.get_mut(key);
        let woken = entry.map_or_else(Vec::new, |entry| entry.waiting.drain());
        self.wake_all(woken, now);
    }

    pub(super) fn wake_all(&mut self, requesters: Vec<Arc<str>>, now: Instant) {
        for requester in requesters {
            self.wake_one(requester, now);
        }
    }

    /// Wakes requesters of a failed attempt: a few at once, the others at intervals.
    pub(super) fn wake_staggered(&mut self, requesters: Vec<Arc<str>>, now: Instant) {
        for (ticket, requester) in requesters.into_iter().enumerate() {
            let behind = ticket.saturating_sub(WAKE_BURST);
            let behind = u32::try_from(behind).unwrap_or(u32::MAX);
            self.wake_one(requester, now + STAGGER_INTERVAL.saturating_mul(behind));
        }
    }

    pub(super) fn wake_one(&mut self, requester: Arc<str>, at: Instant) {
        let ticket = self.next_ticket();
        let Some(known) = self.requesters.get_mut(&requester) else {
            return;
        };
        known.waiting_at = None;
        if let Some(waiting) = known.wake.filter(|waiting| waiting.0 > at) {
            self.wakeups.remove(&waiting);
            known.wake = None;
        }
        if known.wake.is_none() {
            known.wake = Some((at, ticket));
            self.wakeups.insert((at, ticket), requester);
        }
    }

    /// Answers that the endpoint is unreachable. Requesters are woken on recovery; otherwise
    /// they retry at intervals, and the first one probes.
    pub(super) fn fail_until_recovery(
        &mut self,
        requester: &Arc<str>,
        key: &Arc<Key>,
        reservation: &Reservation,
        Pause { error, until }: Pause,
        now: Instant,
    ) -> Answer<S> {
        self.enqueue(requester, key, WaitPoint::Recovery, reservation);
        let longest = self.settings.unreachable_backoff.1;
        let most = longest.as_millis() / STAGGER_INTERVAL.as_millis();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let waiting_at = self
            .requesters
            .get(requester)
            .and_then(|known| known.waiting_at);
        let health = self.routes.get(&key.route());
        let ahead = match (waiting_at, health) {
            (Some((_, ticket)), Some(health)) => health.awaiting_recovery.count_ahead(ticket, most),
            _ => 0,
        };
        let after = STAGGER_INTERVAL.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        let retry_after = until.saturating_duration_since(now) + after;
        Answer::Failed { error, retry_after }
    }

    pub(super) fn release_seat(&mut self, seat: &Seat, now: Instant) {
        self.limits.release_seat(seat);
        self.grant_seats(now);
    }

    /// Reserves the free seats and wakes their requesters. A seat that its requester does not
    /// take goes to the next one.
    pub(super) fn grant_seats(&mut self, now: Instant) {
        while let Some((seat, ticket, requester)) = self.limits.reserve_next(now) {
            match self.requesters.get_mut(&requester) {
                Some(known) => {
                    known.reserved = Some((seat, ticket));
                    self.wake_one(requester, now);
                }
                None => self.limits.release_seat(&seat),
            }
        }
    }
}
