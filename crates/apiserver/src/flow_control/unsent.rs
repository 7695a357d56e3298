//! Bytes of responses that clients have yet to take.
//!
//! A client decides how fast it reads, so it also decides how long the server keeps what was
//! produced for it. These bytes are charged to the space of the caller: those that a body holds,
//! and those handed to the transport, until the socket has taken them. Work takes a seat, and
//! releases it before the response is sent; bytes are what a slow client holds instead.
//!
//! - A space that holds its share gets no further response, and no further piece of one that is
//!   produced while it is read, until clients have taken some of it or until those that read
//!   nothing are cut off.
//! - When all spaces together hold too much, the space that holds most loses the responses that
//!   have waited longest.

mod accounts;
mod response;
mod rooms;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_core::Space;
use tokio::time::Instant;

use super::connection_tracker::InFlight;
use super::limits::Unsent;
use super::space_limits::{LimitTable, LimitedResource};
use crate::status::{Result, StatusError};

use accounts::Accounts;
use rooms::{RELIEF_INTERVAL, Rooms, Waiter};

pub use response::{OutgoingResponse, UnsentBytes};

/// The unsent bytes of all spaces.
#[derive(Debug)]
pub struct UnsentPool {
    limits: Unsent,
    spaces: Arc<LimitTable>,
    /// How long a client may keep a response waiting.
    stalled: Duration,
    state: Mutex<Accounts>,
    rooms: Rooms,
    counters: [AtomicU64; CutReason::ALL.len()],
    refused: AtomicU64,
}

/// Why a response was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutReason {
    /// The client took nothing for too long.
    Stalled,
    /// The space or the server held too many unsent bytes.
    Pressure,
    /// The watch was over, and its client did not read the end.
    WatchOver,
}

/// The statistics of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsentStats {
    /// The bytes of all spaces.
    pub total: usize,
    /// The spaces with the most bytes, and their bytes. `None` is for clients without a space.
    pub costliest: Vec<(Option<Space>, usize)>,
    /// Responses that were cut off, by reason.
    pub cut: [(&'static str, u64); 3],
    /// Requests that were refused because their space had no room for a response.
    pub refused: u64,
}

/// A response that waits for its client, with the time since when.
type Waiting = (Instant, u64, Arc<OutgoingResponse>);

/// How long a response must have waited to be cut off for its own space.
const PRESSURE_STALL: Duration = Duration::from_secs(5);

/// The number of spaces in the statistics.
const COSTLIEST: usize = 5;

impl CutReason {
    const ALL: [Self; 3] = [Self::Stalled, Self::Pressure, Self::WatchOver];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Pressure => "pressure",
            Self::WatchOver => "watch_over",
        }
    }
}

impl UnsentPool {
    /// Creates a pool without responses. `stalled` is how long a client may take nothing.
    pub fn new(limits: Unsent, stalled: Duration, spaces: Arc<LimitTable>) -> Arc<Self> {
        Arc::new(Self {
            limits,
            spaces,
            stalled,
            state: Mutex::default(),
            rooms: Rooms::default(),
            counters: Default::default(),
            refused: AtomicU64::new(0),
        })
    }

    /// Adds a response with this many bytes in its body.
    pub fn begin(
        self: &Arc<Self>,
        payer: Option<Space>,
        in_flight: InFlight,
        held: usize,
    ) -> Arc<OutgoingResponse> {
        let response = self.lock().insert(payer.clone(), |number| {
            OutgoingResponse::new(Arc::clone(self), payer, number, in_flight)
        });
        response.set_held(held);
        response
    }

    /// Waits until the space holds less than its share. Responses that stall are cut off if that
    /// makes room.
    ///
    /// # Errors
    ///
    /// If there is no room in time, or too many requests wait for it.
    pub async fn await_room(&self, space: &Space, timeout: Duration) -> Result<()> {
        if self.has_room(space, 0) {
            return Ok(());
        }
        Box::pin(self.await_some_room(space, timeout)).await
    }

    async fn await_some_room(&self, space: &Space, timeout: Duration) -> Result<()> {
        let waiter = self.rooms.join(space).ok_or_else(|| self.refuse())?;
        let has_room = self.await_release(&waiter, RELIEF_INTERVAL, || self.has_room(space, 1));
        let waited = tokio::time::timeout(timeout, has_room).await;
        waited.map_err(|_| self.refuse())
    }

    /// Whether a response of the space may produce its next piece: the space holds less than its
    /// share, or most of what it holds is in bodies, which only sending makes smaller.
    fn may_grow(&self, payer: &Option<Space>) -> bool {
        let Some(space) = payer else {
            return true;
        };
        let max_bytes = self.max_bytes(space);
        let state = self.lock();
        state.staying_of(payer) < max_bytes || state.produced_of(payer) <= max_bytes / 8
    }

    /// Waits until a response of the space may produce its next piece. Other responses that stall are cut off if that makes room.
    async fn await_growth(&self, payer: &Option<Space>) {
        if let Some(space) = payer {
            let waiter = self.rooms.join_begun(space);
            // A space may have thousands of these, so they wake rarely.
            let may_grow = || self.may_grow(payer);
            self.await_release(&waiter, PRESSURE_STALL, may_grow).await;
        }
    }

    /// Waits until there is room, which is examined when bytes are released and once in each
    /// interval.
    async fn await_release(
        &self,
        waiter: &Waiter<'_>,
        interval: Duration,
        has_room: impl Fn() -> bool,
    ) {
        loop {
            if waiter.is_relief_due() {
                self.relieve_space(waiter.space(), 1);
            }
            if has_room() {
                return waiter.pass_on();
            }
            waiter.released(interval).await;
        }
    }

    /// Checks that the space has room for a response that was produced. One response always has
    /// room, however large it is.
    ///
    /// # Errors
    ///
    /// If the space holds too much, and no response of it has stalled.
    pub fn check_room(&self, space: &Space, bytes: usize) -> Result<()> {
        if self.has_room(space, bytes) {
            return Ok(());
        }
        self.relieve_space(space, bytes);
        match self.has_room(space, bytes) {
            true => Ok(()),
            false => Err(self.refuse()),
        }
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> UnsentStats {
        let state = self.lock();
        let mut costliest = state.by_space();
        let total = state.total();
        drop(state);
        costliest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        costliest.truncate(COSTLIEST);
        UnsentStats {
            total,
            costliest,
            cut: CutReason::ALL.map(|reason| {
                let count = self.counters[reason as usize].load(Ordering::Relaxed);
                (reason.as_str(), count)
            }),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// The bytes per second that a client must take of a response, after its first wait.
    fn rate(&self) -> f64 {
        f64::from(self.limits.rate.max(1))
    }

    fn count_cut(&self, reason: CutReason) {
        self.counters[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn refuse(&self) -> StatusError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        StatusError::overloaded()
    }

    fn max_bytes(&self, space: &Space) -> usize {
        let bytes = self.spaces.get(space, LimitedResource::UnsentBytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn has_room(&self, space: &Space, bytes: usize) -> bool {
        let state = self.lock();
        let used = state.staying_of(&Some(space.clone()));
        used == 0 || used + bytes <= self.max_bytes(space)
    }

    /// Replaces the bytes that a response holds in its body.
    fn set_held(&self, payer: &Option<Space>, number: u64, held: usize) {
        let mut state = self.lock();
        let before = state.set_held(payer, number, held);
        let over = held > before && state.staying() > self.limits.total;
        drop(state);
        if over {
            self.relieve_all();
        }
        if held < before {
            self.rooms.notify(payer.as_ref());
        }
    }

    /// Charges bytes to a response, and cuts off others if the server holds too much.
    fn charge(&self, payer: &Option<Space>, number: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut state = self.lock();
        state.add(payer, number, bytes);
        let over = state.staying() > self.limits.total;
        drop(state);
        if over {
            self.relieve_all();
        }
    }

    fn release(&self, payer: &Option<Space>, number: u64, bytes: usize) {
        if bytes > 0 {
            self.lock().subtract(payer, number, bytes);
            self.rooms.notify(payer.as_ref());
        }
    }

    fn remove(&self, payer: &Option<Space>, number: u64) {
        self.lock().remove(payer, number);
        self.rooms.notify(payer.as_ref());
    }

    /// Cuts off stalled responses of a space until it has room for `bytes`.
    fn relieve_space(&self, space: &Space, bytes: usize) {
        let payer = Some(space.clone());
        let max_bytes = self.max_bytes(space);
        let mut cut = Vec::new();
        let waiting = self.waiting(&payer);
        let long_ago = Instant::now().checked_sub(PRESSURE_STALL);
        let mut state = self.lock();
        for (since, number, response) in &waiting {
            let staying = state.staying_of(&payer);
            let has_room = staying == 0 || staying + bytes <= max_bytes;
            if has_room || long_ago.is_none_or(|long_ago| *since > long_ago) {
                break;
            }
            state.mark_ending(&payer, *number);
            cut.push(Arc::clone(response));
        }
        drop(state);
        self.cut(cut);
    }

    /// Cuts off the longest waiting responses of the spaces that hold most, until all hold less
    /// than the limit by an eighth.
    fn relieve_all(&self) {
        let target = self.limits.total / 8 * 7;
        let mut spaces = self.lock().by_bytes();
        while let Some(payer) = spaces.pop() {
            let next = spaces.last().cloned();
            let mut cut = Vec::new();
            for (_, number, response) in self.waiting(&payer) {
                let mut state = self.lock();
                let is_most = match &next {
                    Some(next) => state.staying_of(&payer) >= state.staying_of(next),
                    None => true,
                };
                if state.staying() <= target {
                    drop(state);
                    return self.cut(cut);
                }
                if !is_most {
                    break;
                }
                state.mark_ending(&payer, number);
                drop(state);
                cut.push(response);
            }
            self.cut(cut);
        }
    }

    /// Returns the responses of a space that wait for their clients, the longest first.
    fn waiting(&self, payer: &Option<Space>) -> Vec<Waiting> {
        // Dropped without the lock: dropping a response takes it.
        let responses = self.lock().holding(payer);
        let mut waiting: Vec<Waiting> = responses
            .into_iter()
            .filter_map(|(number, response)| Some((response.waiting_since()?, number, response)))
            .collect();
        waiting.sort_by_key(|(since, number, _)| (*since, *number));
        waiting
    }

    fn cut(&self, responses: Vec<Arc<OutgoingResponse>>) {
        for response in responses {
            self.count_cut(CutReason::Pressure);
            response.cut();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
