//! Fair locks by namespace, for changes that must be made one at a time.
//!
//! A lock exists only while it is held or waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};

use insula_cache::Place;

/// The locks of one server.
#[derive(Clone, Debug, Default)]
pub struct FairLocks {
    places: Arc<Mutex<HashMap<Place, Arc<FairMutex<()>>>>>,
}

/// A held lock. Dropping it releases the lock.
#[derive(Debug)]
pub struct FairLockGuard {
    // Released before the entry is removed: fields drop in this order.
    _held: OwnedMutexGuard<()>,
    _waiting: Waiting,
}

/// A holder of a lock, or a waiter for it.
#[derive(Debug)]
struct Waiting {
    at: FairLocks,
    place: Place,
    mutex: Option<Arc<FairMutex<()>>>,
}

impl FairLocks {
    /// Acquires the lock of a namespace or space, in the order of the calls.
    pub async fn lock(&self, place: Place) -> FairLockGuard {
        let mutex = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(places.entry(place.clone()).or_default())
        };
        let waiting = Waiting {
            at: self.clone(),
            place,
            mutex: Some(Arc::clone(&mutex)),
        };
        FairLockGuard {
            _held: mutex.lock_owned().await,
            _waiting: waiting,
        }
    }

    /// Returns the number of locks that are held or waited for.
    pub fn len(&self) -> usize {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.len()
    }

    /// Whether no lock is held or waited for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut places = self
            .at
            .places
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.mutex = None;
        // Waiters clone the mutex under the map's lock, so a count of one means that none waits.
        if places
            .get(&self.place)
            .is_some_and(|mutex| Arc::strong_count(mutex) == 1)
        {
            places.remove(&self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use insula_core::Space;

    use super::*;

    fn place(namespace: &str) -> Place {
        (Space::System, Some(namespace.into()))
    }

    #[tokio::test]
    async fn lock_is_exclusive_and_removed_after_the_last_holder() {
        let locks = FairLocks::default();
        let first = locks.lock(place("a")).await;
        let second = tokio::spawn({
            let locks = locks.clone();
            async move { drop(locks.lock(place("a")).await) }
        });
        drop(locks.lock(place("b")).await);
        assert_eq!(locks.len(), 1);
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap();
        assert!(locks.is_empty());
    }

    #[tokio::test]
    async fn cancelled_waiter_leaves_no_state_behind() {
        let locks = FairLocks::default();
        let first = locks.lock(place("a")).await;
        let brief = Duration::from_millis(1);
        let given_up = tokio::time::timeout(brief, locks.lock(place("a"))).await;
        assert!(given_up.is_err());
        drop(first);
        assert!(locks.is_empty());
    }

    #[tokio::test]
    async fn lock_is_removed_when_the_holder_leaves_before_a_cancelled_waiter() {
        let locks = FairLocks::default();
        let first = locks.lock(place("a")).await;
        let mut second = Box::pin(locks.lock(place("a")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert_eq!(locks.len(), 1);
        drop(second);
        assert!(locks.is_empty());
    }
}
