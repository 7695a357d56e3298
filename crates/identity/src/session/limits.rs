//! Bounded concurrency per endpoint and per owner.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::{Concurrency, Key};
use crate::credential::Source;
use crate::endpoint::Endpoint;

/// Seats at endpoints. A user of a session occupies a worker of the operator, and workers are
/// few: neither a slow endpoint nor one owner with many endpoints may occupy all of them.
#[derive(Debug)]
pub(super) struct Limits {
    max: Concurrency,
    pub taken: HashMap<Counter, usize>,
    /// Endpoints at which a request timed out, and until when they are limited for that. A
    /// server that accepts logins and then hangs is noticed only by its users.
    pub suspects: HashMap<Endpoint, Instant>,
}

/// A place at an endpoint. Equal seats are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    endpoint: Endpoint,
    owner: Option<Owner>,
    pub kind: SeatKind,
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
pub(super) enum Owner {
    Space(Arc<str>),
    Namespace(String),
}

/// A number of taken seats that is limited.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counter {
    Endpoint(Endpoint),
    Logins(Endpoint),
    LoginsOf(Owner, Endpoint),
    Users(Endpoint),
    AllUsers,
    Owner(Owner),
    OwnerAt(Owner, Endpoint),
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
}

impl Limits {
    pub fn new(max: Concurrency) -> Self {
        Self {
            // With a limit of zero no requester would ever be woken.
            max: Concurrency {
                per_endpoint: max.per_endpoint.max(1),
                total: max.total.max(1),
                per_owner: max.per_owner.max(1),
                per_owner_and_endpoint: max.per_owner_and_endpoint.max(1),
                logins: max.logins.max(1),
            },
            taken: HashMap::new(),
            suspects: HashMap::new(),
        }
    }

    /// Takes a seat if one is free.
    pub fn try_acquire(&mut self, seat: &Seat, now: Instant) -> bool {
        let free = self.is_free(seat, now);
        if free {
            for (counter, _) in self.bounds(seat, false) {
                *self.taken.entry(counter).or_default() += 1;
            }
        }
        free
    }

    /// Returns a seat.
    pub fn release(&mut self, seat: &Seat) {
        for (counter, _) in self.bounds(seat, false) {
            match self.count(&counter).saturating_sub(1) {
                0 => self.taken.remove(&counter),
                left => self.taken.insert(counter, left),
            };
        }
    }

    pub fn is_free(&self, seat: &Seat, now: Instant) -> bool {
        let suspect = self.is_suspect(&seat.endpoint, now);
        let mut bounds = self.bounds(seat, suspect).into_iter();
        bounds.all(|(counter, max)| self.count(&counter) < max)
            && !(suspect
                && seat.kind == SeatKind::Use
                && self.suspect_users(now) >= self.max.logins)
    }

    /// Limits an endpoint to one seat after a timeout.
    pub fn mark_suspect(&mut self, endpoint: &Endpoint, until: Instant) {
        self.suspects.insert(endpoint.clone(), until);
    }

    /// Removes this limit after a completed request.
    pub fn clear_suspect(&mut self, endpoint: &Endpoint) {
        self.suspects.remove(endpoint);
    }

    pub fn purge(&mut self, now: Instant) {
        self.suspects.retain(|_, until| *until > now);
    }

    /// Returns the counters of a seat, each with its maximum.
    fn bounds(&self, seat: &Seat, suspect: bool) -> Vec<(Counter, usize)> {
        let (max, endpoint) = (&self.max, || seat.endpoint.clone());
        let at_endpoint = if suspect { 1 } else { max.per_endpoint };
        let mut bounds = vec![(Counter::Endpoint(endpoint()), at_endpoint)];
        match (seat.kind, &seat.owner) {
            (SeatKind::Check, _) => {}
            // A slow login may be caused by the account and not by the endpoint: the users of
            // open sessions get the other half.
            (SeatKind::Login, owner) => {
                bounds.push((Counter::Logins(endpoint()), max.logins));
                if let Some(owner) = owner {
                    // An owner with many refused credentials leaves logins for others.
                    let half = (max.logins / 2).max(1);
                    bounds.push((Counter::LoginsOf(owner.clone(), endpoint()), half));
                }
            }
            (SeatKind::Use, owner) => {
                bounds.push((Counter::Users(endpoint()), max.per_endpoint));
                bounds.push((Counter::AllUsers, max.total));
                if let Some(owner) = owner {
                    bounds.push((Counter::Owner(owner.clone()), max.per_owner));
                    // Seats are left for the owner's other endpoints.
                    let at_endpoint = Counter::OwnerAt(owner.clone(), endpoint());
                    bounds.push((at_endpoint, max.per_owner_and_endpoint));
                }
            }
        }
        bounds
    }

    fn count(&self, counter: &Counter) -> usize {
        self.taken.get(counter).copied().unwrap_or(0)
    }

    fn is_suspect(&self, endpoint: &Endpoint, now: Instant) -> bool {
        let until = self.suspects.get(endpoint);
        until.is_some_and(|until| *until > now)
    }

    /// Returns the number of users of all suspect endpoints.
    fn suspect_users(&self, now: Instant) -> usize {
        let suspects = self.suspects.iter().filter(|(_, until)| **until > now);
        let users = suspects.map(|(endpoint, _)| self.count(&Counter::Users(endpoint.clone())));
        users.sum()
    }
}
