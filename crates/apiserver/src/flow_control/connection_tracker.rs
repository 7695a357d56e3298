//! Who is connected, and for how long they may stay.
//!
//! A connection goes through three rooms: the handshake, the strangers', and that of its
//! space, which it enters when a request on it has proved who asks. The first two are small,
//! and whoever comes when they are full takes the place of the one who has been there
//! longest: an honest client is through in an instant, so that it is a flood that displaces
//! itself. Nobody displaces who is known.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use insula_core::Space;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::flow_control::Connections;
use crate::status::{Result, StatusError};

/// Every connection of a server.
#[derive(Debug)]
pub struct ConnectionTracker {
    limits: Connections,
    rooms: Mutex<Rooms>,
    counted: Counted,
}

#[derive(Debug, Default)]
struct Rooms {
    arrived: u64,
    open: usize,
    handshakes: BTreeMap<u64, Weak<TrackedConnection>>,
    strangers: BTreeMap<u64, Weak<TrackedConnection>>,
    spaces: HashMap<Space, u32>,
}

#[derive(Debug, Default)]
struct Counted {
    turned_away: AtomicU64,
    displaced: AtomicU64,
    too_slow: AtomicU64,
    too_many: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub struct TrackedConnection {
    guests: Arc<ConnectionTracker>,
    number: u64,
    /// Whose it is, once that was proved.
    space: OnceLock<Space>,
    visits: Mutex<Visits>,
    leave: Notify,
}

#[derive(Debug)]
struct Visits {
    requests: Vec<Request>,
    began: u64,
    /// When the last request ended.
    idle_since: Instant,
}

/// A request that is not over.
#[derive(Debug)]
struct Request {
    number: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Worked,
    /// Something of its answer was taken then.
    Sent(Instant),
    Watched,
}

/// A request on a connection; it is over when this value goes.
#[derive(Debug)]
pub struct InFlight {
    guest: Arc<TrackedConnection>,
    number: u64,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may stay; look again then.
    Stay(Instant),
    /// It is to end after what is under way.
    Finish,
    /// It is to end now.
    Cut,
}

impl ConnectionTracker {
    /// Nobody is there.
    pub fn new(limits: Connections) -> Arc<Self> {
        Arc::new(Self {
            limits,
            rooms: Mutex::default(),
            counted: Counted::default(),
        })
    }

    /// A connection more, which begins with a handshake. `None` if there is no room, and
    /// nobody who must make room.
    pub fn arrive(self: &Arc<Self>) -> Option<Arc<TrackedConnection>> {
        let mut rooms = self.lock();
        let mut displaced = Vec::new();
        if rooms.open >= self.limits.total && !rooms.displace_stranger(&mut displaced) {
            drop(rooms);
            self.counted.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if rooms.handshakes.len() >= self.limits.handshakes.max(1) {
            rooms.displace(|rooms| &mut rooms.handshakes, &mut displaced);
        }
        rooms.arrived += 1;
        rooms.open += 1;
        let number = rooms.arrived;
        let guest = Arc::new(TrackedConnection::new(Arc::clone(self), number));
        rooms.handshakes.insert(number, Arc::downgrade(&guest));
        drop(rooms);
        self.send_away(displaced);
        Some(guest)
    }

    /// Makes room because the machine has none: who has been a stranger longest goes.
    pub fn make_room(&self) {
        let mut displaced = Vec::new();
        self.lock().displace_stranger(&mut displaced);
        self.send_away(displaced);
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// How many connections were ended before their time, by reason.
    pub fn ended(&self) -> [(&'static str, u64); 4] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("no_room", of(&self.counted.turned_away)),
            ("displaced", of(&self.counted.displaced)),
            ("too_slow", of(&self.counted.too_slow)),
            ("too_many_of_space", of(&self.counted.too_many)),
        ]
    }

    /// Counts one that was too slow.
    pub fn too_slow(&self) {
        self.counted.too_slow.fetch_add(1, Ordering::Relaxed);
    }

    fn send_away(&self, displaced: Vec<Arc<TrackedConnection>>) {
        for guest in displaced {
            self.counted.displaced.fetch_add(1, Ordering::Relaxed);
            guest.leave.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    fn displace_stranger(&mut self, displaced: &mut Vec<Arc<TrackedConnection>>) -> bool {
        self.displace(|rooms| &mut rooms.strangers, displaced)
            || self.displace(|rooms| &mut rooms.handshakes, displaced)
    }

    /// Takes the one out of a room who has been in it longest.
    fn displace(
        &mut self,
        room: impl Fn(&mut Self) -> &mut BTreeMap<u64, Weak<TrackedConnection>>,
        displaced: &mut Vec<Arc<TrackedConnection>>,
    ) -> bool {
        let Some((_, guest)) = room(self).pop_first() else {
            return false;
        };
        self.open -= 1;
        displaced.extend(guest.upgrade());
        true
    }
}

impl TrackedConnection {
    fn new(guests: Arc<ConnectionTracker>, number: u64) -> Self {
        Self {
            guests,
            number,
            space: OnceLock::new(),
            visits: Mutex::new(Visits {
                requests: Vec::new(),
                began: 0,
                idle_since: Instant::now(),
            }),
            leave: Notify::new(),
        }
    }

    /// The handshake is over.
    pub fn shaken(&self) {
        let mut rooms = self.guests.lock();
        let Some(guest) = rooms.handshakes.remove(&self.number) else {
            return;
        };
        let mut displaced = Vec::new();
        if rooms.strangers.len() >= self.guests.limits.strangers.max(1) {
            rooms.displace(|rooms| &mut rooms.strangers, &mut displaced);
        }
        rooms.strangers.insert(self.number, guest);
        drop(rooms);
        self.guests.send_away(displaced);
    }

    /// Somebody of `space` has proved it on this connection. Whoever does so first counts.
    ///
    /// If the space has too many already, the connection stays a stranger's: it may ask
    /// again, and makes room for others if they need it.
    pub fn prove(&self, space: &Space) -> Result<()> {
        if self.space.get().is_some() {
            return Ok(());
        }
        let mut rooms = self.guests.lock();
        if !rooms.strangers.contains_key(&self.number) {
            // Somebody else was first, or it was displaced and ends anyway.
            return Ok(());
        }
        let others = rooms.spaces.get(space).copied().unwrap_or(0);
        if others >= self.guests.limits.each {
            drop(rooms);
            self.guests.counted.too_many.fetch_add(1, Ordering::Relaxed);
            return Err(StatusError::overloaded());
        }
        rooms.strangers.remove(&self.number);
        rooms.spaces.insert(space.clone(), others + 1);
        // Nobody else sets it: that takes the lock and a place among the strangers.
        self.space.get_or_init(|| space.clone());
        Ok(())
    }

    /// A request begins.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        let mut visits = self.visits();
        visits.began += 1;
        let number = visits.began;
        visits.requests.push(Request {
            number,
            stage: Stage::Worked,
        });
        drop(visits);
        InFlight {
            guest: Arc::clone(self),
            number,
        }
    }

    /// Is done when it has to go at once.
    pub async fn displaced(&self) {
        self.leave.notified().await;
    }

    /// Whether it may stay.
    pub fn judge(&self, now: Instant) -> Verdict {
        let limits = &self.guests.limits;
        let visits = self.visits();
        if visits.requests.is_empty() {
            let patience = match self.space.get() {
                Some(_) => limits.idle,
                None => limits.stranger,
            };
            let until = visits.idle_since + patience;
            return match until <= now {
                true => Verdict::Finish,
                // What begins in the meantime must be looked at in time.
                false => Verdict::Stay(until.min(now + limits.stalled)),
            };
        }
        let sent = visits
            .requests
            .iter()
            .filter_map(|request| match request.stage {
                Stage::Sent(at) => Some(at),
                Stage::Worked | Stage::Watched => None,
            });
        match sent.min() {
            Some(at) if at + limits.stalled <= now => Verdict::Cut,
            Some(at) => Verdict::Stay(at + limits.stalled),
            // Whatever comes next comes after this.
            None => Verdict::Stay(now + limits.stalled.min(limits.stranger)),
        }
    }

    fn visits(&self) -> MutexGuard<'_, Visits> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        let mut rooms = self.guests.lock();
        if let Some(space) = self.space.get() {
            if let Some(count) = rooms.spaces.get_mut(space) {
                *count -= 1;
                if *count == 0 {
                    rooms.spaces.remove(space);
                }
            }
            rooms.open -= 1;
            return;
        }
        let shook = rooms.handshakes.remove(&self.number).is_some();
        // One that was displaced is in no room, and counted out.
        if shook || rooms.strangers.remove(&self.number).is_some() {
            rooms.open -= 1;
        }
    }
}

impl InFlight {
    /// The answer is made; an endless one may be read as slowly as its client likes.
    pub fn answer(&self, endless: bool) {
        self.enter(match endless {
            true => Stage::Watched,
            false => Stage::Sent(Instant::now()),
        });
    }

    /// Something of the answer was taken.
    pub fn progress(&self) {
        self.enter(Stage::Sent(Instant::now()));
    }

    fn enter(&self, stage: Stage) {
        let mut visits = self.guest.visits();
        let mine = |request: &&mut Request| request.number == self.number;
        if let Some(request) = visits.requests.iter_mut().find(mine) {
            request.stage = stage;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut visits = self.guest.visits();
        visits
            .requests
            .retain(|request| request.number != self.number);
        if visits.requests.is_empty() {
            visits.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn guests(
        total: usize,
        handshakes: usize,
        strangers: usize,
        each: u32,
    ) -> Arc<ConnectionTracker> {
        ConnectionTracker::new(Connections {
            total,
            handshakes,
            strangers,
            each,
            ..Connections::default()
        })
    }

    fn space(name: &str) -> Space {
        Space::parse(name).unwrap()
    }

    fn known(guests: &Arc<ConnectionTracker>, name: &str) -> Arc<TrackedConnection> {
        let guest = guests.arrive().unwrap();
        guest.shaken();
        guest.prove(&space(name)).unwrap();
        guest
    }

    fn is_displaced(guest: &TrackedConnection) -> bool {
        guest.displaced().now_or_never().is_some()
    }

    #[tokio::test]
    async fn who_shakes_hands_longest_makes_room() {
        let guests = guests(100, 2, 100, 100);
        let all = [1, 2, 3].map(|_| guests.arrive().unwrap());
        assert_eq!(
            all.each_ref().map(|one| is_displaced(one)),
            [true, false, false]
        );
        assert_eq!(guests.open(), 2);
    }

    #[tokio::test]
    async fn a_flood_of_strangers_displaces_strangers_and_nobody_who_is_known() {
        let guests = guests(3, 100, 100, 100);
        let friend = known(&guests, "t1");
        let flood: Vec<_> = (0..50)
            .map(|_| {
                let guest = guests.arrive().unwrap();
                guest.shaken();
                guest
            })
            .collect();
        assert!(!is_displaced(&friend));
        assert_eq!(flood.iter().filter(|guest| is_displaced(guest)).count(), 48);
        assert_eq!(guests.open(), 3);
        drop((friend, flood));
        assert_eq!(guests.open(), 0);
    }

    #[tokio::test]
    async fn a_space_has_so_many_connections_and_leaves_the_others_theirs() {
        let guests = guests(100, 100, 100, 2);
        let mine = [1, 2].map(|_| known(&guests, "t1"));
        let third = guests.arrive().unwrap();
        third.shaken();
        assert_eq!(third.prove(&space("t1")).unwrap_err().code, 429);
        let _other = known(&guests, "t2");
        drop(mine);
        assert_eq!(third.prove(&space("t1")), Ok(()));
        assert_eq!(guests.lock().spaces[&space("t1")], 1);
    }

    #[tokio::test]
    async fn when_everybody_is_known_who_comes_last_is_turned_away() {
        let guests = guests(2, 100, 100, 100);
        let _known = [known(&guests, "t1"), known(&guests, "t2")];
        assert!(guests.arrive().is_none());
        assert_eq!(guests.ended()[0], ("no_room", 1));
    }

    #[tokio::test]
    async fn nobody_is_kept_in_any_book_after_leaving() {
        let guests = guests(100, 2, 2, 2);
        for round in 0..200 {
            let arrived: Vec<_> = (0..5).filter_map(|_| guests.arrive()).collect();
            for (number, guest) in arrived.iter().enumerate() {
                if (round + number) % 2 == 0 {
                    guest.shaken();
                }
                if (round + number) % 3 == 0 {
                    guest.prove(&space("t1")).ok();
                }
            }
        }
        let rooms = guests.lock();
        assert_eq!(rooms.open, 0);
        assert!(rooms.handshakes.is_empty() && rooms.strangers.is_empty());
        assert!(rooms.spaces.is_empty());
    }

    #[tokio::test]
    async fn a_connection_ends_when_nothing_happens_on_it_but_not_under_a_watch() {
        let guests = guests(10, 10, 10, 10);
        let limits = guests.limits;
        let (guest, stranger) = (known(&guests, "t1"), guests.arrive().unwrap());
        let later = |time: Duration| Instant::now() + time + Duration::from_secs(1);
        let judged = |guest: &TrackedConnection, time| match guest.judge(later(time)) {
            Verdict::Stay(_) => "stay",
            Verdict::Finish => "finish",
            Verdict::Cut => "cut",
        };
        assert_eq!(judged(&stranger, Duration::ZERO), "stay");
        assert_eq!(judged(&stranger, limits.stranger), "finish");
        assert_eq!(judged(&guest, limits.stranger), "stay");
        assert_eq!(judged(&guest, limits.idle), "finish");
        let watch = guest.begin();
        watch.answer(true);
        assert_eq!(judged(&guest, limits.idle * 10), "stay");
        let list = guest.begin();
        assert_eq!(judged(&guest, limits.stalled), "stay");
        list.answer(false);
        assert_eq!(judged(&guest, Duration::ZERO), "stay");
        assert_eq!(judged(&guest, limits.stalled), "cut");
        drop(list);
        assert_eq!(judged(&guest, limits.stalled), "stay");
        drop(watch);
        assert_eq!(judged(&guest, limits.idle), "finish");
    }
}
