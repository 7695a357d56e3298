//! How many use an endpoint, whose they are, and who waits to be one of them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::Key;
use super::crowd::Crowd;
use crate::credential::Source;
use crate::endpoint::Endpoint;

/// Seats for everybody. Whoever uses a session works meanwhile, and those who work are few: an
/// endpoint that keeps them waiting, or many endpoints of one owner, are not to have them all.
#[derive(Debug)]
pub(super) struct Hall {
    /// How many may use one endpoint.
    at_once: usize,
    rooms: HashMap<Endpoint, Room>,
    /// How many use sessions of an owner: everywhere, and at one endpoint.
    owners: HashMap<(Owner, Option<Endpoint>), usize>,
    /// How many use sessions.
    users: usize,
    /// Who waits, by what they wait for.
    crowds: HashMap<Seat, Crowd>,
}

/// A place at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    pub endpoint: Endpoint,
    owner: Option<Owner>,
    sort: Sort,
}

/// What somebody sits down for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    /// To log in.
    Login,
    /// To find out whether a session is still one.
    Check,
    /// To work with a session.
    Use,
}

/// Who chooses where a credential is sent, if it is not whoever runs the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Space(Arc<str>),
    Namespace(String),
}

/// What is taken at an endpoint.
#[derive(Debug, Default)]
struct Room {
    taken: usize,
    logins: usize,
    users: usize,
    /// It kept somebody waiting in vain, which is held against it until then.
    suspect: Option<Instant>,
}

impl Seat {
    pub fn of(key: &Key, sort: Sort) -> Self {
        let owner = match (&key.space, &key.source) {
            (Some(space), _) => Some(Owner::Space(Arc::clone(space))),
            (None, Source::Secret { namespace, .. }) => Some(Owner::Namespace(namespace.clone())),
            (None, Source::Identity { .. } | Source::Operator) => None,
        };
        let endpoint = key.endpoint.clone();
        Self {
            endpoint,
            owner,
            sort,
        }
    }

    /// Where its owner is counted.
    fn counted(&self) -> impl Iterator<Item = (Owner, Option<Endpoint>)> + use<> {
        let places = [None, Some(self.endpoint.clone())];
        let owner = self.owner.clone().filter(|_| self.sort == Sort::Use);
        let at = move |place| Some((owner.clone()?, place));
        places.into_iter().filter_map(at)
    }
}

impl Room {
    fn is_suspect(&self, now: Instant) -> bool {
        self.suspect.is_some_and(|until| until > now)
    }

    fn is_void(&self) -> bool {
        self.taken == 0 && self.suspect.is_none()
    }
}

impl Hall {
    pub fn new(at_once: usize) -> Self {
        Self {
            // With none at all nobody would ever be woken.
            at_once: at_once.max(1),
            rooms: HashMap::new(),
            owners: HashMap::new(),
            users: 0,
            crowds: HashMap::new(),
        }
    }

    /// Takes a seat, if there is one.
    pub fn sit_down(&mut self, seat: &Seat, now: Instant) -> bool {
        let free = self.is_free(seat, now);
        if free {
            let room = self.rooms.entry(seat.endpoint.clone()).or_default();
            room.taken += 1;
            room.logins += usize::from(seat.sort == Sort::Login);
            room.users += usize::from(seat.sort == Sort::Use);
            self.users += usize::from(seat.sort == Sort::Use);
            for counted in seat.counted() {
                *self.owners.entry(counted).or_default() += 1;
            }
        }
        free
    }

    /// Gives a seat back that was taken.
    pub fn stand_up(&mut self, seat: &Seat) {
        let less = |count: &mut usize, is: bool| *count = count.saturating_sub(usize::from(is));
        if let Some(room) = self.rooms.get_mut(&seat.endpoint) {
            less(&mut room.taken, true);
            less(&mut room.logins, seat.sort == Sort::Login);
            less(&mut room.users, seat.sort == Sort::Use);
        }
        less(&mut self.users, seat.sort == Sort::Use);
        for counted in seat.counted() {
            if let Some(count) = self.owners.get_mut(&counted) {
                less(count, true);
            }
            if self.owners.get(&counted) == Some(&0) {
                self.owners.remove(&counted);
            }
        }
        self.clear(&seat.endpoint);
    }

    pub fn join(&mut self, seat: Seat, number: u64, asker: &Arc<str>) {
        self.crowds.entry(seat).or_default().join(number, asker);
    }

    pub fn leave(&mut self, seat: &Seat, number: u64) {
        if let Some(crowd) = self.crowds.get_mut(seat) {
            crowd.leave(number);
        }
        self.tidy(seat);
    }

    /// Who came first of those for whom there is a seat; it is kept for them.
    pub fn call(&mut self, now: Instant) -> Option<(Seat, u64, Arc<str>)> {
        let free = self
            .crowds
            .iter()
            .filter(|(seat, _)| self.is_free(seat, now));
        let first = free.min_by_key(|(_, crowd)| crowd.first_number())?;
        let seat = first.0.clone();
        let (number, asker) = self.crowds.get_mut(&seat)?.first()?;
        self.tidy(&seat);
        self.sit_down(&seat, now);
        Some((seat, number, asker))
    }

    /// An endpoint kept somebody waiting in vain.
    pub fn suspect(&mut self, endpoint: &Endpoint, until: Instant) {
        let room = self.rooms.entry(endpoint.clone()).or_default();
        room.suspect = Some(until);
    }

    /// An endpoint did what it was asked.
    pub fn trust(&mut self, endpoint: &Endpoint) {
        if let Some(room) = self.rooms.get_mut(endpoint) {
            room.suspect = None;
        }
        self.clear(endpoint);
    }

    /// What was held against an endpoint is not any more, if it is time.
    pub fn forgive(&mut self, endpoint: &Endpoint, now: Instant) {
        let room = self.rooms.get(endpoint);
        if room.is_some_and(|room| !room.is_suspect(now)) {
            self.trust(endpoint);
        }
    }

    fn is_free(&self, seat: &Seat, now: Instant) -> bool {
        let half = (self.at_once / 2).max(1);
        let room = self.rooms.get(&seat.endpoint);
        let suspect = room.is_some_and(|room| room.is_suspect(now));
        let (taken, logins) = room.map_or((0, 0), |room| (room.taken, room.logins));
        let most = if suspect { 1 } else { self.at_once };
        let here = taken < most;
        match seat.sort {
            Sort::Check => here,
            // How long a login takes may be the account's doing.
            Sort::Login => here && logins < half,
            Sort::Use => {
                let here = here && (!suspect || self.suspects(now) < half);
                here && self.users < self.at_once * 3 && self.has_left(seat, half)
            }
        }
    }

    /// Whether an owner may have one more. What one endpoint can keep leaves some for another.
    fn has_left(&self, seat: &Seat, half: usize) -> bool {
        seat.counted().all(|counted| {
            let most = match counted.1 {
                Some(_) => half,
                None => half * 2,
            };
            self.owners.get(&counted).is_none_or(|count| *count < most)
        })
    }

    /// How many use sessions of endpoints that kept somebody waiting in vain.
    fn suspects(&self, now: Instant) -> usize {
        let rooms = self.rooms.values().filter(|room| room.is_suspect(now));
        rooms.map(|room| room.users).sum()
    }

    fn clear(&mut self, endpoint: &Endpoint) {
        if self.rooms.get(endpoint).is_some_and(Room::is_void) {
            self.rooms.remove(endpoint);
        }
    }

    fn tidy(&mut self, seat: &Seat) {
        if self.crowds.get(seat).is_some_and(Crowd::is_empty) {
            self.crowds.remove(seat);
        }
    }
}

#[cfg(test)]
impl Hall {
    /// How much is remembered.
    pub fn len(&self) -> usize {
        self.rooms.len() + self.owners.len() + self.crowds.len() + self.users
    }

    pub fn waiting(&self) -> usize {
        self.crowds.values().map(Crowd::len).sum()
    }
}
