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
    /// While the disk of the store is almost full, the history that is kept is so much shorter, and
    /// compacted so much more often. A server that starts must be able to read all objects at one
    /// revision meanwhile.
    const LOW_SPACE_DIVISOR: u32 = 10;

    /// Compacts until it is dropped.
    pub async fn run(self, store: Arc<dyn Store>) {
        let mut ticks = interval(self.keep / Self::STEPS / Self::LOW_SPACE_DIVISOR);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut past: VecDeque<(Instant, Revision)> = VecDeque::new();
        for tick in (0..Self::LOW_SPACE_DIVISOR).cycle() {
            ticks.tick().await;
            let is_low = store.disk_space().is_some_and(|space| space.is_low);
            if tick != 0 && !is_low {
                continue;
            }
            let keep = match is_low {
                true => self.keep / Self::LOW_SPACE_DIVISOR,
                false => self.keep,
            };
            // An unavailable store is asked again at the next step.
            if let Ok(revision) = store.revision().await {
                past.push_back((Instant::now(), revision));
            }
            if let Some(floor) = due(&mut past, keep) {
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
}

/// The newest revision that is older than `keep`.
fn due(past: &mut VecDeque<(Instant, Revision)>, keep: Duration) -> Option<Revision> {
    let mut floor = None;
    while let Some((seen, revision)) = past.front() {
        if seen.elapsed() < keep {
            break;
        }
        floor = Some(*revision);
        past.pop_front();
    }
    floor
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

    /// A store on a disk that is almost full.
    struct LowSpace(Memory);

    #[async_trait::async_trait]
    impl Store for LowSpace {
        async fn revision(&self) -> crate::Result<Revision> {
            self.0.revision().await
        }

        async fn range(
            &self,
            range: &KeyRange,
            at: At,
            limit: Option<std::num::NonZeroUsize>,
        ) -> crate::Result<crate::Page> {
            self.0.range(range, at, limit).await
        }

        async fn commit(&self, transaction: Transaction) -> crate::Result<Outcome> {
            self.0.commit(transaction).await
        }

        async fn watch(
            &self,
            range: KeyRange,
            after: Revision,
        ) -> crate::Result<Box<dyn crate::Watch>> {
            self.0.watch(range, after).await
        }

        async fn compact(&self, floor: Revision) -> crate::Result<()> {
            self.0.compact(floor).await
        }

        fn disk_space(&self) -> Option<crate::DiskSpace> {
            Some(crate::DiskSpace {
                free_bytes: 0,
                reserved_bytes: 1,
                refused_writes: 0,
                is_low: true,
            })
        }
    }

    #[tokio::test]
    async fn history_is_shorter_while_the_disk_is_almost_full() {
        let store = Arc::new(LowSpace(Memory::new()));
        let keep = Duration::from_secs(10);
        let running = tokio::spawn(Compactor { keep }.run(Arc::<LowSpace>::clone(&store)));
        let put = Transaction::new().put("a", "1");
        let Ok(Outcome::Committed(old)) = store.commit(put.clone()).await else {
            panic!("not committed")
        };
        let written = Instant::now();
        store.commit(put).await.unwrap();
        let all = KeyRange::all();
        while store.range(&all, At::Revision(old), None).await.is_ok() {
            assert!(written.elapsed() < keep, "kept as long as usual");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let kept = written.elapsed();
        assert!(kept >= keep / Compactor::LOW_SPACE_DIVISOR, "{kept:?}");
        running.abort();
    }
}
