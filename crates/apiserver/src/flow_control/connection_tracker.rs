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
    state: Mutex<State>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    arrived: u64,
    open: usize,
    handshakes: BTreeMap<u64, Weak<TrackedConnection>>,
    unauthenticated: BTreeMap<u64, Weak<TrackedConnection>>,
    spaces: HashMap<Space, u32>,
}

#[derive(Debug, Default)]
struct Counters {
    rejected: AtomicU64,
    evicted: AtomicU64,
    too_slow: AtomicU64,
    too_many: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub struct TrackedConnection {
    tracker: Arc<ConnectionTracker>,
    number: u64,
    /// Whose it is, once that was proved.
    space: OnceLock<Space>,
    requests: Mutex<Requests>,
    eviction: Notify,
}

#[derive(Debug)]
struct Requests {
    requests: Vec<TrackedRequest>,
    began: u64,
    /// When the last request ended.
    idle_since: Instant,
}

/// A request that is not over.
#[derive(Debug)]
struct TrackedRequest {
    number: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Processing,
    /// Something of its answer was taken then.
    Sending(Instant),
    Watching,
}

/// A request on a connection; it is over when this value goes.
#[derive(Debug)]
pub struct InFlight {
    connection: Arc<TrackedConnection>,
    number: u64,
}

/// What is to become of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// It may stay; look again then.
    CheckAgain(Instant),
    /// It is to end after what is under way.
    Drain,
    /// It is to end now.
    Abort,
}

impl ConnectionTracker {
    /// Nobody is there.
    pub fn new(limits: Connections) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// A connection more, which begins with a handshake. `None` if there is no room, and
    /// nobody who must make room.
    pub fn accept(self: &Arc<Self>) -> Option<Arc<TrackedConnection>> {
        let mut state = self.lock();
        let mut evicted = Vec::new();
        if state.open >= self.limits.total && !state.evict_unauthenticated(&mut evicted) {
            drop(state);
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if state.handshakes.len() >= self.limits.handshakes.max(1) {
            state.evict(|state| &mut state.handshakes, &mut evicted);
        }
        state.arrived += 1;
        state.open += 1;
        let number = state.arrived;
        let connection = Arc::new(TrackedConnection::new(Arc::clone(self), number));
        state.handshakes.insert(number, Arc::downgrade(&connection));
        drop(state);
        self.notify_evicted(evicted);
        Some(connection)
    }

    /// Makes room because the machine has none: who has been a stranger longest goes.
    pub fn evict_oldest(&self) {
        let mut evicted = Vec::new();
        self.lock().evict_unauthenticated(&mut evicted);
        self.notify_evicted(evicted);
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// How many connections were ended before their time, by reason.
    pub fn ended(&self) -> [(&'static str, u64); 4] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("no_room", of(&self.counters.rejected)),
            ("displaced", of(&self.counters.evicted)),
            ("too_slow", of(&self.counters.too_slow)),
            ("too_many_of_space", of(&self.counters.too_many)),
        ]
    }

    /// Counts one that was too slow.
    pub fn count_too_slow(&self) {
        self.counters.too_slow.fetch_add(1, Ordering::Relaxed);
    }

    fn notify_evicted(&self, evicted: Vec<Arc<TrackedConnection>>) {
        for connection in evicted {
            self.counters.evicted.fetch_add(1, Ordering::Relaxed);
            connection.eviction.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn evict_unauthenticated(&mut self, evicted: &mut Vec<Arc<TrackedConnection>>) -> bool {
        self.evict(|state| &mut state.unauthenticated, evicted)
            || self.evict(|state| &mut state.handshakes, evicted)
    }

    /// Takes the one out of a room who has been in it longest.
    fn evict(
        &mut self,
        group: impl Fn(&mut Self) -> &mut BTreeMap<u64, Weak<TrackedConnection>>,
        evicted: &mut Vec<Arc<TrackedConnection>>,
    ) -> bool {
        let Some((_, connection)) = group(self).pop_first() else {
            return false;
        };
        self.open -= 1;
        evicted.extend(connection.upgrade());
        true
    }
}

impl TrackedConnection {
    fn new(tracker: Arc<ConnectionTracker>, number: u64) -> Self {
        Self {
            tracker,
            number,
            space: OnceLock::new(),
            requests: Mutex::new(Requests {
                requests: Vec::new(),
                began: 0,
                idle_since: Instant::now(),
            }),
            eviction: Notify::new(),
        }
    }

    /// The handshake is over.
    pub fn handshake_done(&self) {
        let mut state = self.tracker.lock();
        let Some(connection) = state.handshakes.remove(&self.number) else {
            return;
        };
        let mut evicted = Vec::new();
        if state.unauthenticated.len() >= self.tracker.limits.unauthenticated.max(1) {
            state.evict(|state| &mut state.unauthenticated, &mut evicted);
        }
        state.unauthenticated.insert(self.number, connection);
        drop(state);
        self.tracker.notify_evicted(evicted);
    }

    /// Somebody of `space` has proved it on this connection. Whoever does so first counts.
    ///
    /// If the space has too many already, the connection stays a stranger's: it may ask
    /// again, and makes room for others if they need it.
    pub fn authenticated(&self, space: &Space) -> Result<()> {
        if self.space.get().is_some() {
            return Ok(());
        }
        let mut state = self.tracker.lock();
        if !state.unauthenticated.contains_key(&self.number) {
            // Somebody else was first, or it was displaced and ends anyway.
            return Ok(());
        }
        let others = state.spaces.get(space).copied().unwrap_or(0);
        if others >= self.tracker.limits.each {
            drop(state);
            self.tracker
                .counters
                .too_many
                .fetch_add(1, Ordering::Relaxed);
            return Err(StatusError::overloaded());
        }
        state.unauthenticated.remove(&self.number);
        state.spaces.insert(space.clone(), others + 1);
        // Nobody else sets it: that takes the lock and a place among the strangers.
        self.space.get_or_init(|| space.clone());
        Ok(())
    }

    /// A request begins.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        let mut requests = self.requests();
        requests.began += 1;
        let number = requests.began;
        requests.requests.push(TrackedRequest {
            number,
            stage: Stage::Processing,
        });
        drop(requests);
        InFlight {
            connection: Arc::clone(self),
            number,
        }
    }

    /// Is done when it has to go at once.
    pub async fn evicted(&self) {
        self.eviction.notified().await;
    }

    /// Whether it may stay.
    pub fn check_timeouts(&self, now: Instant) -> ConnectionAction {
        let limits = &self.tracker.limits;
        let requests = self.requests();
        if requests.requests.is_empty() {
            let queue_timeout = match self.space.get() {
                Some(_) => limits.idle,
                None => limits.unauthenticated_timeout,
            };
            let until = requests.idle_since + queue_timeout;
            return match until <= now {
                true => ConnectionAction::Drain,
                // What begins in the meantime must be looked at in time.
                false => ConnectionAction::CheckAgain(until.min(now + limits.stalled)),
            };
        }
        let sent = requests
            .requests
            .iter()
            .filter_map(|request| match request.stage {
                Stage::Sending(at) => Some(at),
                Stage::Processing | Stage::Watching => None,
            });
        match sent.min() {
            Some(at) if at + limits.stalled <= now => ConnectionAction::Abort,
            Some(at) => ConnectionAction::CheckAgain(at + limits.stalled),
            // Whatever comes next comes after this.
            None => ConnectionAction::CheckAgain(
                now + limits.stalled.min(limits.unauthenticated_timeout),
            ),
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        let mut state = self.tracker.lock();
        if let Some(space) = self.space.get() {
            if let Some(count) = state.spaces.get_mut(space) {
                *count -= 1;
                if *count == 0 {
                    state.spaces.remove(space);
                }
            }
            state.open -= 1;
            return;
        }
        let in_handshake = state.handshakes.remove(&self.number).is_some();
        // One that was displaced is in no room, and counted out.
        if in_handshake || state.unauthenticated.remove(&self.number).is_some() {
            state.open -= 1;
        }
    }
}

impl InFlight {
    /// The answer is made; an endless one may be read as slowly as its client likes.
    pub fn answer(&self, endless: bool) {
        self.set_stage(match endless {
            true => Stage::Watching,
            false => Stage::Sending(Instant::now()),
        });
    }

    /// Something of the answer was taken.
    pub fn progress(&self) {
        self.set_stage(Stage::Sending(Instant::now()));
    }

    fn set_stage(&self, stage: Stage) {
        let mut requests = self.connection.requests();
        let mine = |request: &&mut TrackedRequest| request.number == self.number;
        if let Some(request) = requests.requests.iter_mut().find(mine) {
            request.stage = stage;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut requests = self.connection.requests();
        requests
            .requests
            .retain(|request| request.number != self.number);
        if requests.requests.is_empty() {
            requests.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn tracker(
        total: usize,
        handshakes: usize,
        unauthenticated: usize,
        each: u32,
    ) -> Arc<ConnectionTracker> {
        ConnectionTracker::new(Connections {
            total,
            handshakes,
            unauthenticated,
            each,
            ..Connections::default()
        })
    }

    fn space(name: &str) -> Space {
        Space::parse(name).unwrap()
    }

    fn known(tracker: &Arc<ConnectionTracker>, name: &str) -> Arc<TrackedConnection> {
        let connection = tracker.accept().unwrap();
        connection.handshake_done();
        connection.authenticated(&space(name)).unwrap();
        connection
    }

    fn is_displaced(connection: &TrackedConnection) -> bool {
        connection.evicted().now_or_never().is_some()
    }

    #[tokio::test]
    async fn who_shakes_hands_longest_makes_room() {
        let tracker = tracker(100, 2, 100, 100);
        let all = [1, 2, 3].map(|_| tracker.accept().unwrap());
        assert_eq!(
            all.each_ref().map(|one| is_displaced(one)),
            [true, false, false]
        );
        assert_eq!(tracker.open(), 2);
    }

    #[tokio::test]
    async fn a_flood_of_strangers_displaces_strangers_and_nobody_who_is_known() {
        let tracker = tracker(3, 100, 100, 100);
        let friend = known(&tracker, "t1");
        let flood: Vec<_> = (0..50)
            .map(|_| {
                let connection = tracker.accept().unwrap();
                connection.handshake_done();
                connection
            })
            .collect();
        assert!(!is_displaced(&friend));
        assert_eq!(
            flood
                .iter()
                .filter(|connection| is_displaced(connection))
                .count(),
            48
        );
        assert_eq!(tracker.open(), 3);
        drop((friend, flood));
        assert_eq!(tracker.open(), 0);
    }

    #[tokio::test]
    async fn a_space_has_so_many_connections_and_leaves_the_others_theirs() {
        let tracker = tracker(100, 100, 100, 2);
        let mine = [1, 2].map(|_| known(&tracker, "t1"));
        let third = tracker.accept().unwrap();
        third.handshake_done();
        assert_eq!(third.authenticated(&space("t1")).unwrap_err().code, 429);
        let _other = known(&tracker, "t2");
        drop(mine);
        assert_eq!(third.authenticated(&space("t1")), Ok(()));
        assert_eq!(tracker.lock().spaces[&space("t1")], 1);
    }

    #[tokio::test]
    async fn when_everybody_is_known_who_comes_last_is_turned_away() {
        let tracker = tracker(2, 100, 100, 100);
        let _known = [known(&tracker, "t1"), known(&tracker, "t2")];
        assert!(tracker.accept().is_none());
        assert_eq!(tracker.ended()[0], ("no_room", 1));
    }

    #[tokio::test]
    async fn nobody_is_kept_in_any_book_after_leaving() {
        let tracker = tracker(100, 2, 2, 2);
        for round in 0..200 {
            let arrived: Vec<_> = (0..5).filter_map(|_| tracker.accept()).collect();
            for (number, connection) in arrived.iter().enumerate() {
                if (round + number) % 2 == 0 {
                    connection.handshake_done();
                }
                if (round + number) % 3 == 0 {
                    connection.authenticated(&space("t1")).ok();
                }
            }
        }
        let state = tracker.lock();
        assert_eq!(state.open, 0);
        assert!(state.handshakes.is_empty() && state.unauthenticated.is_empty());
        assert!(state.spaces.is_empty());
    }

    #[tokio::test]
    async fn a_connection_ends_when_nothing_happens_on_it_but_not_under_a_watch() {
        let tracker = tracker(10, 10, 10, 10);
        let limits = tracker.limits;
        let (connection, unauthenticated_timeout) =
            (known(&tracker, "t1"), tracker.accept().unwrap());
        let later = |time: Duration| Instant::now() + time + Duration::from_secs(1);
        let action =
            |connection: &TrackedConnection, time| match connection.check_timeouts(later(time)) {
                ConnectionAction::CheckAgain(_) => "stay",
                ConnectionAction::Drain => "finish",
                ConnectionAction::Abort => "cut",
            };
        assert_eq!(action(&unauthenticated_timeout, Duration::ZERO), "stay");
        assert_eq!(
            action(&unauthenticated_timeout, limits.unauthenticated_timeout),
            "finish"
        );
        assert_eq!(action(&connection, limits.unauthenticated_timeout), "stay");
        assert_eq!(action(&connection, limits.idle), "finish");
        let watch = connection.begin();
        watch.answer(true);
        assert_eq!(action(&connection, limits.idle * 10), "stay");
        let list = connection.begin();
        assert_eq!(action(&connection, limits.stalled), "stay");
        list.answer(false);
        assert_eq!(action(&connection, Duration::ZERO), "stay");
        assert_eq!(action(&connection, limits.stalled), "cut");
        drop(list);
        assert_eq!(action(&connection, limits.stalled), "stay");
        drop(watch);
        assert_eq!(action(&connection, limits.idle), "finish");
    }
}
