//! Compacts history at a constant distance behind the present.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_core::Revision;
use tokio::time::{MissedTickBehavior, interval};

use crate::{Error, Store};

/// Compacts a store so that about `keep` of history is available.
///
/// Each replica over one etcd may run its own: a revision compacted by one is no work for the
/// others, and none of them removes history younger than `keep`.
#[derive(Clone, Copy, Debug)]
pub struct Compactor {
    /// How much history is kept. Clients that were disconnected for longer list again.
    pub keep: Duration,
}

impl Default for Compactor {
    /// Five minutes, as in kube-apiserver.
    fn default() -> Self {
        let keep = Duration::from_secs(300);
        Self { keep }
    }
}

impl Compactor {
    /// The number of compactions per `keep`.
    const STEPS: u32 = 5;

    /// Compacts until it is dropped.
    pub async fn run(self, store: Arc<dyn Store>) {
        let mut ticks = interval(self.keep / Self::STEPS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut past: VecDeque<(Instant, Revision)> = VecDeque::new();
        loop {
            ticks.tick().await;
            // An unavailable store is asked again at the next step.
            if let Ok(revision) = store.revision().await {
                past.push_back((Instant::now(), revision));
            }
            if let Some(floor) = self.due(&mut past) {
                match store.compact(floor).await {
                    Ok(()) => tracing::debug!(%floor, "history compacted"),
                    Err(Error::Unavailable(reason) | Error::Full(reason)) => {
                        tracing::warn!(%floor, reason, "history compaction failed");
                    }
                    Err(error) => tracing::error!(%floor, %error, "history compaction failed"),
                }
            }
        }
    }

    /// The newest revision that is older than `keep`.
    fn due(self, past: &mut VecDeque<(Instant, Revision)>) -> Option<Revision> {
        let mut floor = None;
        while let Some((seen, revision)) = past.front() {
            if seen.elapsed() < self.keep {
                break;
            }
            floor = Some(*revision);
            past.pop_front();
        }
        floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::{At, KeyRange, Outcome, Transaction};

    #[tokio::test]
    async fn history_is_kept_for_its_time_and_then_compacted() {
        let store = Arc::new(Memory::new());
        let keep = Duration::from_millis(200);
        let compactor = Compactor { keep };
        let running = tokio::spawn(compactor.run(Arc::<Memory>::clone(&store)));
        let put = Transaction::new().put("a", "1");
        let Ok(Outcome::Committed(old)) = store.commit(put.clone()).await else {
            panic!("not committed")
        };
        let written = Instant::now();
        store.commit(put).await.unwrap();
        let all = KeyRange::all();
        let readable = || store.range(&all, At::Revision(old), None);
        while readable().await.is_ok() {
            assert!(
                written.elapsed() < Duration::from_secs(20),
                "it is kept forever"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(
            written.elapsed() >= keep,
            "forgotten after {:?}",
            written.elapsed()
        );
        let forgotten = readable().await;
        assert!(matches!(forgotten, Err(Error::Compacted { floor }) if floor > old));
        running.abort();
    }
}
