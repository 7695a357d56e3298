//! Time slices for sending large responses.
//!
//! Encoding, encrypting and sending a large response is most of the work of its request. So
//! the response holds a heavy seat while its client keeps up, but never for longer than
//! [`SLICE_DURATION`]: then it acquires a seat again, and waits if other spaces do. A client
//! that reads slowly holds a seat for one slice per chunk, not for the whole response.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use insula_core::Space;
use tokio::task::AbortHandle;

use super::pool::{Acquisition, Pool, Seat, Waiting};

/// How long a slice lasts: some megabytes, so that the cost of acquiring a seat is negligible.
const SLICE_DURATION: Duration = Duration::from_millis(5);

/// The time slices of one response.
#[derive(Debug)]
pub struct TimeSlices {
    pool: Arc<Pool>,
    space: Space,
    slice: Slice,
}

/// The state of a response's current slice.
#[derive(Debug, Default)]
enum Slice {
    /// The response has no seat.
    #[default]
    Idle,
    /// The response waits for a seat.
    Waiting(Waiting),
    /// The response has a seat.
    Running(Lease),
}

/// A seat that is released after one slice.
#[derive(Debug)]
struct Lease {
    seat: Arc<Mutex<Option<Seat>>>,
    end: AbortHandle,
}

impl TimeSlices {
    /// Creates the time slices of a response to a caller of `space`.
    pub(super) const fn new(pool: Arc<Pool>, space: Space) -> Self {
        Self {
            pool,
            space,
            slice: Slice::Idle,
        }
    }

    /// Is ready while the response has a seat.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.slice {
                Slice::Running(lease) if lease.is_running() => return Poll::Ready(()),
                Slice::Running(_) => self.slice = Slice::Idle,
                Slice::Waiting(waiting) => {
                    let seat = ready!(Pin::new(waiting).poll(context));
                    self.slice =
                        seat.map_or(Slice::Idle, |seat| Slice::Running(Lease::begin(seat)));
                }
                Slice::Idle => {
                    self.slice = match self.pool.try_reacquire(&self.space, 1) {
                        Acquisition::Acquired(seat) => Slice::Running(Lease::begin(seat)),
                        Acquisition::Waiting(waiting) => Slice::Waiting(waiting),
                        Acquisition::Rejected => return Poll::Ready(()),
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
        // The body is not polled while its client reads nothing, so a task of its own ends
        // the slice. There are at most as many of these tasks as seats.
        let end = tokio::spawn(async move {
            tokio::time::sleep(SLICE_DURATION).await;
            drop(take(&held));
        });
        Self {
            seat,
            end: end.abort_handle(),
        }
    }

    fn is_running(&self) -> bool {
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

    fn two() -> (Arc<Pool>, TimeSlices, TimeSlices) {
        let pool = Pool::new(Bound {
            total: 1,
            each: 1,
            queue: 0,
        });
        let slices = |name| TimeSlices::new(Arc::clone(&pool), Space::parse(name).unwrap());
        let (one, other) = (slices("t1"), slices("t2"));
        (pool, one, other)
    }

    async fn slice(slices: &mut TimeSlices) {
        let slice = poll_fn(|context| slices.poll(context));
        let in_time = tokio::time::timeout(Duration::from_secs(20), slice).await;
        assert_eq!(in_time, Ok(()));
    }

    fn has_slice(slices: &mut TimeSlices) -> bool {
        poll_fn(|context| slices.poll(context))
            .now_or_never()
            .is_some()
    }

    #[tokio::test]
    async fn client_that_reads_nothing_holds_a_seat_for_one_slice() {
        let (_pool, mut slow, mut other) = two();
        assert!(has_slice(&mut slow));
        // The slow response is not polled, and the other still gets a slice.
        slice(&mut other).await;
        assert!(!has_slice(&mut slow));
        drop(other);
        assert!(has_slice(&mut slow));
    }

    #[tokio::test]
    async fn responses_of_two_spaces_alternate() {
        let (_pool, mut one, mut other) = two();
        for _ in 0..3 {
            slice(&mut one).await;
            slice(&mut other).await;
        }
    }

    #[tokio::test]
    async fn finished_response_releases_its_seat_at_once() {
        let (pool, mut one, mut other) = two();
        assert!(has_slice(&mut one) && !has_slice(&mut other));
        drop(one);
        assert!(has_slice(&mut other));
        drop(other);
        let stats = pool.stats();
        assert_eq!((stats.used, stats.waiting), (0, 0));
    }
}
