//! The rate of requests of each tenant: a token bucket per space.
//!
//! Seats share what runs at the same time. They do not keep a tenant from using all that its
//! neighbours leave, request after request, and a neighbour that comes back then waits. So a
//! request also takes tokens, as many as its work is wide, and is rejected while there are none.
//! A space has a bucket only until it is full again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_core::Space;
use tokio::time::Instant;

use super::space_limits::{LimitTable, LimitedResource};
use crate::status::{Result, StatusError};

/// The token buckets of all tenants. The system's requests are not limited.
#[derive(Debug)]
pub struct RateLimiter {
    limits: Arc<LimitTable>,
    /// The rate of refusals of one space.
    refusals: Rate,
    buckets: Mutex<Buckets>,
    rejected: AtomicU64,
}

#[derive(Debug)]
struct Buckets {
    spaces: HashMap<Space, SpaceBuckets>,
    /// The number of buckets from which on full ones are dropped.
    next_sweep: usize,
}

/// The state of a space.
#[derive(Debug)]
struct SpaceBuckets {
    requests: Bucket,
    refusals: Bucket,
    rejected: u64,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    updated: Instant,
}

/// The rate and the burst of a space.
#[derive(Clone, Copy, Debug)]
struct Rate {
    per_second: f64,
    burst: f64,
}

/// The least number of buckets that are kept without a sweep.
const MIN_SWEEP: usize = 1024;

/// How long the number of rejected requests of a space is kept after the last one.
const REJECTED_KEPT: Duration = Duration::from_secs(600);

impl RateLimiter {
    /// Creates a limiter with full buckets. A space with more refusals a
    /// second floods the server.
    pub fn new(limits: Arc<LimitTable>, refusals_per_second: u32) -> Self {
        let refusals = f64::from(refusals_per_second.max(1));
        Self {
            limits,
            refusals: Rate {
                per_second: refusals,
                burst: refusals,
            },
            buckets: Mutex::new(Buckets {
                spaces: HashMap::new(),
                next_sweep: MIN_SWEEP,
            }),
            rejected: AtomicU64::new(0),
        }
    }

    /// Takes the token of a request of the space.
    ///
    /// # Errors
    ///
    /// If there is none. The error says when there is one.
    pub fn charge_request(&self, space: &Space) -> Result<()> {
        self.charge_at(space, 1, Instant::now())
    }

    /// Takes the tokens that a request of this width needs beyond the first, or gives the first
    /// one back.
    ///
    /// # Errors
    ///
    /// If there are too few. The error says when there are enough for the whole request.
    pub fn charge_width(&self, space: &Space, width: u32) -> Result<()> {
        self.charge_width_at(space, width, Instant::now())
    }

    /// Whether the space has had too many refusals lately.
    pub fn is_flooded(&self, space: &Space) -> bool {
        let mut buckets = self.lock();
        let bucket = buckets.spaces.get_mut(space);
        bucket.is_some_and(|bucket| {
            bucket.refusals.refill(self.refusals, Instant::now());
            bucket.refusals.tokens < 1.0
        })
    }

    /// Returns how many requests were rejected, and the spaces with the most of them.
    pub fn rejected(&self, most: usize) -> (u64, Vec<(Space, u64)>) {
        let buckets = self.lock();
        let rejected = buckets.spaces.iter().filter(|(_, of)| of.rejected > 0);
        let mut spaces: Vec<_> = rejected
            .map(|(space, of)| (space.clone(), of.rejected))
            .collect();
        drop(buckets);
        spaces.sort_by_key(|(_, rejected)| std::cmp::Reverse(*rejected));
        spaces.truncate(most);
        (self.rejected.load(Ordering::Relaxed), spaces)
    }

    fn charge_width_at(&self, space: &Space, width: u32, now: Instant) -> Result<()> {
        let Some(rate) = self.rate(space) else {
            return Ok(());
        };
        // The first token goes back, and all are taken at once: otherwise a refused request would
        // lose it, and one as wide as the burst would never find the rest.
        let mut buckets = self.lock();
        let bucket = buckets.of(self, space, rate, now);
        bucket.requests.tokens = (bucket.requests.tokens + 1.0).min(rate.burst);
        drop(buckets);
        self.charge_at(space, width, now)
    }

    fn charge_at(&self, space: &Space, cost: u32, now: Instant) -> Result<()> {
        let Some(rate) = self.rate(space) else {
            return Ok(());
        };
        // A request that is wider than the burst would never be admitted.
        let cost = f64::from(cost).min(rate.burst);
        let mut buckets = self.lock();
        let bucket = buckets.of(self, space, rate, now);
        bucket.requests.refill(rate, now);
        if bucket.requests.tokens >= cost {
            bucket.requests.tokens -= cost;
            return Ok(());
        }
        bucket.rejected += 1;
        bucket.refusals.refill(self.refusals, now);
        bucket.refusals.tokens = (bucket.refusals.tokens - 1.0).max(0.0);
        let seconds = (cost - bucket.requests.tokens) / rate.per_second;
        drop(buckets);
        self.rejected.fetch_add(1, Ordering::Relaxed);
        Err(StatusError::overloaded_for(seconds.ceil().max(1.0) as u32))
    }

    /// Returns the rate of a space; `None` if it is not limited.
    fn rate(&self, space: &Space) -> Option<Rate> {
        let limits = self.limits.of(space);
        let per_second = limits.get(LimitedResource::RequestsPerSecond);
        if per_second == u64::MAX {
            return None;
        }
        let per_second = per_second.max(1) as f64;
        let burst = match limits.get(LimitedResource::Burst) {
            u64::MAX => per_second,
            burst => burst.max(1) as f64,
        };
        Some(Rate { per_second, burst })
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    /// Returns the state of a space, with full buckets if it is new.
    fn of(
        &mut self,
        limiter: &RateLimiter,
        space: &Space,
        rate: Rate,
        now: Instant,
    ) -> &mut SpaceBuckets {
        if !self.spaces.contains_key(space) && self.spaces.len() >= self.next_sweep {
            self.spaces.retain(|space, of| {
                let rate = limiter.rate(space);
                rate.is_some_and(|rate| !of.is_forgettable(rate, now))
            });
            self.next_sweep = (self.spaces.len() * 2).max(MIN_SWEEP);
        }
        let full = |rate: Rate| Bucket {
            tokens: rate.burst,
            updated: now,
        };
        let new = || SpaceBuckets {
            requests: full(rate),
            refusals: full(limiter.refusals),
            rejected: 0,
        };
        self.spaces.entry(space.clone()).or_insert_with(new)
    }
}

impl SpaceBuckets {
    /// Whether a new state would do as well. The number of refusals is kept for a while.
    fn is_forgettable(&mut self, rate: Rate, now: Instant) -> bool {
        // Updated by each refusal.
        let quiet = now.saturating_duration_since(self.refusals.updated) >= REJECTED_KEPT;
        self.requests.refill(rate, now);
        self.requests.tokens >= rate.burst && (self.rejected == 0 || quiet)
    }
}

impl Bucket {
    fn refill(&mut self, rate: Rate, now: Instant) {
        let seconds = now.saturating_duration_since(self.updated).as_secs_f64();
        self.tokens = (self.tokens + seconds * rate.per_second).min(rate.burst);
        self.updated = now;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Limits;
    use super::super::space_limits::TenantLimits;
    use super::*;

    fn limiter(limits: serde_json::Value) -> RateLimiter {
        let table = Arc::new(LimitTable::new(&Limits {
            tenants: TenantLimits::parse(&limits),
            ..Limits::default()
        }));
        RateLimiter::new(table, 3)
    }

    fn space(name: &str) -> Space {
        Space::parse(name).unwrap()
    }

    /// Returns the seconds after which a rejected request may be retried.
    fn charge(limiter: &RateLimiter, name: &str, cost: u32, now: Instant) -> Option<u32> {
        let charged = limiter.charge_at(&space(name), cost, now);
        charged.err().map(|error| error.retry_after.unwrap())
    }

    #[test]
    fn burst_is_admitted_and_the_rest_at_the_rate() {
        let limiter = limiter(json!({"requestsPerSecond": 2, "burst": 3}));
        let begin = Instant::now();
        let after = |milliseconds| begin + Duration::from_millis(milliseconds);
        for _ in 0..3 {
            assert_eq!(charge(&limiter, "t1", 1, begin), None);
        }
        assert_eq!(charge(&limiter, "t1", 1, begin), Some(1));
        // A neighbour has a bucket of its own, and the system is not limited.
        assert_eq!(charge(&limiter, "t2", 3, begin), None);
        for _ in 0..100 {
            assert_eq!(limiter.charge_at(&Space::System, 10, begin), Ok(()));
        }
        assert_eq!(charge(&limiter, "t1", 1, after(499)), Some(1));
        assert_eq!(charge(&limiter, "t1", 1, after(500)), None);
        assert_eq!(charge(&limiter, "t1", 3, after(500)), Some(2));
        assert_eq!(charge(&limiter, "t1", 3, after(2000)), None);
        assert_eq!(limiter.rejected(10), (3, vec![(space("t1"), 3)]));
    }

    #[test]
    fn request_wider_than_the_burst_is_admitted_with_a_full_bucket() {
        let limiter = limiter(json!({"requestsPerSecond": 1, "burst": 2}));
        let begin = Instant::now();
        assert_eq!(charge(&limiter, "t1", 10, begin), None);
        assert_eq!(charge(&limiter, "t1", 10, begin), Some(2));
        let later = begin + Duration::from_secs(2);
        assert_eq!(charge(&limiter, "t1", 10, later), None);
    }

    #[test]
    fn wide_request_takes_its_tokens_at_once_and_loses_none_if_refused() {
        let limiter = limiter(json!({"requestsPerSecond": 1, "burst": 5}));
        let begin = Instant::now();
        let wide = |now| {
            assert_eq!(charge(&limiter, "t1", 1, now), None);
            let charged = limiter.charge_width_at(&space("t1"), 10, now);
            charged.err().map(|error| error.retry_after.unwrap())
        };
        assert_eq!(wide(begin), None);
        let later = begin + Duration::from_secs(3);
        assert_eq!(wide(later), Some(2));
        assert_eq!(wide(later), Some(2), "the refused request has lost nothing");
        assert_eq!(wide(later + Duration::from_secs(2)), None);
    }

    #[test]
    fn changed_limits_apply_to_the_next_request() {
        let limiter = limiter(json!({"requestsPerSecond": 1, "burst": 1}));
        let begin = Instant::now();
        assert_eq!(charge(&limiter, "t1", 1, begin), None);
        assert_eq!(charge(&limiter, "t1", 1, begin), Some(1));
        let raised = TenantLimits::parse(&json!({"requestsPerSecond": 1000, "burst": 1000}));
        limiter.limits.set(&space("t1"), &raised);
        let soon = begin + Duration::from_millis(10);
        for _ in 0..10 {
            assert_eq!(charge(&limiter, "t1", 1, soon), None);
        }
        limiter.limits.set(&space("t1"), &TenantLimits::default());
        assert_eq!(charge(&limiter, "t1", 1, soon), Some(1));
    }

    #[test]
    fn space_is_flooded_beyond_its_rate_of_refusals() {
        let limiter = limiter(json!({"requestsPerSecond": 1, "burst": 1}));
        let begin = Instant::now();
        assert_eq!(charge(&limiter, "t1", 1, begin), None);
        for _ in 0..3 {
            assert!(!limiter.is_flooded(&space("t1")));
            assert_eq!(charge(&limiter, "t1", 1, begin), Some(1));
        }
        assert!(limiter.is_flooded(&space("t1")));
        assert!(!limiter.is_flooded(&space("t2")));
    }

    #[test]
    fn full_buckets_are_dropped() {
        let limiter = limiter(json!({"requestsPerSecond": 10, "burst": 10}));
        let begin = Instant::now();
        for number in 0..MIN_SWEEP {
            assert_eq!(charge(&limiter, &format!("t{number}"), 1, begin), None);
        }
        assert_eq!(limiter.lock().spaces.len(), MIN_SWEEP);
        let later = begin + Duration::from_secs(1);
        assert_eq!(charge(&limiter, "another", 1, later), None);
        assert_eq!(limiter.lock().spaces.len(), 1);
    }
}
