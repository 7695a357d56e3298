//! The CPU time that a space uses, against the share that it may use at full priority.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The CPU time that a space has used lately.
///
/// Like a bucket that leaks at the rate of the share: what is used is added, and has leaked away
/// after five times that time. The space is *over* its share from the time at which the bucket is
/// full until it is nearly empty, so that a busy space does not change its lane all the time.
#[derive(Debug)]
pub struct CpuShare {
    created: Instant,
    /// When the bucket is empty, in nanoseconds since the creation.
    empty_at: AtomicU64,
    is_over: AtomicBool,
}

/// The reciprocal of a space's share of one core.
const INVERSE_SHARE: u32 = 5;

/// How long a full bucket takes to leak away: a space may use 50 ms of CPU time at once.
const FULL: Duration = Duration::from_millis(250);

/// How long a nearly empty bucket takes to leak away.
const NEARLY_EMPTY: Duration = Duration::from_millis(50);

/// The longest time that a space stays over its share after it has stopped.
const MAX_DEBT: Duration = Duration::from_secs(1);

impl Default for CpuShare {
    fn default() -> Self {
        Self {
            created: Instant::now(),
            empty_at: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }
}

impl CpuShare {
    /// Whether the space uses more than its share.
    pub fn is_over(&self, now: Instant) -> bool {
        if !self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let empty_at = self.empty_at.load(Ordering::Relaxed);
        let is_over = empty_at > self.since_creation(now) + nanos(NEARLY_EMPTY);
        if !is_over {
            self.is_over.store(false, Ordering::Relaxed);
        }
        is_over
    }

    /// Adds what was used until `now`.
    pub fn charge(&self, used: Duration, now: Instant) {
        let now = self.since_creation(now);
        let (added, max) = (nanos(used * INVERSE_SHARE), now + nanos(MAX_DEBT));
        let add = |empty_at: u64| Some((empty_at.max(now) + added).min(max));
        // The update returns the former value, and always succeeds.
        let before = self
            .empty_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .unwrap_or(max);
        if before.max(now) + added > now + nanos(FULL) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn since_creation(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.created))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn space_is_over_its_share_after_50_ms_and_again_within_it_when_that_has_leaked_away() {
        let share = CpuShare::default();
        let begin = share.created;
        for _ in 0..50 {
            assert!(!share.is_over(begin));
            share.charge(MS, begin);
        }
        assert!(!share.is_over(begin), "50 ms are the most at once");
        share.charge(MS, begin);
        assert!(share.is_over(begin));
        assert!(share.is_over(begin + 200 * MS));
        assert!(!share.is_over(begin + 206 * MS));
        assert!(!share.is_over(begin), "it stays within until it is charged");
    }

    #[test]
    fn space_that_uses_a_fifth_of_a_core_is_never_over_its_share() {
        let share = CpuShare::default();
        for n in 0..10_000 {
            let now = share.created + n * 5 * MS;
            share.charge(MS, now);
            assert!(!share.is_over(now), "{n}");
        }
    }

    #[test]
    fn debt_is_bounded() {
        let share = CpuShare::default();
        share.charge(Duration::from_secs(60), share.created);
        assert!(share.is_over(share.created + 949 * MS));
        assert!(!share.is_over(share.created + 951 * MS));
    }
}
