//! Flow control: fair queues per space, so that one space's load does not delay another's.
//!
//! A request acquires a [`Seat`] before it does its work and releases it when its response is
//! built. There are several pools of seats, one per resource that can run out:
//!
//! - *reads* and *writes* mostly wait for the store, so many may run at once.
//! - *heavy* reads keep a core busy: as many run as leave one core free. The bodies of large
//!   responses use the same pool, in [`TimeSlices`] of a few milliseconds.
//! - *bodies* of requests occupy memory, and so do the objects *decoded* from them.
//! - *watches* are long-lived.
//!
//! A tenant's requests are also limited in their rate ([`rate_limiter`]). What one space may have
//! of each pool is in [`LimitTable`], where a tenant's object overrides the defaults.
//!
//! Which threads serve a space depends on the CPU time that it uses ([`lanes`]).
//!
//! Beside seats, a space has a share of the memory for responses that are not yet sent
//! ([`unsent`]).
//!
//! A request is charged to the home space of its caller. That is the requested space, except
//! for system principals, who also work in tenants' spaces: they neither use a tenant's seats
//! nor wait in its queue.

mod address_shares;
pub mod client_address;
pub mod connection_tracker;
pub mod cpu_bound;
pub mod decoded;
pub mod handshake_turns;
pub mod lanes;
mod limits;
mod pool;
mod rate_limiter;
mod space_limits;
mod space_overrides;
mod time_slice;
pub mod unsent;

use std::sync::Arc;
use std::time::Duration;

use insula_core::Space;

pub use limits::{Connections, Limits, Unsent};
pub use pool::{Bound, Seat, SeatStats};
pub use space_limits::{LimitTable, LimitedResource, SpaceLimits, TenantLimits};
pub use space_overrides::SpaceOverrides;
pub use time_slice::TimeSlices;

use crate::status::{Result, StatusError};
use pool::{Acquisition, Pool};
use rate_limiter::RateLimiter;
use space_limits::SEAT_BYTES;

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
    /// Work with decoded objects.
    Decode {
        /// The memory that the objects need.
        bytes: usize,
    },
}

/// The seat pools of a server.
#[derive(Clone, Debug)]
pub struct FlowControl {
    reads: Arc<Pool>,
    heavy: Arc<Pool>,
    writes: Arc<Pool>,
    bodies: Arc<Pool>,
    decoded: Arc<Pool>,
    watches: Arc<Pool>,
    rates: Arc<RateLimiter>,
    queue_timeout: Duration,
}

/// The number of objects from which a read is heavy. An object of a list takes 1.6 us, or ten
/// as a row of a table, so a read below this bound takes a millisecond at most.
pub const HEAVY: usize = 100;

/// The most seats of one write: a write of many objects has about this many in the store at
/// once. Kubernetes also counts one to ten seats per request.
const MAX_WRITE_SEATS: u32 = 10;

/// The memory from which decoded objects need seats: a request has some in any case.
const MIN_DECODED_BYTES: usize = 512 << 10;

/// How many requests a heavy read counts as in the rate of a tenant: the most seats that
/// Kubernetes counts for a list.
const HEAVY_WIDTH: u32 = 10;

/// The bytes of a request body that count as one more request in the rate of a tenant.
const BODY_BYTES_PER_REQUEST: usize = 16 << 10;

impl FlowControl {
    /// Creates the pools, with all seats free.
    pub fn new(limits: &Limits, table: &Arc<LimitTable>) -> Self {
        let pool = |bound, resource| Pool::with_limits(bound, table, resource);
        Self {
            reads: pool(limits.reads, LimitedResource::Reads),
            heavy: pool(limits.heavy, LimitedResource::HeavyReads),
            writes: pool(limits.writes, LimitedResource::Writes),
            bodies: pool(limits.bodies, LimitedResource::RequestBytes),
            decoded: Pool::new(limits.decoded),
            watches: pool(limits.watches, LimitedResource::Watches),
            rates: Arc::new(RateLimiter::new(
                Arc::clone(table),
                limits.refusals_per_second,
            )),
            queue_timeout: limits.queue_timeout,
        }
    }

    /// Counts a request in the rate of the space, before anything else is known of its work.
    ///
    /// # Errors
    ///
    /// If the space exceeds its rate.
    pub fn charge_request(&self, space: &Space) -> Result<()> {
        self.rates.charge_request(space)
    }

    /// Whether the space has had too many refusals for its rate lately.
    pub fn is_flooded(&self, space: &Space) -> bool {
        self.rates.is_flooded(space)
    }

    /// Counts the work of a request in the rate of the space, beyond the request itself.
    ///
    /// # Errors
    ///
    /// If the space exceeds its rate.
    pub fn charge_work(&self, space: &Space, work: Work) -> Result<()> {
        match work.width() {
            0..=1 => Ok(()),
            width => self.rates.charge_width(space, width),
        }
    }

    /// Counts a large body in the rate of the space: the disk has to write it before others'.
    ///
    /// # Errors
    ///
    /// If the space exceeds its rate.
    pub fn charge_body(&self, space: &Space, bytes: usize) -> Result<()> {
        match u32::try_from(bytes / BODY_BYTES_PER_REQUEST).unwrap_or(u32::MAX) {
            0 => Ok(()),
            more => self.rates.charge_width(space, 1 + more),
        }
    }

    /// Acquires the seats for this work, at once or when it is the space's turn.
    pub async fn acquire(&self, space: &Space, work: Work) -> Result<Seat> {
        let (pool, cost) = self.pool_and_cost(work);
        match pool.try_acquire(space, cost) {
            Acquisition::Acquired(seat) => Ok(seat),
            Acquisition::Rejected => Err(StatusError::overloaded()),
            Acquisition::Waiting(waiting) => {
                let seated = Box::pin(tokio::time::timeout(self.queue_timeout, waiting)).await;
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

    /// Acquires the seats for decoded objects, unless they are small.
    pub async fn acquire_decoded(&self, space: &Space, bytes: usize) -> Result<Option<Seat>> {
        if bytes < MIN_DECODED_BYTES {
            return Ok(None);
        }
        self.acquire(space, Work::Decode { bytes }).await.map(Some)
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
    pub fn seat_stats(&self) -> [(&'static str, SeatStats); 6] {
        [
            ("read", self.reads.stats()),
            ("heavy_read", self.heavy.stats()),
            ("write", self.writes.stats()),
            ("body", self.bodies.stats()),
            ("decode", self.decoded.stats()),
            ("watch", self.watches.stats()),
        ]
    }

    /// Returns the spaces with the most open watches, and their number.
    pub fn most_watches(&self, most: usize) -> Vec<(Space, u32)> {
        self.watches.costliest(most)
    }

    /// Returns how many requests exceeded the rate of their space, and the spaces with the most.
    pub fn rate_limited(&self, most: usize) -> (u64, Vec<(Space, u64)>) {
        self.rates.rejected(most)
    }

    fn pool_and_cost(&self, work: Work) -> (&Arc<Pool>, u32) {
        match work {
            Work::Read { .. } if work.is_heavy() => (&self.heavy, 1),
            Work::Read { .. } => (&self.reads, 1),
            Work::Write { .. } => (&self.writes, work.width()),
            Work::Receive { bytes } => (&self.bodies, seats_for(bytes)),
            Work::Decode { bytes } => (&self.decoded, seats_for(bytes as u64)),
        }
    }
}

/// Returns the seats that stand for this much memory.
fn seats_for(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(SEAT_BYTES)).unwrap_or(u32::MAX)
}

impl Work {
    /// Whether the work is CPU-bound.
    pub const fn is_heavy(self) -> bool {
        matches!(self, Self::Read { objects } if objects >= HEAVY)
    }

    /// Returns how many requests the work counts as.
    fn width(self) -> u32 {
        match self {
            Self::Read { .. } if self.is_heavy() => HEAVY_WIDTH,
            Self::Read { .. } => 1,
            Self::Write { objects } => {
                let objects = u32::try_from(objects).unwrap_or(MAX_WRITE_SEATS);
                objects.clamp(1, MAX_WRITE_SEATS)
            }
            Self::Receive { .. } | Self::Decode { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow_control(limits: &Limits) -> FlowControl {
        FlowControl::new(limits, &Arc::new(LimitTable::new(limits)))
    }

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
        let flow_control = flow_control(&Limits::default());
        let priced = |work| {
            let (pool, cost) = flow_control.pool_and_cost(work);
            let pools = [
                &flow_control.reads,
                &flow_control.heavy,
                &flow_control.writes,
                &flow_control.bodies,
                &flow_control.decoded,
            ];
            let names = ["reads", "heavy", "writes", "bodies", "decoded"];
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
            (Work::Decode { bytes: 50 << 20 }, ("decoded", 800)),
        ] {
            assert_eq!(priced(work), pool_and_cost, "{work:?}");
        }
    }

    #[tokio::test]
    async fn request_gets_429_when_its_queue_is_full_or_its_wait_times_out() {
        let flow_control = Arc::new(flow_control(&small()));
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

    /// Every pool, with a limit of a tenant that is raised and lowered.
    #[tokio::test]
    async fn tenants_have_limits_of_their_own_in_every_pool() {
        let bound = Bound {
            total: 20,
            each: 3,
            queue: 0,
        };
        let limits = Limits {
            reads: bound,
            heavy: bound,
            writes: bound,
            bodies: bound,
            ..Limits::default()
        };
        let table = Arc::new(LimitTable::new(&limits));
        let flow_control = FlowControl::new(&limits, &table);
        let [tenant, neighbour] = ["t1", "t2"].map(|name| Space::parse(name).unwrap());
        for (resource, work, unit) in [
            (LimitedResource::Reads, Work::Read { objects: 1 }, 1),
            (
                LimitedResource::HeavyReads,
                Work::Read { objects: HEAVY },
                1,
            ),
            (LimitedResource::Writes, Work::Write { objects: 1 }, 1),
            (
                LimitedResource::RequestBytes,
                Work::Receive { bytes: 1 },
                SEAT_BYTES,
            ),
        ] {
            let mut held = Vec::new();
            // The limits in turn, and how many more requests each admits.
            for (limit, more) in [(2, 2), (4, 2), (1, 0)] {
                let limits = TenantLimits::default().with(resource, limit * unit);
                table.set(&tenant, &limits);
                for _ in 0..more {
                    held.push(flow_control.acquire(&tenant, work).await.unwrap());
                }
                let refused = flow_control.acquire(&tenant, work).await.unwrap_err();
                assert_eq!((refused.code, refused.retry_after), (429, Some(1)));
            }
            assert_eq!(held.len(), 4, "a lower limit ends nothing: {resource:?}");
            for _ in 0..3 {
                held.push(flow_control.acquire(&neighbour, work).await.unwrap());
            }
            flow_control.acquire(&neighbour, work).await.unwrap_err();
        }
    }
}
