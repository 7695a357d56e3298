//! Laws of the seats.

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

fn waits(arrival: Acquisition) -> Waiting {
    match arrival {
        Acquisition::Waiting(waiting) => waiting,
        other => panic!("{other:?}"),
    }
}

fn sits(arrival: Acquisition) -> Seat {
    match arrival {
        Acquisition::Acquired(seat) => seat,
        other => panic!("{other:?}"),
    }
}

#[test]
fn request_of_another_space_is_next_regardless_of_queue_lengths() {
    let pool = pool(1, 1, 100);
    let first = sits(pool.try_acquire(&space(1), 1));
    let mut flood: Vec<_> = (0..50)
        .map(|_| waits(pool.try_acquire(&space(1), 1)))
        .collect();
    let mut neighbour = waits(pool.try_acquire(&space(2), 1));
    drop(first);
    // The flood has had its share already.
    assert!((&mut flood[0]).now_or_never().is_none());
    let seat = (&mut neighbour).now_or_never().flatten().unwrap();
    let mut third = waits(pool.try_acquire(&space(3), 1));
    drop(seat);
    // It has waited longest now, and then it is over again.
    let seat = (&mut flood[0]).now_or_never().flatten().unwrap();
    assert!((&mut third).now_or_never().is_none());
    drop(seat);
    assert!((&mut third).now_or_never().flatten().is_some());
}

#[test]
fn space_is_limited_without_delaying_other_spaces() {
    let pool = pool(4, 2, 100);
    let _mine = [1, 2].map(|_| sits(pool.try_acquire(&space(1), 1)));
    let _third = waits(pool.try_acquire(&space(1), 1));
    let _other = sits(pool.try_acquire(&space(2), 2));
    assert_eq!(pool.stats().used, 4);
}

#[test]
fn costly_request_is_not_starved() {
    let pool = pool(4, 4, 100);
    let mut small: Vec<_> = (0..4)
        .map(|_| sits(pool.try_acquire(&space(1), 1)))
        .collect();
    let mut large = waits(pool.try_acquire(&space(2), 4));
    for _ in 0..3 {
        small.pop();
        // It would fit, but it comes later.
        drop(waits(pool.try_acquire(&space(3), 1)));
        assert!((&mut large).now_or_never().is_none());
    }
    small.pop();
    assert!((&mut large).now_or_never().flatten().is_some());
}

#[test]
fn full_queue_rejects_requests() {
    let pool = pool(1, 1, 2);
    let _seat = sits(pool.try_acquire(&space(1), 1));
    let _queue = [1, 2].map(|_| waits(pool.try_acquire(&space(1), 1)));
    assert!(matches!(
        pool.try_acquire(&space(1), 1),
        Acquisition::Rejected
    ));
    // It is that space's queue that is full.
    let _other = waits(pool.try_acquire(&space(2), 1));
    assert_eq!(
        pool.stats(),
        SeatStats {
            used: 1,
            waiting: 3,
            refused: 1
        }
    );
}

#[test]
fn seat_of_a_cancelled_waiter_is_released() {
    let pool = pool(1, 1, 2);
    let seat = sits(pool.try_acquire(&space(1), 1));
    let waiting = waits(pool.try_acquire(&space(2), 1));
    drop(seat);
    assert_eq!(pool.stats().used, 1);
    drop(waiting);
    assert_eq!(pool.stats().used, 0);
    assert!(pool.lock().queues.is_empty());
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

/// The externally observable state of a pool.
struct Model {
    pool: Arc<Pool>,
    seated: Vec<(usize, Seat)>,
    waiting: Vec<(usize, Waiting)>,
    /// For each ready space, the spaces that got a seat since it became ready.
    passed_by: HashMap<usize, Vec<usize>>,
}

impl Model {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Arrive { space: of, cost } => match self.pool.try_acquire(&space(of), cost) {
                Acquisition::Acquired(seat) => {
                    // No new request gets a seat while a ready one waits.
                    assert_eq!(self.passed_by.len(), 0);
                    self.seated.push((of, seat));
                }
                Acquisition::Waiting(waiting) => self.waiting.push((of, waiting)),
                Acquisition::Rejected => {}
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
        let ready = |of: &usize| state.ready.contains(&space(*of));
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
            let known = state.queues.contains_key(&space(of));
            assert_eq!(known, mine > 0 || queued > 0);
        }
        for passed in self.passed_by.values() {
            for of in passed {
                let times = passed.iter().filter(|other| *other == of).count();
                assert!(times <= 1, "t{of} was seated {times} times in one round");
            }
        }
        // No request waits while enough seats are free.
        let first = state.ready.front().map(|of| &state.queues[of].queue[0]);
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
        prop_assert!(state.queues.is_empty() && state.ready.is_empty());
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
                match pool.try_acquire(&space((number % 4) as usize), (odd % 3) as u32) {
                    Acquisition::Waiting(waiting) if odd % 5 == 0 => {
                        tokio::task::yield_now().await;
                        drop(waiting);
                    }
                    Acquisition::Waiting(waiting) => drop(waiting.await),
                    Acquisition::Acquired(seat) => {
                        tokio::task::yield_now().await;
                        drop(seat);
                    }
                    Acquisition::Rejected => tokio::task::yield_now().await,
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.used, stats.waiting), (0, 0));
    assert!(pool.lock().queues.is_empty());
}
