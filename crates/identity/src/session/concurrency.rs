//! Bounded concurrency per endpoint and per owner, and the requesters that wait for a seat.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::Key;
use super::wait_queue::WaitQueue;
use crate::credential::Source;
use crate::endpoint::Endpoint;

/// Seats at endpoints. A user of a session occupies a worker of the operator, and workers are
/// few: neither a slow endpoint nor one owner with many endpoints may occupy all of them.
#[derive(Debug)]
pub(super) struct ConcurrencyLimits {
    /// The maximum at one endpoint.
    max_per_endpoint: usize,
    endpoints: HashMap<Endpoint, EndpointLoad>,
    /// The users per owner: over all endpoints, and at one endpoint.
    owners: HashMap<(Owner, Option<Endpoint>), usize>,
    /// All users of sessions.
    users: usize,
    /// The waiting requesters by seat.
    queues: HashMap<Seat, WaitQueue>,
}

/// A place at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    pub endpoint: Endpoint,
    owner: Option<Owner>,
    kind: SeatKind,
}

/// The purpose of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SeatKind {
    /// A login.
    Login,
    /// A check of an idle session.
    Check,
    /// Use of a session.
    Use,
}

/// The party that chooses the endpoint of a credential, unless it is the operator's admin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Space(Arc<str>),
    Namespace(String),
}

/// The occupied seats of an endpoint.
#[derive(Debug, Default)]
struct EndpointLoad {
    taken: usize,
    logins: usize,
    users: usize,
    /// Until when the endpoint is suspect, because a request to it timed out.
    suspect: Option<Instant>,
}

impl Seat {
    pub fn of(key: &Key, kind: SeatKind) -> Self {
        let owner = match (&key.space, &key.source) {
            (Some(space), _) => Some(Owner::Space(Arc::clone(space))),
            (None, Source::Secret { namespace, .. }) => Some(Owner::Namespace(namespace.clone())),
            (None, Source::Identity { .. } | Source::Operator) => None,
        };
        let endpoint = key.endpoint.clone();
        Self {
            endpoint,
            owner,
            kind,
        }
    }

    /// Returns the counters that the seat's owner is limited by.
    fn owner_counters(&self) -> impl Iterator<Item = (Owner, Option<Endpoint>)> + use<> {
        let places = [None, Some(self.endpoint.clone())];
        let owner = self.owner.clone().filter(|_| self.kind == SeatKind::Use);
        let at = move |place| Some((owner.clone()?, place));
        places.into_iter().filter_map(at)
    }
}

impl EndpointLoad {
    fn is_suspect(&self, now: Instant) -> bool {
        self.suspect.is_some_and(|until| until > now)
    }

    fn is_unused(&self) -> bool {
        self.taken == 0 && self.suspect.is_none()
    }
}

impl ConcurrencyLimits {
    pub fn new(max_per_endpoint: usize) -> Self {
        Self {
            // With a limit of zero no requester would ever be woken.
            max_per_endpoint: max_per_endpoint.max(1),
            endpoints: HashMap::new(),
            owners: HashMap::new(),
            users: 0,
            queues: HashMap::new(),
        }
    }

    /// Takes a seat if one is free.
    pub fn try_acquire_seat(&mut self, seat: &Seat, now: Instant) -> bool {
        let free = self.has_free_seat(seat, now);
        if free {
            let load = self.endpoints.entry(seat.endpoint.clone()).or_default();
            load.taken += 1;
            load.logins += usize::from(seat.kind == SeatKind::Login);
            load.users += usize::from(seat.kind == SeatKind::Use);
            self.users += usize::from(seat.kind == SeatKind::Use);
            for owner_counter in seat.owner_counters() {
                *self.owners.entry(owner_counter).or_default() += 1;
            }
        }
        free
    }

    /// Returns a seat.
    pub fn release_seat(&mut self, seat: &Seat) {
        let decrement =
            |count: &mut usize, is: bool| *count = count.saturating_sub(usize::from(is));
        if let Some(load) = self.endpoints.get_mut(&seat.endpoint) {
            decrement(&mut load.taken, true);
            decrement(&mut load.logins, seat.kind == SeatKind::Login);
            decrement(&mut load.users, seat.kind == SeatKind::Use);
        }
        decrement(&mut self.users, seat.kind == SeatKind::Use);
        for owner_counter in seat.owner_counters() {
            if let Some(count) = self.owners.get_mut(&owner_counter) {
                decrement(count, true);
            }
            if self.owners.get(&owner_counter) == Some(&0) {
                self.owners.remove(&owner_counter);
            }
        }
        self.remove_if_unused(&seat.endpoint);
    }

    pub fn enqueue(&mut self, seat: Seat, ticket: u64, requester: &Arc<str>) {
        self.queues.entry(seat).or_default().push(ticket, requester);
    }

    pub fn dequeue(&mut self, seat: &Seat, ticket: u64) {
        if let Some(queue) = self.queues.get_mut(seat) {
            queue.remove(ticket);
        }
        self.remove_empty_queue(seat);
    }

    /// Reserves a seat for the first waiting requester that can have one.
    pub fn reserve_next(&mut self, now: Instant) -> Option<(Seat, u64, Arc<str>)> {
        let free = self
            .queues
            .iter()
            .filter(|(seat, _)| self.has_free_seat(seat, now));
        let first = free.min_by_key(|(_, queue)| queue.first_ticket())?;
        let seat = first.0.clone();
        let (ticket, requester) = self.queues.get_mut(&seat)?.pop()?;
        self.remove_empty_queue(&seat);
        self.try_acquire_seat(&seat, now);
        Some((seat, ticket, requester))
    }

    /// Marks an endpoint as suspect after a timeout.
    pub fn mark_suspect(&mut self, endpoint: &Endpoint, until: Instant) {
        let load = self.endpoints.entry(endpoint.clone()).or_default();
        load.suspect = Some(until);
    }

    /// Clears the mark after a completed request.
    pub fn clear_suspect(&mut self, endpoint: &Endpoint) {
        if let Some(load) = self.endpoints.get_mut(endpoint) {
            load.suspect = None;
        }
        self.remove_if_unused(endpoint);
    }

    /// Clears the mark if it has expired.
    pub fn expire_suspect(&mut self, endpoint: &Endpoint, now: Instant) {
        let load = self.endpoints.get(endpoint);
        if load.is_some_and(|load| !load.is_suspect(now)) {
            self.clear_suspect(endpoint);
        }
    }

    fn has_free_seat(&self, seat: &Seat, now: Instant) -> bool {
        let half = (self.max_per_endpoint / 2).max(1);
        let load = self.endpoints.get(&seat.endpoint);
        let suspect = load.is_some_and(|load| load.is_suspect(now));
        let (taken, logins) = load.map_or((0, 0), |load| (load.taken, load.logins));
        let limit = if suspect { 1 } else { self.max_per_endpoint };
        let here = taken < limit;
        match seat.kind {
            SeatKind::Check => here,
            // A slow login may be caused by the account and not by the endpoint.
            SeatKind::Login => here && logins < half,
            SeatKind::Use => {
                let here = here && (!suspect || self.suspect_users(now) < half);
                here && self.users < self.max_per_endpoint * 3 && self.owner_below_limit(seat, half)
            }
        }
    }

    /// Returns whether an owner is below its limits. The limit at one endpoint leaves seats for
    /// its other endpoints.
    fn owner_below_limit(&self, seat: &Seat, half: usize) -> bool {
        seat.owner_counters().all(|owner_counter| {
            let limit = match owner_counter.1 {
                Some(_) => half,
                None => half * 2,
            };
            self.owners
                .get(&owner_counter)
                .is_none_or(|count| *count < limit)
        })
    }

    /// Returns the number of users of suspect endpoints.
    fn suspect_users(&self, now: Instant) -> usize {
        let endpoints = self.endpoints.values().filter(|load| load.is_suspect(now));
        endpoints.map(|load| load.users).sum()
    }

    fn remove_if_unused(&mut self, endpoint: &Endpoint) {
        if self
            .endpoints
            .get(endpoint)
            .is_some_and(EndpointLoad::is_unused)
        {
            self.endpoints.remove(endpoint);
        }
    }

    fn remove_empty_queue(&mut self, seat: &Seat) {
        if self.queues.get(seat).is_some_and(WaitQueue::is_empty) {
            self.queues.remove(seat);
        }
    }
}

#[cfg(test)]
impl ConcurrencyLimits {
    /// Returns the number of remembered items.
    pub fn len(&self) -> usize {
        self.endpoints.len() + self.owners.len() + self.queues.len() + self.users
    }

    pub fn waiting(&self) -> usize {
        self.queues.values().map(WaitQueue::len).sum()
    }
}
