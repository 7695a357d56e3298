//! The limit of reconciliations per second, of all kinds together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::RateLimit;

/// A bucket of tokens: each reconciliation takes one, and those that find none wait for their turn.
#[derive(Debug)]
pub(super) struct ReconcileLimit(Option<Mutex<Bucket>>);

#[derive(Debug)]
struct Bucket {
    limit: RateLimit,
    /// How many tokens there were at the last time; fewer than none are promised to waiting
    /// objects.
    tokens: f64,
    at: Instant,
    /// When it is the turn of each waiting object.
    turns: HashMap<Arc<str>, Instant>,
}

impl ReconcileLimit {
    pub(super) fn new(limit: Option<RateLimit>, now: Instant) -> Self {
        let bucket = limit.map(|limit| Bucket {
            limit,
            tokens: f64::from(limit.bucket_size),
            at: now,
            turns: HashMap::new(),
        });
        Self(bucket.map(Mutex::new))
    }

    /// Returns how long an object has to wait before it is reconciled; none if it need not.
    pub(super) fn wait(&self, key: &Arc<str>, now: Instant) -> Option<Duration> {
        let bucket = self.0.as_ref()?;
        let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.wait(key, now)
    }
}

impl Bucket {
    fn wait(&mut self, key: &Arc<str>, now: Instant) -> Option<Duration> {
        match self.turns.get(key) {
            // A trigger in the meantime does not take a second token.
            Some(turn) if *turn > now => return Some(*turn - now),
            Some(_) => {
                self.turns.remove(key);
                return None;
            }
            None => {}
        }
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let full = f64::from(self.limit.bucket_size);
        self.tokens = (self.tokens + elapsed * self.limit.per_second).min(full) - 1.0;
        self.at = now;
        if self.tokens >= 0.0 {
            return None;
        }
        let delay = Duration::try_from_secs_f64(-self.tokens / self.limit.per_second);
        let delay = delay.unwrap_or(MAX_DELAY).min(MAX_DELAY);
        self.turns.insert(Arc::clone(key), now + delay);
        Some(delay)
    }
}

/// The longest delay, for rates next to nothing.
const MAX_DELAY: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Arc<str> {
        format!("key {number}").into()
    }

    #[tokio::test(start_paused = true)]
    async fn reconciliations_beyond_the_bucket_wait_for_their_turn() {
        let limit = RateLimit {
            per_second: 2.0,
            bucket_size: 3,
        };
        let start = Instant::now();
        let limited = ReconcileLimit::new(Some(limit), start);
        let wait = |number, after_ms| {
            let now = start + Duration::from_millis(after_ms);
            let wait = limited.wait(&key(number), now);
            wait.map(|wait| wait.as_millis())
        };
        for number in 0..3 {
            assert_eq!(wait(number, 0), None);
        }
        assert_eq!(wait(3, 0), Some(500));
        assert_eq!(wait(4, 0), Some(1000));
        assert_eq!(wait(3, 200), Some(300));
        assert_eq!(wait(3, 500), None);
        assert_eq!(wait(3, 500), Some(1000));
        assert_eq!(wait(4, 1000), None);
        assert_eq!(wait(5, 60_000), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_without_a_limit() {
        let now = Instant::now();
        let unlimited = ReconcileLimit::new(None, now);
        assert!((0..1000).all(|number| unlimited.wait(&key(number), now).is_none()));
    }
}
