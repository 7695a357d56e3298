//! A pool of seats that spaces share.
//!
//! A request gets a free seat at once. Otherwise it waits in the queue of its space, and a
//! seat that becomes free goes to the spaces in round-robin order, regardless of the lengths
//! of their queues. A space has state here only while one of its requests has a seat or waits.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use insula_core::Space;
use tokio::sync::oneshot;

use super::space_limits::{LimitTable, LimitedResource};

/// The limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// All seats.
    pub total: u32,
    /// The most seats of one space.
    pub each: u32,
    /// The most waiting requests of one space.
    pub queue: usize,
}

/// A pool of seats of one sort.
#[derive(Debug)]
pub struct Pool {
    bound: Bound,
    /// The limits of spaces that differ from the bound.
    limits: Option<(Arc<LimitTable>, LimitedResource)>,
    state: Mutex<State>,
    refused: AtomicU64,
}

#[derive(Debug)]
struct State {
    free: u32,
    queues: HashMap<Space, SpaceQueue>,
    /// The spaces whose first waiting request may get a seat once enough are free.
    ready: VecDeque<Space>,
    waiting: usize,
    next_number: u64,
}

/// The seats and the queue of one space.
#[derive(Debug, Default)]
struct SpaceQueue {
    used: u32,
    queue: VecDeque<QueuedRequest>,
    /// Whether the space is in `ready`: its first waiting request fits into the space's limit.
    is_ready: bool,
}

#[derive(Debug)]
struct QueuedRequest {
    number: u64,
    cost: u32,
    seat: oneshot::Sender<Seat>,
}

/// A seat, or several for costly work. Dropping it releases them.
#[derive(Debug)]
pub struct Seat {
    pool: Arc<Pool>,
    space: Space,
    cost: u32,
}

/// The result of an attempt to acquire seats.
#[derive(Debug)]
pub enum Acquisition {
    /// A seat was free.
    Acquired(Seat),
    /// No seat was free. The future completes when one is.
    Waiting(Waiting),
    /// The queue of the space is full.
    Rejected,
}

/// A place in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub struct Waiting {
    pool: Arc<Pool>,
    space: Space,
    number: u64,
    seat: oneshot::Receiver<Seat>,
}

/// The statistics of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatStats {
    /// Seats in use.
    pub used: u32,
    /// Requests that wait for a seat.
    pub waiting: usize,
    /// Requests that were rejected so far.
    pub refused: u64,
}

impl Pool {
    /// Creates a pool with all seats free.
    pub fn new(bound: Bound) -> Arc<Self> {
        Self::create(bound, None)
    }

    /// Creates a pool with all seats free, and a limit for each space.
    pub fn with_limits(
        bound: Bound,
        limits: &Arc<LimitTable>,
        resource: LimitedResource,
    ) -> Arc<Self> {
        Self::create(bound, Some((Arc::clone(limits), resource)))
    }

    fn create(bound: Bound, limits: Option<(Arc<LimitTable>, LimitedResource)>) -> Arc<Self> {
        // A limit of zero would block every request for ever.
        let total = bound.total.max(1);
        let each = bound.each.clamp(1, total);
        let state = State {
            free: total,
            queues: HashMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            next_number: 0,
        };
        Arc::new(Self {
            bound: Bound {
                total,
                each,
                queue: bound.queue,
            },
            limits,
            state: Mutex::new(state),
            refused: AtomicU64::new(0),
        })
    }

    /// Returns the most seats of a space.
    fn each(&self, space: &Space) -> u32 {
        match &self.limits {
            Some((limits, resource)) => limits.seats(space, *resource).clamp(1, self.bound.total),
            None => self.bound.each,
        }
    }

    /// Acquires `cost` seats for a request of `space`, or a place in its queue. The cost is
    /// capped at the limit of one space.
    pub fn try_acquire(self: &Arc<Self>, space: &Space, cost: u32) -> Acquisition {
        self.acquire_or_queue(space, cost, self.bound.queue)
    }

    /// Like [`try_acquire`](Self::try_acquire), but never rejects: for a response in progress.
    pub fn try_reacquire(self: &Arc<Self>, space: &Space, cost: u32) -> Acquisition {
        self.acquire_or_queue(space, cost, usize::MAX)
    }

    /// Counts a rejected request, including one that timed out in the queue.
    pub fn count_rejected(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the spaces with the most seats in use, and their number.
    pub fn costliest(&self, most: usize) -> Vec<(Space, u32)> {
        let state = self.lock();
        let spaces = state.queues.iter().filter(|(_, of)| of.used > 0);
        let mut spaces: Vec<_> = spaces.map(|(space, of)| (space.clone(), of.used)).collect();
        drop(state);
        spaces.sort_by_key(|(_, used)| std::cmp::Reverse(*used));
        spaces.truncate(most);
        spaces
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> SeatStats {
        let state = self.lock();
        SeatStats {
            used: self.bound.total - state.free,
            waiting: state.waiting,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn acquire_or_queue(self: &Arc<Self>, space: &Space, cost: u32, queue: usize) -> Acquisition {
        let each = self.each(space);
        let cost = cost.clamp(1, each);
        let mut state = self.lock();
        if state.take(space, cost, each) {
            drop(state);
            return Acquisition::Acquired(self.seat(space.clone(), cost));
        }
        let Some((number, seat)) = state.enqueue(space, cost, each, queue) else {
            drop(state);
            self.count_rejected();
            return Acquisition::Rejected;
        };
        drop(state);
        Acquisition::Waiting(Waiting {
            pool: Arc::clone(self),
            space: space.clone(),
            number,
            seat,
        })
    }

    fn seat(self: &Arc<Self>, space: Space, cost: u32) -> Seat {
        Seat {
            pool: Arc::clone(self),
            space,
            cost,
        }
    }

    /// Gives free seats to the next waiting requests.
    ///
    /// The seats are sent without the lock: if the receiver is gone, dropping the seat locks
    /// the pool again.
    fn seat_next(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(|space| self.each(space));
            let Some((space, queued)) = next else {
                return;
            };
            drop(queued.seat.send(self.seat(space, queued.cost)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes seats at once, unless another request is first in line.
    fn take(&mut self, space: &Space, cost: u32, each: u32) -> bool {
        if self.free < cost || !self.ready.is_empty() {
            return false;
        }
        match self.queues.entry(space.clone()) {
            Entry::Vacant(space_queue) => {
                space_queue.insert(SpaceQueue::default()).used = cost;
            }
            Entry::Occupied(mut space_queue) => {
                let space_queue = space_queue.get_mut();
                if !space_queue.queue.is_empty() || space_queue.used + cost > each {
                    return false;
                }
                space_queue.used += cost;
            }
        }
        self.free -= cost;
        true
    }

    fn enqueue(
        &mut self,
        space: &Space,
        cost: u32,
        each: u32,
        queue: usize,
    ) -> Option<(u64, oneshot::Receiver<Seat>)> {
        let waiting = self
            .queues
            .get(space)
            .map_or(0, |space_queue| space_queue.queue.len());
        if waiting >= queue {
            return None;
        }
        let (seat, receiver) = oneshot::channel();
        let number = self.next_number;
        self.next_number += 1;
        self.waiting += 1;
        let space_queue = self.queues.entry(space.clone()).or_default();
        space_queue
            .queue
            .push_back(QueuedRequest { number, cost, seat });
        self.update_ready(space, each);
        Some((number, receiver))
    }

    /// Removes the next request that gets seats from its queue, and takes them for it.
    fn next(&mut self, each: impl Fn(&Space) -> u32) -> Option<(Space, QueuedRequest)> {
        let space_queue = self.queues.get_mut(self.ready.front()?)?;
        if space_queue.queue.front()?.cost > self.free {
            return None;
        }
        let queued = space_queue.queue.pop_front()?;
        space_queue.used += queued.cost;
        space_queue.is_ready = false;
        self.free -= queued.cost;
        self.waiting -= 1;
        let space = self.ready.pop_front()?;
        self.update_ready(&space, each(&space));
        Some((space, queued))
    }

    fn release(&mut self, space: Space, cost: u32, each: u32) {
        self.free += cost;
        let Entry::Occupied(mut entry) = self.queues.entry(space) else {
            return;
        };
        let space_queue = entry.get_mut();
        space_queue.used -= cost;
        // Fast path: usually the queue is empty.
        if !space_queue.queue.is_empty() {
            let space = entry.key().clone();
            self.update_ready(&space, each);
        } else if space_queue.used == 0 {
            entry.remove();
        }
    }

    fn cancel(&mut self, space: &Space, number: u64, each: u32) {
        let Some(space_queue) = self.queues.get_mut(space) else {
            return;
        };
        let place = space_queue
            .queue
            .iter()
            .position(|one| one.number == number);
        // A request that left the queue has a seat, which is released when it is dropped.
        if let Some(place) = place {
            space_queue.queue.remove(place);
            self.waiting -= 1;
            self.update_ready(space, each);
        }
    }

    /// Restores the invariants of a space: it is ready if and only if its first waiting request
    /// fits into its limit, and it has state if and only if it has seats or waiting requests.
    fn update_ready(&mut self, space: &Space, each: u32) {
        let Some(space_queue) = self.queues.get_mut(space) else {
            return;
        };
        let first = space_queue.queue.front();
        // The limit may have been lowered below the cost of a request that waits.
        let ready = first.is_some_and(|first| space_queue.used + first.cost.min(each) <= each);
        match (space_queue.is_ready, ready) {
            (false, true) => self.ready.push_back(space.clone()),
            (true, false) => self.ready.retain(|of| of != space),
            _ => {}
        }
        space_queue.is_ready = ready;
        if space_queue.used == 0 && space_queue.queue.is_empty() {
            self.queues.remove(space);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let each = self.pool.each(&self.space);
        let mut state = self.pool.lock();
        let space = std::mem::replace(&mut self.space, Space::System);
        state.release(space, self.cost, each);
        let waited_for = !state.ready.is_empty();
        drop(state);
        if waited_for {
            self.pool.seat_next();
        }
    }
}

impl Future for Waiting {
    /// `None` cannot occur, because `Waiting` keeps the pool alive.
    type Output = Option<Seat>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.seat).poll(context).map(Result::ok)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let each = self.pool.each(&self.space);
        let mut state = self.pool.lock();
        state.cancel(&self.space, self.number, each);
        drop(state);
        // The next request in the queue may need fewer seats.
        self.pool.seat_next();
    }
}

#[cfg(test)]
mod tests;
