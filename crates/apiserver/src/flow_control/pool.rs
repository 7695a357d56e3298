//! Seats that spaces share.
//!
//! Whoever comes while seats are free sits down at once. Otherwise everybody waits in the
//! queue of their space, and a seat that gets free goes to the spaces in turn, however many
//! wait in each. A space is remembered only while somebody of it sits or waits.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use insula_core::Space;
use tokio::sync::oneshot;

/// How many seats there are, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// All of them.
    pub total: u32,
    /// The most that one space has at a time.
    pub each: u32,
    /// The most requests of one space that wait.
    pub queue: usize,
}

/// Seats of one sort.
#[derive(Debug)]
pub struct Pool {
    bound: Bound,
    state: Mutex<State>,
    refused: AtomicU64,
}

#[derive(Debug)]
struct State {
    free: u32,
    queues: HashMap<Space, SpaceQueue>,
    /// The spaces whose first in the queue may have a seat once enough are free.
    ready: VecDeque<Space>,
    waiting: usize,
    next_number: u64,
}

/// Those of one space.
#[derive(Debug, Default)]
struct SpaceQueue {
    used: u32,
    queue: VecDeque<QueuedRequest>,
    /// Whether it is among the turns: its first would not exceed what one space may have.
    is_ready: bool,
}

#[derive(Debug)]
struct QueuedRequest {
    number: u64,
    cost: u32,
    seat: oneshot::Sender<Seat>,
}

/// A seat, or several for costly work. It is given back when this value goes.
#[derive(Debug)]
pub struct Seat {
    pool: Arc<Pool>,
    space: Space,
    cost: u32,
}

/// What becomes of somebody who comes.
#[derive(Debug)]
pub enum Acquisition {
    /// A seat was free.
    Acquired(Seat),
    /// None was: this is done when there is one.
    Waiting(Waiting),
    /// Too many wait already.
    Rejected,
}

/// A place in a queue. Who drops it leaves the queue.
#[derive(Debug)]
pub struct Waiting {
    pool: Arc<Pool>,
    space: Space,
    number: u64,
    seat: oneshot::Receiver<Seat>,
}

/// What a pool looks like at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatStats {
    /// Seats that are taken.
    pub used: u32,
    /// Requests that wait for one.
    pub waiting: usize,
    /// Requests that were refused so far.
    pub refused: u64,
}

impl Pool {
    /// All seats are free.
    pub fn new(bound: Bound) -> Arc<Self> {
        // A bound of nothing would refuse or hold up everybody for ever.
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
            state: Mutex::new(state),
            refused: AtomicU64::new(0),
        })
    }

    /// Takes `cost` seats for somebody of `space`, or a place in its queue. More than a space
    /// may have is as much as it may have.
    pub fn try_acquire(self: &Arc<Self>, space: &Space, cost: u32) -> Acquisition {
        self.acquire_or_queue(space, cost, self.bound.queue)
    }

    /// The same for somebody who was let in before and cannot be refused any more.
    pub fn try_reacquire(self: &Arc<Self>, space: &Space, cost: u32) -> Acquisition {
        self.acquire_or_queue(space, cost, usize::MAX)
    }

    /// Counts a refusal: also that of somebody who has waited long enough.
    pub fn count_rejected(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What it looks like now.
    pub fn stats(&self) -> SeatStats {
        let state = self.lock();
        SeatStats {
            used: self.bound.total - state.free,
            waiting: state.waiting,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn acquire_or_queue(self: &Arc<Self>, space: &Space, cost: u32, queue: usize) -> Acquisition {
        let cost = cost.clamp(1, self.bound.each);
        let mut state = self.lock();
        if state.take(space, cost, self.bound.each) {
            drop(state);
            return Acquisition::Acquired(self.seat(space.clone(), cost));
        }
        let Some((number, seat)) = state.enqueue(space, cost, self.bound.each, queue) else {
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

    /// Seats those whose turn it is, as far as there are seats.
    ///
    /// They are told without the lock: who has gone in the meantime gives the seat back here.
    fn seat_next(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.bound.each);
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
    /// Takes seats at once, unless somebody waits who comes first.
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

    /// The next who gets a seat, which is taken for them.
    fn next(&mut self, each: u32) -> Option<(Space, QueuedRequest)> {
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
        self.update_ready(&space, each);
        Some((space, queued))
    }

    fn release(&mut self, space: Space, cost: u32, each: u32) {
        self.free += cost;
        let Entry::Occupied(mut entry) = self.queues.entry(space) else {
            return;
        };
        let space_queue = entry.get_mut();
        space_queue.used -= cost;
        // Nearly always nobody waits: then it is done with one look.
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
        // Without a place it has a seat already, which is given back like any other.
        if let Some(place) = place {
            space_queue.queue.remove(place);
            self.waiting -= 1;
            self.update_ready(space, each);
        }
    }

    /// Makes true of a space what must be: it has a turn if and only if its first could sit
    /// down, and it is remembered if and only if there is something to remember.
    fn update_ready(&mut self, space: &Space, each: u32) {
        let Some(space_queue) = self.queues.get_mut(space) else {
            return;
        };
        let first = space_queue.queue.front();
        let ready = first.is_some_and(|first| space_queue.used + first.cost <= each);
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
        let mut state = self.pool.lock();
        let space = std::mem::replace(&mut self.space, Space::System);
        state.release(space, self.cost, self.pool.bound.each);
        let waited_for = !state.ready.is_empty();
        drop(state);
        if waited_for {
            self.pool.seat_next();
        }
    }
}

impl Future for Waiting {
    /// `None` cannot be: the pool is there as long as somebody waits.
    type Output = Option<Seat>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.seat).poll(context).map(Result::ok)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.cancel(&self.space, self.number, self.pool.bound.each);
        drop(state);
        // Who stood behind it may need fewer seats.
        self.pool.seat_next();
    }
}

#[cfg(test)]
mod tests;
