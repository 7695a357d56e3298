//! A fair share for every space, so that nobody's flood is somebody else's drought.
//!
//! A request takes a [`Seat`] before it does its work and gives it back when its answer is
//! made. Seats are of several sorts, because different things run out:
//!
//! - *reads* and *writes* mostly wait, for the store: many may do so at once.
//! - *heavy* reads do not wait, they keep a core busy: as many run as leave one core free.
//!   So do the bodies of large answers, which take [`TimeSlices`] of a few milliseconds.
//! - *bodies* of requests lie in memory.
//! - *watches* stay.
//!
//! Who is charged is the space that the caller belongs to. That is the space the request is
//! about, except for the system's own people, who work in tenants' spaces too: they neither
//! use up a tenant's share nor wait behind its queue.

pub mod connection_tracker;
pub mod cpu_bound;
mod limits;
mod pool;
mod time_slice;

use std::sync::Arc;
use std::time::Duration;

use insula_core::Space;

pub use limits::{Connections, Limits};
pub use pool::{Bound, Seat, SeatStats};
pub use time_slice::TimeSlices;

use crate::status::{Result, StatusError};
use pool::{Acquisition, Pool};

/// What a request is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// To read so many objects.
    Read {
        /// How many, or more than matter.
        objects: usize,
    },
    /// To change so many objects.
    Write {
        /// How many, or more than matter.
        objects: usize,
    },
    /// To receive a body.
    Receive {
        /// Its length, or the most that it may have.
        bytes: u64,
    },
}

/// All seats of a server.
#[derive(Clone, Debug)]
pub struct FlowControl {
    reads: Arc<Pool>,
    heavy: Arc<Pool>,
    writes: Arc<Pool>,
    bodies: Arc<Pool>,
    watches: Arc<Pool>,
    queue_timeout: Duration,
}

/// From how many objects on a read is heavy. An object of a list takes 1.6 us, or ten as a
/// row of a table: so what is not heavy takes a millisecond at most.
pub const HEAVY: usize = 100;

/// The seats of a write that changes many objects: it has about that many in the store at
/// once, as Kubernetes counts the work of a request from one to ten.
const MAX_WRITE_SEATS: u32 = 10;

/// What one seat for bodies stands for.
const BODY_SEAT_BYTES: u64 = 64 << 10;

impl FlowControl {
    /// All seats are free.
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

    /// A seat for this work, at once or when it is the space's turn.
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

    /// A seat for work that keeps a core busy, whatever it is about.
    pub async fn acquire_heavy(&self, space: &Space) -> Result<Seat> {
        self.acquire(space, Work::Read { objects: HEAVY }).await
    }

    /// The right to have one watch more.
    pub fn acquire_watch(&self, space: &Space) -> Result<Seat> {
        match self.watches.try_acquire(space, 1) {
            Acquisition::Acquired(seat) => Ok(seat),
            Acquisition::Waiting(_) | Acquisition::Rejected => Err(StatusError::overloaded()),
        }
    }

    /// What a large answer takes turns with.
    pub fn time_slices(&self, space: &Space) -> TimeSlices {
        TimeSlices::new(Arc::clone(&self.heavy), space.clone())
    }

    /// Every sort of seats, by name.
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
    /// Whether it keeps a core busy.
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
    fn work_is_paid_for_by_what_it_uses_up() {
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
    async fn who_waits_too_long_or_in_too_long_a_queue_is_told_to_come_back() {
        let flow_control = Arc::new(FlowControl::new(&small()));
        let work = Work::Read { objects: HEAVY };
        let seat = flow_control.acquire(&Space::System, work).await.unwrap();
        let (first, second) = tokio::join!(
            flow_control.acquire(&Space::System, work),
            flow_control.acquire(&Space::System, work),
        );
        for refused in [first, second] {
            let refusal = refused.unwrap_err();
            assert_eq!((refusal.code, refusal.retry_after), (429, Some(1)));
            assert_eq!(
                refusal.plain,
                Some("Too many requests, please try again later.\n")
            );
        }
        let stats = flow_control.heavy.stats();
        assert_eq!((stats.used, stats.waiting, stats.refused), (1, 0, 2));
        drop(seat);
        assert!(flow_control.acquire(&Space::System, work).await.is_ok());
    }
}
