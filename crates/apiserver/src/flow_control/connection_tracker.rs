//! The open connections of the server, and when each is closed.
//!
//! A connection passes through three groups: handshakes, unauthenticated connections, and
//! those of its space, which it joins when a request on it is authenticated. The first two
//! are small. When one is full, a new connection evicts one of the address that has most: an
//! honest client leaves these groups at once, so a flood evicts itself. Authenticated
//! connections are never evicted.

mod rate_probation;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use insula_core::Space;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::flow_control::address_shares::{AddressShares, Stage as HandshakeStage};
use crate::flow_control::client_address::ClientAddress;
use crate::flow_control::handshake_turns::HandshakeTurns;
use crate::flow_control::lanes::{ConnectionLane, CpuShare, Lanes};
use crate::flow_control::{Connections, LimitTable, LimitedResource};
use crate::status::{Result, StatusError};

use rate_probation::RateProbation;

/// The most connections that are evicted at once for lack of room.
const MAX_EVICTED_AT_ONCE: usize = 16;

/// Tracks every connection of a server.
#[derive(Debug)]
pub struct ConnectionTracker {
    limits: Connections,
    spaces: Arc<LimitTable>,
    state: Mutex<State>,
    counters: Counters,
    turns: Arc<HandshakeTurns>,
    lanes: Lanes,
}

/// A group of connections without an authenticated request.
type Group = AddressShares<Weak<TrackedConnection>>;

#[derive(Debug, Default)]
struct State {
    arrived: u64,
    open: usize,
    handshakes: Group,
    unauthenticated: Group,
    spaces: HashMap<Space, SpaceConnections>,
}

/// The connections of one space.
#[derive(Debug, Default)]
struct SpaceConnections {
    count: u32,
    cpu: Arc<CpuShare>,
}

#[derive(Debug, Default)]
struct Counters {
    rejected: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    too_slow: AtomicU64,
    too_many: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub struct TrackedConnection {
    tracker: Arc<ConnectionTracker>,
    number: u64,
    address: ClientAddress,
    /// The space of the first authenticated request.
    space: OnceLock<Space>,
    requests: Mutex<Requests>,
    eviction: Notify,
    probation: RateProbation,
    lane: Arc<ConnectionLane>,
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
    pub fn new(limits: Connections, spaces: Arc<LimitTable>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            spaces,
            state: Mutex::default(),
            counters: Counters::default(),
            turns: HandshakeTurns::new(limits.handshake_turns),
            lanes: Lanes::new(),
        })
    }

    /// Returns the turns of handshakes.
    pub fn handshake_turns(&self) -> &Arc<HandshakeTurns> {
        &self.turns
    }

    /// Adds a connection, which begins with a handshake. Returns `None` if the server is full
    /// and no connection can be evicted, or if the address itself has the most handshakes.
    pub fn accept(self: &Arc<Self>, address: ClientAddress) -> Option<Arc<TrackedConnection>> {
        let mut state = self.lock();
        let mut evicted = Vec::new();
        if state.open >= self.limits.total && !state.evict_unauthenticated(&mut evicted) {
            drop(state);
            self.counters.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        state.arrived += 1;
        state.open += 1;
        let number = state.arrived;
        let connection = Arc::new(TrackedConnection::new(Arc::clone(self), number, address));
        let weak = Arc::downgrade(&connection);
        state.handshakes.insert(number, address, weak);
        let limit = self.limits.handshakes.max(1);
        if state.handshakes.len() > limit {
            state.evict(|state| &mut state.handshakes, limit, &mut evicted);
        }
        let is_accepted = state.handshakes.contains(number);
        drop(state);
        if !is_accepted {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            evicted.retain(|evicted| evicted.number != number);
        }
        self.notify_evicted(evicted);
        is_accepted.then_some(connection)
    }

    /// Evicts some unauthenticated connections, because the machine has no room for more. Returns
    /// whether there was one.
    pub fn make_room(&self) -> bool {
        let mut evicted = Vec::new();
        let mut state = self.lock();
        // More than one, so that a flood does not take all that is gained, and few of those that
        // honest clients have just opened.
        let unauthenticated = state.unauthenticated.len() + state.handshakes.len();
        for _ in 0..unauthenticated.div_ceil(4).min(MAX_EVICTED_AT_ONCE) {
            state.evict_unauthenticated(&mut evicted);
        }
        drop(state);
        let has_evicted = !evicted.is_empty();
        self.notify_evicted(evicted);
        has_evicted
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// Returns how many connections the server closed early, by reason.
    pub fn ended(&self) -> [(&'static str, u64); 5] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("no_room", of(&self.counters.rejected)),
            ("too_many_of_address", of(&self.counters.refused)),
            ("displaced", of(&self.counters.evicted)),
            ("too_slow", of(&self.counters.too_slow)),
            ("too_many_of_space", of(&self.counters.too_many)),
        ]
    }

    /// Counts a connection that was closed because it was too slow.
    pub fn count_too_slow(&self) {
        self.counters.too_slow.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the spaces with the most connections, and their number.
    pub fn costliest(&self, most: usize) -> Vec<(Space, u32)> {
        let state = self.lock();
        let spaces = state.spaces.iter();
        let mut spaces: Vec<_> = spaces
            .map(|(space, of)| (space.clone(), of.count))
            .collect();
        drop(state);
        spaces.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        spaces.truncate(most);
        spaces
    }

    fn max_connections(&self, space: &Space) -> u32 {
        self.spaces.seats(space, LimitedResource::Connections)
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
    /// Removes a connection of either group, of the address that has most.
    fn evict_unauthenticated(&mut self, evicted: &mut Vec<Arc<TrackedConnection>>) -> bool {
        let (unauthenticated, handshakes) = (self.unauthenticated.len(), self.handshakes.len());
        let largest = self.unauthenticated.largest_share(unauthenticated);
        if self.handshakes.largest_share(handshakes) > largest {
            return self.evict(|state| &mut state.handshakes, handshakes, evicted);
        }
        self.evict(|state| &mut state.unauthenticated, unauthenticated, evicted)
    }

    /// Removes a connection of a group, of the address that has most.
    fn evict(
        &mut self,
        group: impl Fn(&mut Self) -> &mut Group,
        capacity: usize,
        evicted: &mut Vec<Arc<TrackedConnection>>,
    ) -> bool {
        let group = group(self);
        let victim = group.next_victim(capacity);
        let Some(connection) = victim.and_then(|victim| group.remove(victim)) else {
            return false;
        };
        self.open -= 1;
        evicted.extend(connection.upgrade());
        true
    }
}

impl TrackedConnection {
    fn new(tracker: Arc<ConnectionTracker>, number: u64, address: ClientAddress) -> Self {
        Self {
            tracker,
            number,
            address,
            space: OnceLock::new(),
            requests: Mutex::new(Requests {
                requests: Vec::new(),
                began: 0,
                idle_since: Instant::now(),
            }),
            eviction: Notify::new(),
            probation: RateProbation::default(),
            lane: Arc::default(),
        }
    }

    /// Returns the address of the client.
    pub const fn address(&self) -> ClientAddress {
        self.address
    }

    /// Notes that the handshake waits for its turn.
    pub fn handshake_queued(&self) {
        self.set_handshake_stage(HandshakeStage::Queued);
    }

    /// Notes that the server has done its part of the handshake.
    pub fn handshake_sent(&self) {
        self.set_handshake_stage(HandshakeStage::Finishing);
    }

    fn set_handshake_stage(&self, stage: HandshakeStage) {
        let mut state = self.tracker.lock();
        state.handshakes.set_stage(self.number, stage);
    }

    /// Moves the connection from the handshakes to the unauthenticated connections.
    pub fn handshake_done(&self) {
        let mut state = self.tracker.lock();
        let Some(connection) = state.handshakes.remove(self.number) else {
            return;
        };
        let unauthenticated = &mut state.unauthenticated;
        unauthenticated.insert(self.number, self.address, connection);
        let mut evicted = Vec::new();
        let limit = self.tracker.limits.unauthenticated.max(1);
        if state.unauthenticated.len() > limit {
            state.evict(|state| &mut state.unauthenticated, limit, &mut evicted);
        }
        drop(state);
        self.tracker.notify_evicted(evicted);
    }

    /// Counts the connection for `space`, unless it already counts for a space.
    ///
    /// If the space has too many connections, this one stays unauthenticated: its client may
    /// retry, and it can be evicted.
    pub fn authenticated(&self, space: &Space) -> Result<()> {
        if let Some(first) = self.space.get() {
            if first != space {
                self.probation.note_shared();
                // As of a proxy: one space would suffer for the other.
                self.lane.exempt();
            }
            return Ok(());
        }
        let mut state = self.tracker.lock();
        if !state.unauthenticated.contains(self.number) {
            // A concurrent request was authenticated first, or the connection was evicted.
            return Ok(());
        }
        let others = state.spaces.get(space).map_or(0, |others| others.count);
        if others >= self.tracker.max_connections(space) {
            drop(state);
            self.tracker
                .counters
                .too_many
                .fetch_add(1, Ordering::Relaxed);
            return Err(StatusError::overloaded());
        }
        state.unauthenticated.remove(self.number);
        let of_space = state.spaces.entry(space.clone()).or_default();
        of_space.count += 1;
        self.lane.set_space(Arc::clone(&of_space.cpu));
        if space.is_system() {
            // The system acts for all spaces.
            self.lane.exempt();
        }
        // Set only once: under the lock, after removal from the unauthenticated connections.
        self.space.get_or_init(|| space.clone());
        Ok(())
    }

    /// Runs a future of the connection in the connection's lane, until it ends.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.tracker.lanes.spawn(&self.lane, future);
    }

    /// Returns the space that the connection counts for, if a request was authenticated.
    pub fn space(&self) -> Option<&Space> {
        self.space.get()
    }

    /// Notes that a request exceeded the rate of its space.
    pub fn note_rate_exceeded(&self) {
        self.probation.note_refusal();
    }

    /// Returns the connection's space if the client exceeded its rate lately.
    pub fn space_over_rate(&self) -> Option<&Space> {
        self.space.get().filter(|_| self.probation.is_active())
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
            if let Some(of_space) = state.spaces.get_mut(space) {
                of_space.count -= 1;
                if of_space.count == 0 {
                    state.spaces.remove(space);
                }
            }
            state.open -= 1;
            return;
        }
        let in_handshake = state.handshakes.remove(self.number).is_some();
        // An evicted connection is in no group and no longer counted.
        if in_handshake || state.unauthenticated.remove(self.number).is_some() {
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
