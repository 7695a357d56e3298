//! The revision up to which the cache has applied the store's changes, and who waits for it.
//!
//! Requests wait for a revision by the hundred while many objects are written. Each is woken once,
//! when its own revision is applied, and not at every revision before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use insula_core::Revision;
use tokio::sync::{Notify, oneshot};

/// The revision up to which everything is applied.
#[derive(Debug)]
pub struct Applied {
    revision: AtomicU64,
    /// The waiting readers, by the revision that each waits for.
    waiting: Mutex<BTreeMap<u64, Vec<oneshot::Sender<()>>>>,
    advanced: Notify,
}

impl Applied {
    pub fn new(revision: Revision) -> Self {
        Self {
            revision: AtomicU64::new(revision.get()),
            waiting: Mutex::default(),
            advanced: Notify::new(),
        }
    }

    pub fn revision(&self) -> Revision {
        Revision::new(self.revision.load(Ordering::Acquire))
    }

    /// Returns a receiver that completes when the revision is applied; `None` if it is.
    pub fn wait_for(&self, revision: Revision) -> Option<oneshot::Receiver<()>> {
        if self.revision() >= revision {
            return None;
        }
        let mut waiting = self.waiting();
        // Advancing locks after it has stored the revision: it sees this reader, or this reader
        // sees the revision.
        if self.revision() >= revision {
            return None;
        }
        let (reached, wait) = oneshot::channel();
        let others = waiting.entry(revision.get()).or_default();
        // Readers that gave up would pile up at a revision that is never reached.
        others.retain(|other| !other.is_closed());
        others.push(reached);
        Some(wait)
    }

    /// Notes that everything up to a revision is applied.
    pub fn advance(&self, revision: Revision) {
        self.revision.fetch_max(revision.get(), Ordering::AcqRel);
        let mut waiting = self.waiting();
        let later = match waiting.first_key_value() {
            Some((first, _)) if *first <= revision.get() => {
                waiting.split_off(&revision.get().saturating_add(1))
            }
            _ => std::mem::take(&mut *waiting),
        };
        let reached = std::mem::replace(&mut *waiting, later);
        drop(waiting);
        for reader in reached.into_values().flatten() {
            // A reader that gave up is gone.
            reader.send(()).ok();
        }
        self.advanced.notify_waiters();
    }

    /// Notified whenever a revision is applied.
    pub const fn advanced(&self) -> &Notify {
        &self.advanced
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<oneshot::Sender<()>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(revision: u64) -> Revision {
        Revision::new(revision)
    }

    #[test]
    fn readers_are_woken_when_their_revision_is_applied_and_not_before() {
        let applied = Applied::new(at(5));
        assert!(applied.wait_for(at(5)).is_none());
        let mut seven = applied.wait_for(at(7)).unwrap();
        let mut nine = applied.wait_for(at(9)).unwrap();
        applied.advance(at(6));
        assert_eq!(seven.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        applied.advance(at(8));
        assert_eq!(seven.try_recv(), Ok(()));
        assert_eq!(nine.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        applied.advance(at(9));
        assert_eq!(nine.try_recv(), Ok(()));
        assert_eq!(applied.revision(), at(9));
        applied.advance(at(3));
        assert_eq!(applied.revision(), at(9));
    }

    #[test]
    fn readers_that_gave_up_take_no_room() {
        let applied = Applied::new(at(0));
        for _ in 0..1000 {
            drop(applied.wait_for(at(1_000_000)));
        }
        let kept = applied.waiting().values().map(Vec::len).sum::<usize>();
        assert_eq!(kept, 1);
    }
}
