//! Requesters that wait for an event, in order of arrival.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Key;
use super::limits::Seat;
use crate::endpoint::Endpoint;

/// What a requester waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// The end of the key's login, check or logout.
    Session(Arc<Key>),
    /// The end of the endpoint's probe.
    Probe(Endpoint),
    /// A response of an endpoint that did not respond before.
    Recovery(Endpoint),
    /// A free seat.
    Seat(Seat),
    /// Nothing any more: the requester is to be woken.
    Woken,
}

/// The waiting requesters, by event and ticket.
#[derive(Debug, Default)]
pub(super) struct WaitQueues {
    pub queues: HashMap<Event, BTreeMap<u64, Arc<str>>>,
    last_ticket: u64,
}

impl WaitQueues {
    /// Adds a requester at the end of a queue. Returns its ticket.
    pub fn add(&mut self, event: Event, requester: &Arc<str>) -> u64 {
        self.last_ticket += 1;
        let queue = self.queues.entry(event).or_default();
        queue.insert(self.last_ticket, Arc::clone(requester));
        self.last_ticket
    }

    pub fn remove(&mut self, event: &Event, ticket: u64) {
        if let Some(queue) = self.queues.get_mut(event) {
            queue.remove(&ticket);
            if queue.is_empty() {
                self.queues.remove(event);
            }
        }
    }

    /// Removes and returns all requesters that wait for an event.
    pub fn drain(&mut self, event: &Event) -> impl Iterator<Item = Arc<str>> + use<> {
        let queue = self.queues.remove(event).unwrap_or_default();
        queue.into_values()
    }

    /// Removes and returns the next requester to wake.
    pub fn pop_woken(&mut self) -> Option<Arc<str>> {
        let (ticket, requester) = self.queues.get(&Event::Woken)?.first_key_value()?;
        let (ticket, requester) = (*ticket, Arc::clone(requester));
        self.remove(&Event::Woken, ticket);
        Some(requester)
    }

    /// Removes and returns the first requester with a seat that is free.
    pub fn pop_seat(&mut self, is_free: impl Fn(&Seat) -> bool) -> Option<(Seat, Arc<str>)> {
        let seats = self.queues.iter().filter_map(|(event, queue)| match event {
            Event::Seat(seat) => Some((queue.first_key_value()?, seat)),
            _ => None,
        });
        let free = seats.filter(|(_, seat)| is_free(seat));
        let ((ticket, requester), seat) = free.min_by_key(|((ticket, _), _)| **ticket)?;
        let (ticket, requester, seat) = (*ticket, Arc::clone(requester), seat.clone());
        self.remove(&Event::Seat(seat.clone()), ticket);
        Some((seat, requester))
    }

    /// Returns the number of requesters that were told to wait. Those that await a recovery
    /// were told that the endpoint fails.
    pub fn waiting(&self) -> usize {
        let queues = self.queues.iter();
        let waiting =
            queues.filter(|(event, _)| !matches!(event, Event::Recovery(_) | Event::Woken));
        waiting.map(|(_, queue)| queue.len()).sum()
    }
}
