//! Connections on which a client exceeded the rate of its space.
//!
//! A refusal costs less than a request, but a client can cause as many as it likes. So a connection
//! is on probation after one: while its space has too many refusals, it is served with pauses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether a client exceeded the rate of its space on a connection.
#[derive(Debug, Default)]
pub(super) struct RateProbation {
    /// Whether requests of several spaces came on the connection, as from a proxy. Then it is never
    /// on probation, because one space would suffer for the other.
    is_shared: AtomicBool,
    /// Whether `last_refusal` is set, which is rare.
    was_refused: AtomicBool,
    last_refusal: Mutex<Option<Instant>>,
}

/// How long a connection is on probation after a refusal.
const PROBATION: Duration = Duration::from_secs(10);

impl RateProbation {
    /// Notes that requests of several spaces come on the connection.
    pub fn note_shared(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// Notes that a request exceeded the rate.
    pub fn note_refusal(&self) {
        self.set(Some(Instant::now()));
    }

    /// Whether a request exceeded the rate lately.
    pub fn is_active(&self) -> bool {
        if !self.was_refused.load(Ordering::Acquire) || self.is_shared.load(Ordering::Relaxed) {
            return false;
        }
        let last = *self
            .last_refusal
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_active = last.is_some_and(|at| at.elapsed() <= PROBATION);
        if !is_active {
            self.set(None);
        }
        is_active
    }

    fn set(&self, refusal: Option<Instant>) {
        let mut last = self
            .last_refusal
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = refusal;
        self.was_refused.store(refusal.is_some(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn probation_ends_after_a_while_without_refusals() {
        let probation = RateProbation::default();
        assert!(!probation.is_active());
        for _ in 0..2 {
            probation.note_refusal();
            tokio::time::advance(PROBATION).await;
            assert!(probation.is_active());
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!probation.is_active());
    }

    #[tokio::test(start_paused = true)]
    async fn shared_connection_is_never_on_probation() {
        let probation = RateProbation::default();
        probation.note_refusal();
        probation.note_shared();
        assert!(!probation.is_active());
    }
}
