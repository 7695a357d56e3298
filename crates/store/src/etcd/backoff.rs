//! How long to wait before the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Waits that double, each spread at random over its upper half, so that the replicas
/// that lost the same etcd do not all come back at the same moment.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// About as long as etcd needs to answer again after a hiccup.
    const FIRST: Duration = Duration::from_millis(50);
    /// A leader election takes about one second.
    const MOST: Duration = Duration::from_secs(2);

    pub(super) const fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// The next wait.
    pub(super) fn wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(Self::MOST);
        let random = RandomState::new().hash_one(()) % 1024;
        let part = u32::try_from(random).unwrap_or(0);
        whole / 2 + whole * part / 2048
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most_and_are_spread() {
        let mut backoff = Backoff::new();
        for whole in [50, 100, 200, 400, 800, 1600, 2000, 2000].map(Duration::from_millis) {
            let wait = backoff.wait();
            assert!(whole / 2 <= wait && wait < whole, "{wait:?} of {whole:?}");
        }
    }
}
