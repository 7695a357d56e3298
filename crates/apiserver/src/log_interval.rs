//! Log messages that clients can cause, at most one in a minute: clients must not be able to fill
//! the log.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The shortest time between two messages.
const INTERVAL_SECONDS: i64 = 60;

/// When a message was last logged.
#[derive(Debug)]
pub struct LogInterval {
    last: AtomicI64,
    suppressed: AtomicU64,
}

impl LogInterval {
    /// Nothing was logged yet.
    pub const fn new() -> Self {
        Self {
            last: AtomicI64::new(i64::MIN),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Returns how many messages were suppressed since the last one, if one may be logged now. The
    /// time is in seconds.
    pub fn next(&self, now: i64) -> Option<u64> {
        let last = self.last.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(last) >= INTERVAL_SECONDS;
        // Of several threads, one logs.
        let exchange = |last| {
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            self.last.compare_exchange(last, now, success, failure)
        };
        match is_due && exchange(last).is_ok() {
            true => Some(self.suppressed.swap(0, Ordering::Relaxed)),
            false => {
                self.suppressed.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_in_a_minute_counts_the_others() {
        let interval = LogInterval::new();
        for (now, expected) in [
            (0, Some(0)),
            (0, None),
            (59, None),
            (60, Some(2)),
            (119, None),
            (500, Some(1)),
        ] {
            assert_eq!(interval.next(now), expected, "{now}");
        }
    }
}
