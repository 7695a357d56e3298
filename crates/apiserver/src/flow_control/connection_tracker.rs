//! The open connections of the server, and when each is closed.
//!
//! A connection passes through three groups: handshakes, unauthenticated connections, and
//! those of its space, which it joins when a request on it is authenticated. The first two
//! are small. When one is full, a new connection evicts the oldest: an honest client leaves
//! these groups at once, so a flood evicts itself. Authenticated connections are never
//! evicted.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use insula_core::Space;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::flow_control::Connections;
use crate::status::{Result, StatusError};

/// Tracks every connection of a server.
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
    /// The space of the first authenticated request.
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

/// A request in flight.
#[derive(Debug)]
struct TrackedRequest {
    number: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Processing,
    /// The time by which the client must have read what was sent.
    Sending(Instant),
    Watching,
}

/// A request on a connection, from its start until this value is dropped.
#[derive(Debug)]
pub struct InFlight {
    connection: Arc<TrackedConnection>,
    number: u64,
}

/// What the connection's task does after a timeout check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Keeps the connection and checks again at this time.
    CheckAgain(Instant),
    /// Closes the connection after the requests in flight.
    Drain,
    /// Closes the connection at once.
    Abort,
}

impl ConnectionTracker {
    /// Creates a tracker without connections.
    pub fn new(limits: Connections) -> Arc<Self> {
        Arc::new(Self {
            limits,
            state: Mutex::default(),
            counters: Counters::default(),
        })
    }

    /// Adds a connection, which begins with a handshake. Returns `None` if the server is full
    /// and no connection can be evicted.
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

    /// Evicts the oldest unauthenticated connection, because the machine has no room for more.
    pub fn evict_oldest(&self) {
        let mut evicted = Vec::new();
        self.lock().evict_unauthenticated(&mut evicted);
        self.notify_evicted(evicted);
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// Returns how many connections the server closed early, by reason.
    pub fn ended(&self) -> [(&'static str, u64); 4] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("no_room", of(&self.counters.rejected)),
            ("displaced", of(&self.counters.evicted)),
            ("too_slow", of(&self.counters.too_slow)),
            ("too_many_of_space", of(&self.counters.too_many)),
        ]
    }

    /// Counts a connection that was closed because it was too slow.
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

    /// Removes the oldest connection of a group.
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

    /// Moves the connection from the handshakes to the unauthenticated connections.
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

    /// Counts the connection for `space`, unless it already counts for a space.
    ///
    /// If the space has too many connections, this one stays unauthenticated: its client may
    /// retry, and it can be evicted.
    pub fn authenticated(&self, space: &Space) -> Result<()> {
        if self.space.get().is_some() {
            return Ok(());
        }
        let mut state = self.tracker.lock();
        if !state.unauthenticated.contains_key(&self.number) {
            // A concurrent request was authenticated first, or the connection was evicted.
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
        // Set only once: under the lock, after removal from the unauthenticated connections.
        self.space.get_or_init(|| space.clone());
        Ok(())
    }

    /// Returns the space that the connection counts for, if a request was authenticated.
    pub fn space(&self) -> Option<&Space> {
        self.space.get()
    }

    /// Starts a request.
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

    /// Completes when the connection is evicted.
    pub async fn evicted(&self) {
        self.eviction.notified().await;
    }

    /// Decides whether the connection has been idle or stalled for too long.
    pub fn check_timeouts(&self, now: Instant) -> ConnectionAction {
        let limits = &self.tracker.limits;
        let requests = self.requests();
        if requests.requests.is_empty() {
            let idle_timeout = match self.space.get() {
                Some(_) => limits.idle,
                None => limits.unauthenticated_timeout,
            };
            let until = requests.idle_since + idle_timeout;
            return match until <= now {
                true => ConnectionAction::Drain,
                // A request that starts meanwhile must be checked in time.
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
            Some(until) if until <= now => ConnectionAction::Abort,
            Some(until) => ConnectionAction::CheckAgain(until),
            // No response that starts later can stall before this time.
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
        // An evicted connection is in no group and no longer counted.
        if in_handshake || state.unauthenticated.remove(&self.number).is_some() {
            state.open -= 1;
        }
    }
}

impl InFlight {
    /// Notes that the client waits for the server: for the response, or for a watch's events.
    pub fn await_server(&self, endless: bool) {
        self.set_stage(match endless {
            true => Stage::Watching,
            false => Stage::Processing,
        });
    }

    /// Notes that the server waits for the client. The connection is closed after `until`.
    pub fn await_client(&self, until: Instant) {
        self.set_stage(Stage::Sending(until));
    }

    /// Closes the connection at once.
    pub fn close_connection(&self) {
        self.connection.eviction.notify_one();
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
    async fn oldest_handshake_is_evicted() {
        let tracker = tracker(100, 2, 100, 100);
        let all = [1, 2, 3].map(|_| tracker.accept().unwrap());
        assert_eq!(
            all.each_ref().map(|one| is_displaced(one)),
            [true, false, false]
        );
        assert_eq!(tracker.open(), 2);
    }

    #[tokio::test]
    async fn flood_of_unauthenticated_connections_evicts_only_itself() {
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
    async fn connections_of_a_space_are_limited_without_affecting_other_spaces() {
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
    async fn connection_is_rejected_when_all_others_are_authenticated() {
        let tracker = tracker(2, 100, 100, 100);
        let _known = [known(&tracker, "t1"), known(&tracker, "t2")];
        assert!(tracker.accept().is_none());
        assert_eq!(tracker.ended()[0], ("no_room", 1));
    }

    #[tokio::test]
    async fn closed_connections_leave_no_state_behind() {
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
    async fn idle_connection_is_closed_unless_it_has_a_watch() {
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
        watch.await_server(true);
        assert_eq!(action(&connection, limits.idle * 10), "stay");
        let list = connection.begin();
        assert_eq!(action(&connection, limits.stalled), "stay");
        list.await_client(Instant::now() + limits.stalled);
        assert_eq!(action(&connection, Duration::ZERO), "stay");
        assert_eq!(action(&connection, limits.stalled), "cut");
        drop(list);
        assert_eq!(action(&connection, limits.stalled), "stay");
        drop(watch);
        assert_eq!(action(&connection, limits.idle), "finish");
    }
}
