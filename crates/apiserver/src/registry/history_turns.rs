//! Turns of watches that read the store's history.
//!
//! The history of one space is read among that of all others, so it costs what all have written.
//! One watch of a space reads at a time, and few of all, so that a tenant with many such watches
//! delays neither those of others nor the feed of the cache.

use insula_core::Space;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::fair_locks::{FairLockGuard, FairLocks};

/// The turns of all watches of a server.
#[derive(Debug)]
pub struct HistoryTurns {
    spaces: FairLocks,
    all: Semaphore,
}

/// The right to read a batch of history. Dropping it passes it on.
#[derive(Debug)]
pub struct HistoryTurn<'a> {
    // Released first, so that the next watch of the space queues behind other spaces.
    _any: Option<SemaphorePermit<'a>>,
    _space: FairLockGuard,
}

/// The most watches that read at once: half of the store's threads for history.
const MAX_READERS: usize = 2;

impl Default for HistoryTurns {
    fn default() -> Self {
        Self {
            spaces: FairLocks::default(),
            all: Semaphore::new(MAX_READERS),
        }
    }
}

impl HistoryTurns {
    /// Waits for the turn of a watch of this space; a watch over all spaces is the system's.
    pub async fn acquire(&self, space: &Space) -> HistoryTurn<'_> {
        let of_space = self.spaces.lock((space.clone(), None)).await;
        HistoryTurn {
            // The semaphore is never closed.
            _any: self.all.acquire().await.ok(),
            _space: of_space,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tokio::time::timeout;

    #[tokio::test]
    async fn space_with_many_watches_takes_one_turn_at_a_time() {
        let turns = HistoryTurns::default();
        let [noisy, quiet] = ["t1", "t2"].map(|name| Space::parse(name).unwrap());
        let first = turns.acquire(&noisy).await;
        let mut waiting = Vec::new();
        for _ in 0..10 {
            let mut next = Box::pin(turns.acquire(&noisy));
            let soon = timeout(Duration::ZERO, &mut next).await;
            assert!(soon.is_err());
            waiting.push(next);
        }
        // Another space has its turn at once.
        let other = timeout(Duration::ZERO, turns.acquire(&quiet)).await;
        assert!(other.is_ok());
        drop(first);
        assert!(timeout(Duration::ZERO, waiting.remove(0)).await.is_ok());
    }
}
