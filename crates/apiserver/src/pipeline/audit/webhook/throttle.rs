//! The rate of batches.

use std::time::Duration;

use tokio::time::Instant;

/// A rate with bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Batches a second.
    pub qps: f64,
    /// Batches that may be sent at once after a pause.
    pub burst: u32,
}

/// A token bucket.
#[derive(Debug)]
pub struct TokenBucket {
    rate: Throttle,
    /// Tokens at `since`; negative if batches wait.
    tokens: f64,
    since: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Throttle, now: Instant) -> Self {
        Self {
            rate,
            tokens: f64::from(rate.burst),
            since: now,
        }
    }

    /// Takes a token, and returns when it is available.
    pub fn take(&mut self, now: Instant) -> Instant {
        let earned = now.duration_since(self.since).as_secs_f64() * self.rate.qps;
        self.tokens = (self.tokens + earned).min(f64::from(self.rate.burst)) - 1.0;
        self.since = now;
        match self.tokens < 0.0 {
            true => now + Duration::from_secs_f64(-self.tokens / self.rate.qps),
            false => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_pass_and_then_the_rate_holds() {
        let begin = Instant::now();
        let mut bucket = TokenBucket::new(Throttle { qps: 2.0, burst: 2 }, begin);
        let delays = [0, 0, 0, 0].map(|_: u64| (bucket.take(begin) - begin).as_millis());
        assert_eq!(delays, [0, 0, 500, 1000]);
        let later = begin + Duration::from_secs(60);
        let delays = [0, 0, 0].map(|_: u64| (bucket.take(later) - later).as_millis());
        assert_eq!(delays, [0, 0, 500]);
    }
}
