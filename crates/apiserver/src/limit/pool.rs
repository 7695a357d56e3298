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
    lanes: HashMap<Space, Lane>,
    /// The spaces whose first in the queue may have a seat once enough are free.
    turns: VecDeque<Space>,
    waiting: usize,
    tickets: u64,
}

/// Those of one space.
#[derive(Debug, Default)]
struct Lane {
    used: u32,
    queue: VecDeque<Ticket>,
    /// Whether it is among the turns: its first would not exceed what one space may have.
    has_turn: bool,
}

#[derive(Debug)]
struct Ticket {
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
pub enum Arrival {
    /// A seat was free.
    Seated(Seat),
    /// None was: this is done when there is one.
    Waiting(Waiting),
    /// Too many wait already.
    Refused,
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
pub struct Glance {
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
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            tickets: 0,
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
    pub fn arrive(self: &Arc<Self>, space: &Space, cost: u32) -> Arrival {
        self.come(space, cost, self.bound.queue)
    }

    /// The same for somebody who was let in before and cannot be refused any more.
    pub fn come_again(self: &Arc<Self>, space: &Space, cost: u32) -> Arrival {
        self.come(space, cost, usize::MAX)
    }

    /// Counts a refusal: also that of somebody who has waited long enough.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What it looks like now.
    pub fn glance(&self) -> Glance {
        let state = self.lock();
        Glance {
            used: self.bound.total - state.free,
            waiting: state.waiting,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn come(self: &Arc<Self>, space: &Space, cost: u32, queue: usize) -> Arrival {
        let cost = cost.clamp(1, self.bound.each);
        let mut state = self.lock();
        if state.take(space, cost, self.bound.each) {
            drop(state);
            return Arrival::Seated(self.seat(space.clone(), cost));
        }
        let Some((number, seat)) = state.queue_up(space, cost, self.bound.each, queue) else {
            drop(state);
            self.refuse();
            return Arrival::Refused;
        };
        drop(state);
        Arrival::Waiting(Waiting {
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
            let Some((space, ticket)) = next else {
                return;
            };
            drop(ticket.seat.send(self.seat(space, ticket.cost)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes seats at once, unless somebody waits who comes first.
    fn take(&mut self, space: &Space, cost: u32, each: u32) -> bool {
        if self.free < cost || !self.turns.is_empty() {
            return false;
        }
        match self.lanes.entry(space.clone()) {
            Entry::Vacant(lane) => {
                lane.insert(Lane::default()).used = cost;
            }
            Entry::Occupied(mut lane) => {
                let lane = lane.get_mut();
                if !lane.queue.is_empty() || lane.used + cost > each {
                    return false;
                }
                lane.used += cost;
            }
        }
        self.free -= cost;
        true
    }

    fn queue_up(
        &mut self,
        space: &Space,
        cost: u32,
        each: u32,
        queue: usize,
    ) -> Option<(u64, oneshot::Receiver<Seat>)> {
        let waiting = self.lanes.get(space).map_or(0, |lane| lane.queue.len());
        if waiting >= queue {
            return None;
        }
        let (seat, receiver) = oneshot::channel();
        let number = self.tickets;
        self.tickets += 1;
        self.waiting += 1;
        let lane = self.lanes.entry(space.clone()).or_default();
        lane.queue.push_back(Ticket { number, cost, seat });
        self.settle(space, each);
        Some((number, receiver))
    }

    /// The next who gets a seat, which is taken for them.
    fn next(&mut self, each: u32) -> Option<(Space, Ticket)> {
        let lane = self.lanes.get_mut(self.turns.front()?)?;
        if lane.queue.front()?.cost > self.free {
            return None;
        }
        let ticket = lane.queue.pop_front()?;
        lane.used += ticket.cost;
        lane.has_turn = false;
        self.free -= ticket.cost;
        self.waiting -= 1;
        let space = self.turns.pop_front()?;
        self.settle(&space, each);
        Some((space, ticket))
    }

    fn give_back(&mut self, space: Space, cost: u32, each: u32) {
        self.free += cost;
        let Entry::Occupied(mut entry) = self.lanes.entry(space) else {
            return;
        };
        let lane = entry.get_mut();
        lane.used -= cost;
        // Nearly always nobody waits: then it is done with one look.
        if !lane.queue.is_empty() {
            let space = entry.key().clone();
            self.settle(&space, each);
        } else if lane.used == 0 {
            entry.remove();
        }
    }

    fn leave(&mut self, space: &Space, number: u64, each: u32) {
        let Some(lane) = self.lanes.get_mut(space) else {
            return;
        };
        let place = lane.queue.iter().position(|one| one.number == number);
        // Without a place it has a seat already, which is given back like any other.
        if let Some(place) = place {
            lane.queue.remove(place);
            self.waiting -= 1;
            self.settle(space, each);
        }
    }

    /// Makes true of a space what must be: it has a turn if and only if its first could sit
    /// down, and it is remembered if and only if there is something to remember.
    fn settle(&mut self, space: &Space, each: u32) {
        let Some(lane) = self.lanes.get_mut(space) else {
            return;
        };
        let first = lane.queue.front();
        let ready = first.is_some_and(|first| lane.used + first.cost <= each);
        match (lane.has_turn, ready) {
            (false, true) => self.turns.push_back(space.clone()),
            (true, false) => self.turns.retain(|of| of != space),
            _ => {}
        }
        lane.has_turn = ready;
        if lane.used == 0 && lane.queue.is_empty() {
            self.lanes.remove(space);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        let space = std::mem::replace(&mut self.space, Space::System);
        state.give_back(space, self.cost, self.pool.bound.each);
        let waited_for = !state.turns.is_empty();
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
        state.leave(&self.space, self.number, self.pool.bound.each);
        drop(state);
        // Who stood behind it may need fewer seats.
        self.pool.seat_next();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;

    fn space(number: usize) -> Space {
        Space::parse(&format!("t{number}")).unwrap()
    }

    fn pool(total: u32, each: u32, queue: usize) -> Arc<Pool> {
        Pool::new(Bound { total, each, queue })
    }

    fn waits(arrival: Arrival) -> Waiting {
        match arrival {
            Arrival::Waiting(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    fn sits(arrival: Arrival) -> Seat {
        match arrival {
            Arrival::Seated(seat) => seat,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_comes_last_from_another_space_is_next_however_many_wait() {
        let pool = pool(1, 1, 100);
        let first = sits(pool.arrive(&space(1), 1));
        let mut flood: Vec<_> = (0..50).map(|_| waits(pool.arrive(&space(1), 1))).collect();
        let mut neighbour = waits(pool.arrive(&space(2), 1));
        drop(first);
        // The flood has had its share already.
        assert!((&mut flood[0]).now_or_never().is_none());
        let seat = (&mut neighbour).now_or_never().flatten().unwrap();
        let mut third = waits(pool.arrive(&space(3), 1));
        drop(seat);
        // It has waited longest now, and then it is over again.
        let seat = (&mut flood[0]).now_or_never().flatten().unwrap();
        assert!((&mut third).now_or_never().is_none());
        drop(seat);
        assert!((&mut third).now_or_never().flatten().is_some());
    }

    #[test]
    fn a_space_never_has_more_than_its_share_and_others_need_not_wait_for_it() {
        let pool = pool(4, 2, 100);
        let _mine = [1, 2].map(|_| sits(pool.arrive(&space(1), 1)));
        let _third = waits(pool.arrive(&space(1), 1));
        let _other = sits(pool.arrive(&space(2), 2));
        assert_eq!(pool.glance().used, 4);
    }

    #[test]
    fn costly_work_is_not_overtaken_for_ever() {
        let pool = pool(4, 4, 100);
        let mut small: Vec<_> = (0..4).map(|_| sits(pool.arrive(&space(1), 1))).collect();
        let mut large = waits(pool.arrive(&space(2), 4));
        for _ in 0..3 {
            small.pop();
            // It would fit, but it comes later.
            drop(waits(pool.arrive(&space(3), 1)));
            assert!((&mut large).now_or_never().is_none());
        }
        small.pop();
        assert!((&mut large).now_or_never().flatten().is_some());
    }

    #[test]
    fn a_queue_has_an_end() {
        let pool = pool(1, 1, 2);
        let _seat = sits(pool.arrive(&space(1), 1));
        let _queue = [1, 2].map(|_| waits(pool.arrive(&space(1), 1)));
        assert!(matches!(pool.arrive(&space(1), 1), Arrival::Refused));
        // It is that space's queue that is full.
        let _other = waits(pool.arrive(&space(2), 1));
        assert_eq!(
            pool.glance(),
            Glance {
                used: 1,
                waiting: 3,
                refused: 1
            }
        );
    }

    #[test]
    fn a_seat_that_nobody_fetched_is_free_again() {
        let pool = pool(1, 1, 2);
        let seat = sits(pool.arrive(&space(1), 1));
        let waiting = waits(pool.arrive(&space(2), 1));
        drop(seat);
        assert_eq!(pool.glance().used, 1);
        drop(waiting);
        assert_eq!(pool.glance().used, 0);
        assert!(pool.lock().lanes.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive { space: usize, cost: u32 },
        Finish(usize),
        Leave(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..5_usize, 1..4_u32).prop_map(|(space, cost)| Step::Arrive { space, cost }),
            3 => any::<usize>().prop_map(Step::Finish),
            1 => any::<usize>().prop_map(Step::Leave),
        ];
        prop::collection::vec(step, 1..200)
    }

    /// What somebody who looks from outside can know.
    struct Model {
        pool: Arc<Pool>,
        seated: Vec<(usize, Seat)>,
        waiting: Vec<(usize, Waiting)>,
        /// For each space that has a turn: who was seated since it has.
        passed_by: HashMap<usize, Vec<usize>>,
    }

    impl Model {
        fn step(&mut self, step: &Step) {
            match *step {
                Step::Arrive { space: of, cost } => match self.pool.arrive(&space(of), cost) {
                    Arrival::Seated(seat) => {
                        // Nobody sits down while somebody waits who could.
                        assert_eq!(self.passed_by.len(), 0);
                        self.seated.push((of, seat));
                    }
                    Arrival::Waiting(waiting) => self.waiting.push((of, waiting)),
                    Arrival::Refused => {}
                },
                Step::Finish(which) if !self.seated.is_empty() => {
                    let which = which % self.seated.len();
                    drop(self.seated.swap_remove(which));
                }
                Step::Leave(which) if !self.waiting.is_empty() => {
                    let which = which % self.waiting.len();
                    drop(self.waiting.remove(which));
                }
                Step::Finish(_) | Step::Leave(_) => {}
            }
            self.fetch();
            self.check();
        }

        /// Looks who has got a seat, in the order of their tickets.
        fn fetch(&mut self) {
            let mut left = Vec::new();
            for (of, mut waiting) in self.waiting.drain(..) {
                match (&mut waiting).now_or_never() {
                    None => {
                        left.push((of, waiting));
                    }
                    Some(seat) => {
                        // First come, first served within a space.
                        assert!(left.iter().all(|(other, _)| *other != of));
                        self.seated.push((of, seat.unwrap()));
                        self.passed_by.remove(&of);
                        for passed in self.passed_by.values_mut() {
                            passed.push(of);
                        }
                    }
                }
            }
            self.waiting = left;
            let state = self.pool.lock();
            let ready = |of: &usize| state.turns.contains(&space(*of));
            self.passed_by.retain(|of, _| ready(of));
            for of in 0..5 {
                if ready(&of) {
                    self.passed_by.entry(of).or_default();
                }
            }
        }

        fn check(&self) {
            let state = self.pool.lock();
            let taken: u32 = self.seated.iter().map(|(_, seat)| seat.cost).sum();
            assert_eq!(taken + state.free, self.pool.bound.total);
            assert_eq!(state.waiting, self.waiting.len());
            for of in 0..5 {
                let mine = self.seated.iter().filter(|(owner, _)| *owner == of);
                let mine: u32 = mine.map(|(_, seat)| seat.cost).sum();
                let queued = self.waiting.iter().filter(|(owner, _)| *owner == of);
                let queued = queued.count();
                assert!(mine <= self.pool.bound.each);
                assert!(queued <= self.pool.bound.queue);
                let known = state.lanes.contains_key(&space(of));
                assert_eq!(known, mine > 0 || queued > 0);
            }
            for passed in self.passed_by.values() {
                for of in passed {
                    let times = passed.iter().filter(|other| *other == of).count();
                    assert!(times <= 1, "t{of} was seated {times} times in one round");
                }
            }
            // Nobody waits for nothing.
            let first = state.turns.front().map(|of| &state.lanes[of].queue[0]);
            assert!(first.is_none_or(|first| first.cost > state.free));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn seats_never_leak_and_no_space_is_passed_over_twice_in_a_round(
            total in 1..6_u32, each in 1..6_u32, queue in 0..6_usize, steps in steps(),
        ) {
            let mut model = Model {
                pool: pool(total, each, queue),
                seated: Vec::new(),
                waiting: Vec::new(),
                passed_by: HashMap::new(),
            };
            for step in &steps {
                model.step(step);
            }
            model.waiting.clear();
            model.seated.clear();
            let state = model.pool.lock();
            prop_assert_eq!(state.free, model.pool.bound.total);
            prop_assert!(state.lanes.is_empty() && state.turns.is_empty());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn seats_never_leak_when_many_threads_come_and_go() {
        let pool = pool(3, 2, 8);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..64_u64 {
            let pool = Arc::clone(&pool);
            tasks.spawn(async move {
                for round in 0..200 {
                    let odd = number.wrapping_mul(31).wrapping_add(round * 17);
                    match pool.arrive(&space((number % 4) as usize), (odd % 3) as u32) {
                        Arrival::Waiting(waiting) if odd % 5 == 0 => {
                            tokio::task::yield_now().await;
                            drop(waiting);
                        }
                        Arrival::Waiting(waiting) => drop(waiting.await),
                        Arrival::Seated(seat) => {
                            tokio::task::yield_now().await;
                            drop(seat);
                        }
                        Arrival::Refused => tokio::task::yield_now().await,
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let glance = pool.glance();
        assert_eq!((glance.used, glance.waiting), (0, 0));
        assert!(pool.lock().lanes.is_empty());
    }
}
