//! How many handshakes an address may begin before it has to take what others leave, and how much
//! CPU is left for those.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Handshakes that a host may begin at once: a large office behind one address.
const HOST_BURST: f64 = 200.0;
/// Handshakes per second after that.
const HOST_RATE: f64 = 50.0;
/// A network may begin this many times as many.
const NETWORK_FACTOR: f64 = 4.0;

/// The most hosts and networks that are remembered: about a megabyte. When so many are active at
/// once, others count as over the rate.
const MAX_BUCKETS: usize = 8192;
/// The least time between two searches for buckets that are full again.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The part of one core for handshakes over the rate: 5,000 of a millisecond within ten seconds.
const OVER_SHARE: f64 = 0.5;
/// The most CPU time that is saved up. Timers are as coarse as a millisecond or two.
const MAX_BUDGET_SECONDS: f64 = 0.02;

/// The token buckets of hosts and networks.
#[derive(Debug, Default)]
pub(super) struct RateTable {
    buckets: HashMap<(Level, IpAddr), Bucket>,
    swept: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Level {
    Host,
    Network,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    updated: Instant,
}

impl RateTable {
    /// Whether a handshake is within the rate of the host and its network. If it is, it counts.
    pub(super) fn take(&mut self, host: IpAddr, network: IpAddr, now: Instant) -> bool {
        let keys = [(Level::Host, host), (Level::Network, network)];
        self.make_room(now);
        let tokens = keys.map(|key| self.tokens(key, now));
        if tokens.iter().any(|tokens| *tokens < 1.0) {
            return false;
        }
        let missing = keys.iter().filter(|key| !self.buckets.contains_key(key));
        if self.buckets.len() + missing.count() > MAX_BUCKETS {
            return false;
        }
        for (key, tokens) in keys.into_iter().zip(tokens) {
            let tokens = tokens - 1.0;
            let updated = now;
            self.buckets.insert(key, Bucket { tokens, updated });
        }
        true
    }

    fn tokens(&self, key: (Level, IpAddr), now: Instant) -> f64 {
        let bucket = self.buckets.get(&key);
        bucket.map_or(key.0.burst(), |bucket| bucket.tokens(key.0, now))
    }

    /// Forgets the addresses that have all their tokens again, when the table is full.
    fn make_room(&mut self, now: Instant) {
        let is_recent = |swept: Instant| swept + SWEEP_INTERVAL > now;
        if self.buckets.len() < MAX_BUCKETS - 1 || self.swept.is_some_and(is_recent) {
            return;
        }
        self.swept = Some(now);
        let is_used = |level: Level, bucket: &Bucket| bucket.tokens(level, now) < level.burst();
        self.buckets
            .retain(|(level, _), bucket| is_used(*level, bucket));
    }
}

impl Level {
    const fn factor(self) -> f64 {
        match self {
            Self::Host => 1.0,
            Self::Network => NETWORK_FACTOR,
        }
    }

    const fn burst(self) -> f64 {
        HOST_BURST * self.factor()
    }
}

impl Bucket {
    fn tokens(&self, level: Level, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.updated).as_secs_f64();
        (self.tokens + seconds * HOST_RATE * level.factor()).min(level.burst())
    }
}

/// CPU time that refills with the clock.
#[derive(Debug)]
pub(super) struct CpuBudget {
    seconds: f64,
    updated: Instant,
}

impl CpuBudget {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            seconds: MAX_BUDGET_SECONDS,
            updated: now,
        }
    }

    /// Whether any is left.
    pub(super) fn is_available(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.seconds > 0.0
    }

    /// Subtracts what was used, also if less was left.
    pub(super) fn spend(&mut self, took: Duration) {
        self.seconds -= took.as_secs_f64();
    }

    /// Returns how long it takes until half of it is there again.
    pub(super) fn wait(&mut self, now: Instant) -> Duration {
        self.refill(now);
        let missing = (MAX_BUDGET_SECONDS / 2.0 - self.seconds).max(0.0);
        Duration::from_secs_f64(missing / OVER_SHARE)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.updated).as_secs_f64();
        self.seconds = (self.seconds + passed * OVER_SHARE).min(MAX_BUDGET_SECONDS);
        self.updated = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many handshakes of the host are within the rate.
    fn taken(table: &mut RateTable, host: &str, network: &str, now: Instant) -> usize {
        let (host, network) = (host.parse().unwrap(), network.parse().unwrap());
        let within = (0..2_000).filter(|_| table.take(host, network, now));
        within.count()
    }

    #[tokio::test]
    async fn host_has_a_burst_and_then_a_rate() {
        let (mut table, now) = (RateTable::default(), Instant::now());
        assert_eq!(taken(&mut table, "192.0.2.1", "192.0.2.0", now), 200);
        let later = now + Duration::from_secs(2);
        assert_eq!(taken(&mut table, "192.0.2.1", "192.0.2.0", later), 100);
        assert_eq!(taken(&mut table, "198.51.100.1", "198.51.100.0", now), 200);
    }

    #[tokio::test]
    async fn hosts_of_one_network_share_its_rate() {
        let (mut table, now) = (RateTable::default(), Instant::now());
        let hosts = (0..100).map(|host| format!("192.0.2.{host}"));
        let all: usize = hosts
            .map(|host| taken(&mut table, &host, "192.0.2.0", now))
            .sum();
        assert_eq!(all, 800);
    }

    #[tokio::test]
    async fn table_is_bounded_and_forgets_idle_addresses() {
        let (mut table, now) = (RateTable::default(), Instant::now());
        let mut refused = 0;
        for number in 0..20_000_u32 {
            let host = IpAddr::V4(number.into());
            refused += usize::from(!table.take(host, host, now));
        }
        assert_eq!(table.buckets.len(), MAX_BUCKETS);
        assert_eq!(refused, 20_000 - MAX_BUCKETS / 2);
        let later = now + Duration::from_secs(60);
        assert_eq!(taken(&mut table, "192.0.2.1", "192.0.2.0", later), 200);
        assert_eq!(table.buckets.len(), 2);
    }

    #[tokio::test]
    async fn budget_is_half_of_the_time() {
        let begun = Instant::now();
        let (mut budget, mut now) = (CpuBudget::new(begun), begun);
        let step = Duration::from_millis(1);
        let mut worked = Duration::ZERO;
        while now < begun + Duration::from_secs(10) {
            if budget.is_available(now) {
                budget.spend(step);
                worked += step;
                now += step;
            } else {
                now += budget.wait(now);
            }
        }
        let share = worked.as_secs_f64() / 10.0;
        assert!((0.49..0.51).contains(&share), "{share}");
    }
}
