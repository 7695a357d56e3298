//! Turns of large answers.
//!
//! An answer that is already decided still has to be put together, encrypted and sent, and
//! for a large one that is most of the work. So it takes a heavy seat for as long as its
//! client keeps up, but never for longer than a [`SLICE`]: then it asks again, and waits if
//! somebody else does. A client that reads slowly holds a seat for one slice of a piece, not
//! for the whole answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use insula_core::Space;
use tokio::task::AbortHandle;

use super::pool::{Arrival, Pool, Seat, Waiting};

/// How long a turn lasts: some megabytes, so that asking again costs nothing beside it.
const SLICE: Duration = Duration::from_millis(5);

/// Where an answer gets its turns.
#[derive(Debug)]
pub struct Turns {
    pool: Arc<Pool>,
    space: Space,
    turn: Turn,
}

/// Where an answer stands.
#[derive(Debug, Default)]
enum Turn {
    /// It has none.
    #[default]
    Over,
    /// It waits for one.
    Waits(Waiting),
    /// It has one.
    Lasts(Lease),
}

/// A seat for a slice of time.
#[derive(Debug)]
struct Lease {
    seat: Arc<Mutex<Option<Seat>>>,
    end: AbortHandle,
}

impl Turns {
    /// Of this space.
    pub(super) const fn new(pool: Arc<Pool>, space: Space) -> Self {
        Self {
            pool,
            space,
            turn: Turn::Over,
        }
    }

    /// Is ready while it is this answer's turn.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.turn {
                Turn::Lasts(lease) if lease.lasts() => return Poll::Ready(()),
                Turn::Lasts(_) => self.turn = Turn::Over,
                Turn::Waits(waiting) => {
                    let seat = ready!(Pin::new(waiting).poll(context));
                    self.turn = seat.map_or(Turn::Over, |seat| Turn::Lasts(Lease::begin(seat)));
                }
                Turn::Over => {
                    self.turn = match self.pool.come_again(&self.space, 1) {
                        Arrival::Seated(seat) => Turn::Lasts(Lease::begin(seat)),
                        Arrival::Waiting(waiting) => Turn::Waits(waiting),
                        Arrival::Refused => return Poll::Ready(()),
                    }
                }
            }
        }
    }
}

impl Lease {
    fn begin(seat: Seat) -> Self {
        let seat = Arc::new(Mutex::new(Some(seat)));
        let held = Arc::clone(&seat);
        // The answer itself is not asked for more while its client takes nothing, so that
        // somebody else has to look at the clock. There are as many of these as seats.
        let end = tokio::spawn(async move {
            tokio::time::sleep(SLICE).await;
            drop(take(&held));
        });
        Self {
            seat,
            end: end.abort_handle(),
        }
    }

    fn lasts(&self) -> bool {
        let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        seat.is_some()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(take(&self.seat));
        self.end.abort();
    }
}

fn take(seat: &Mutex<Option<Seat>>) -> Option<Seat> {
    seat.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;

    use super::super::pool::Bound;
    use super::*;

    fn two() -> (Arc<Pool>, Turns, Turns) {
        let pool = Pool::new(Bound {
            total: 1,
            each: 1,
            queue: 0,
        });
        let turns = |name| Turns::new(Arc::clone(&pool), Space::parse(name).unwrap());
        let (one, other) = (turns("t1"), turns("t2"));
        (pool, one, other)
    }

    async fn turn(turns: &mut Turns) {
        let turn = poll_fn(|context| turns.poll(context));
        let in_time = tokio::time::timeout(Duration::from_secs(20), turn).await;
        assert_eq!(in_time, Ok(()));
    }

    fn has_turn(turns: &mut Turns) -> bool {
        poll_fn(|context| turns.poll(context))
            .now_or_never()
            .is_some()
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_holds_a_seat_for_one_slice() {
        let (_pool, mut slow, mut other) = two();
        assert!(has_turn(&mut slow));
        // Nobody asks the slow one for more, and the other gets its turn all the same.
        turn(&mut other).await;
        assert!(!has_turn(&mut slow));
        drop(other);
        assert!(has_turn(&mut slow));
    }

    #[tokio::test]
    async fn answers_of_two_spaces_take_turns() {
        let (_pool, mut one, mut other) = two();
        for _ in 0..3 {
            turn(&mut one).await;
            turn(&mut other).await;
        }
    }

    #[tokio::test]
    async fn an_answer_that_ends_gives_its_seat_back_at_once() {
        let (pool, mut one, mut other) = two();
        assert!(has_turn(&mut one) && !has_turn(&mut other));
        drop(one);
        assert!(has_turn(&mut other));
        drop(other);
        let glance = pool.glance();
        assert_eq!((glance.used, glance.waiting), (0, 0));
    }
}
