//! Flow control: fair queues per space, so that one space's load does not delay another's.
//!
//! A request acquires a [`Seat`] before it does its work and releases it when its response is
//! built. There are several pools of seats, one per resource that can run out:
//!
//! - *reads* and *writes* mostly wait for the store, so many may run at once.
//! - *heavy* reads keep a core busy: as many run as leave one core free. The bodies of large
//!   responses use the same pool, in [`TimeSlices`] of a few milliseconds.
//! - *bodies* of requests occupy memory.
//! - *watches* are long-lived.
//!
//! Beside seats, a space has a share of the memory for responses that are not yet sent
//! ([`unsent`]).
//!
//! A request is charged to the home space of its caller. That is the requested space, except
//! for system principals, who also work in tenants' spaces: they neither use a tenant's seats
//! nor wait in its queue.

pub mod connection_tracker;
pub mod cpu_bound;
mod limits;
mod pool;
mod time_slice;
pub mod unsent;

use std::sync::Arc;
use std::time::Duration;

use insula_core::Space;

pub use limits::{Connections, Limits, Unsent};
pub use pool::{Bound, Seat, SeatStats};
pub use time_slice::TimeSlices;

use crate::status::{Result, StatusError};
use pool::{Acquisition, Pool};

/// The work of a request, from which its cost follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A read.
    Read {
        /// The number of objects, or an upper bound.
        objects: usize,
    },
    /// A write.
    Write {
        /// The number of objects, or an upper bound.
        objects: usize,
    },
    /// The transfer of a request body.
    Receive {
        /// The length of the body, or its upper bound.
        bytes: u64,
    },
}

/// The seat pools of a server.
#[derive(Clone, Debug)]
pub struct FlowControl {
    reads: Arc<Pool>,
    heavy: Arc<Pool>,
    writes: Arc<Pool>,
    bodies: Arc<Pool>,
    watches: Arc<Pool>,
    queue_timeout: Duration,
}

/// The number of objects from which a read is heavy. An object of a list takes 1.6 us, or ten
/// as a row of a table, so a read below this bound takes a millisecond at most.
pub const HEAVY: usize = 100;

/// The most seats of one write: a write of many objects has about this many in the store at
/// once. Kubernetes also counts one to ten seats per request.
const MAX_WRITE_SEATS: u32 = 10;

/// The bytes that one seat of the body pool stands for.
const BODY_SEAT_BYTES: u64 = 64 << 10;

impl FlowControl {
    /// Creates the pools, with all seats free.
    pub fn new(limits: &Limits) -> Self {
        Self {
            reads: Pool::new(limits.reads),
            heavy: Pool::new(limits.heavy),
            writes: Pool::new(limits.writes),
            bodies: Pool::new(limits.bodies),
            watches: Pool::new(limits.watches),
            queue_timeout: limits.queue_timeout,
        }
    }

    /// Acquires the seats for this work, at once or when it is the space's turn.
    pub async fn acquire(&self, space: &Space, work: Work) -> Result<Seat> {
        let (pool, cost) = self.pool_and_cost(work);
        match pool.try_acquire(space, cost) {
            Acquisition::Acquired(seat) => Ok(seat),
            Acquisition::Rejected => Err(StatusError::overloaded()),
            Acquisition::Waiting(waiting) => {
                let seated = tokio::time::timeout(self.queue_timeout, waiting).await;
                seated.ok().flatten().ok_or_else(|| {
                    pool.count_rejected();
                    StatusError::overloaded()
                })
            }
        }
    }

    /// Acquires a seat for CPU-bound work.
    pub async fn acquire_heavy(&self, space: &Space) -> Result<Seat> {
        self.acquire(space, Work::Read { objects: HEAVY }).await
    }

    /// Acquires the seat of a watch, without waiting.
    pub fn acquire_watch(&self, space: &Space) -> Result<Seat> {
        match self.watches.try_acquire(space, 1) {
            Acquisition::Acquired(seat) => Ok(seat),
            Acquisition::Waiting(_) | Acquisition::Rejected => Err(StatusError::overloaded()),
        }
    }

    /// Returns the time slices in which a large response is sent.
    pub fn time_slices(&self, space: &Space) -> TimeSlices {
        TimeSlices::new(Arc::clone(&self.heavy), space.clone())
    }

    /// Returns the statistics of every pool, by name.
    pub fn seat_stats(&self) -> [(&'static str, SeatStats); 5] {
        [
            ("read", self.reads.stats()),
            ("heavy_read", self.heavy.stats()),
            ("write", self.writes.stats()),
            ("body", self.bodies.stats()),
            ("watch", self.watches.stats()),
        ]
    }

    fn pool_and_cost(&self, work: Work) -> (&Arc<Pool>, u32) {
        match work {
            Work::Read { .. } if work.is_heavy() => (&self.heavy, 1),
            Work::Read { .. } => (&self.reads, 1),
            Work::Write { objects } => {
                let objects = u32::try_from(objects).unwrap_or(MAX_WRITE_SEATS);
                (&self.writes, objects.clamp(1, MAX_WRITE_SEATS))
            }
            Work::Receive { bytes } => {
                let units = u32::try_from(bytes.div_ceil(BODY_SEAT_BYTES)).unwrap_or(u32::MAX);
                (&self.bodies, units)
            }
        }
    }
}

impl Work {
    /// Whether the work is CPU-bound.
    pub const fn is_heavy(self) -> bool {
        matches!(self, Self::Read { objects } if objects >= HEAVY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Limits {
        Limits {
            heavy: Bound {
                total: 1,
                each: 1,
                queue: 1,
            },
            queue_timeout: Duration::from_millis(20),
            ..Limits::default()
        }
    }

    #[test]
    fn cost_of_work_follows_from_the_resource_it_uses() {
        let flow_control = FlowControl::new(&Limits::default());
        let priced = |work| {
            let (pool, cost) = flow_control.pool_and_cost(work);
            let pools = [
                &flow_control.reads,
                &flow_control.heavy,
                &flow_control.writes,
                &flow_control.bodies,
            ];
            let names = ["reads", "heavy", "writes", "bodies"];
            let place = pools.iter().position(|of| Arc::ptr_eq(of, pool)).unwrap();
            (names[place], cost)
        };
        for (work, pool_and_cost) in [
            (Work::Read { objects: 0 }, ("reads", 1)),
            (Work::Read { objects: HEAVY - 1 }, ("reads", 1)),
            (Work::Read { objects: HEAVY }, ("heavy", 1)),
            (
                Work::Read {
                    objects: usize::MAX,
                },
                ("heavy", 1),
            ),
            (Work::Write { objects: 0 }, ("writes", 1)),
            (Work::Write { objects: 7 }, ("writes", 7)),
            (
                Work::Write {
                    objects: usize::MAX,
                },
                ("writes", 10),
            ),
            (Work::Receive { bytes: 0 }, ("bodies", 0)),
            (Work::Receive { bytes: 3 << 20 }, ("bodies", 48)),
            (Work::Receive { bytes: u64::MAX }, ("bodies", u32::MAX)),
        ] {
            assert_eq!(priced(work), pool_and_cost, "{work:?}");
        }
    }

    #[tokio::test]
    async fn request_gets_429_when_its_queue_is_full_or_its_wait_times_out() {
        let flow_control = Arc::new(FlowControl::new(&small()));
        let work = Work::Read { objects: HEAVY };
        let seat = flow_control.acquire(&Space::System, work).await.unwrap();
        let (first, second) = tokio::join!(
            flow_control.acquire(&Space::System, work),
            flow_control.acquire(&Space::System, work),
        );
        for rejected in [first, second] {
            let error = rejected.unwrap_err();
            assert_eq!((error.code, error.retry_after), (429, Some(1)));
            assert_eq!(
                error.plain,
                Some("Too many requests, please try again later.\n")
            );
        }
        let stats = flow_control.heavy.stats();
        assert_eq!((stats.used, stats.waiting, stats.refused), (1, 0, 2));
        drop(seat);
        assert!(flow_control.acquire(&Space::System, work).await.is_ok());
    }
}
