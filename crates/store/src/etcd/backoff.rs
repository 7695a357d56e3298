//! The delay before the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Delays that double, each with jitter over its upper half, so that replicas that lost the same
/// etcd do not all reconnect at the same moment.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// About as long as etcd needs to answer again after a short interruption.
    const INITIAL: Duration = Duration::from_millis(50);
    /// A leader election takes about one second.
    const MAX: Duration = Duration::from_secs(2);

    pub(super) const fn new() -> Self {
        Self {
            next: Self::INITIAL,
        }
    }

    /// Returns the next delay.
    pub(super) fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(Self::MAX);
        let random = RandomState::new().hash_one(()) % 1024;
        let fraction = u32::try_from(random).unwrap_or(0);
        delay / 2 + delay * fraction / 2048
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_with_jitter() {
        let mut backoff = Backoff::new();
        for delay in [50, 100, 200, 400, 800, 1600, 2000, 2000].map(Duration::from_millis) {
            let next_delay = backoff.next_delay();
            assert!(
                delay / 2 <= next_delay && next_delay < delay,
                "{next_delay:?} of {delay:?}"
            );
        }
    }
}
