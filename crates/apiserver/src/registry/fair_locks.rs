//! Turns at what only one can change at a time.
//!
//! A turn exists while somebody has it or waits for it, and is forgotten then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};

use insula_cache::Place;

/// All turns of one server.
#[derive(Clone, Debug, Default)]
pub struct FairLocks {
    places: Arc<Mutex<HashMap<Place, Arc<FairMutex<()>>>>>,
}

/// The turn at a place, until it is dropped.
#[derive(Debug)]
pub struct FairLockGuard {
    // Given back before the place is forgotten.
    _held: OwnedMutexGuard<()>,
    _waiting: Waiting,
}

/// Somebody who has a turn, or waits for it.
#[derive(Debug)]
struct Waiting {
    at: FairLocks,
    place: Place,
    mutex: Option<Arc<FairMutex<()>>>,
}

impl FairLocks {
    /// Waits for the turn at a place, in the order in which it was asked for.
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

    /// At how many places somebody has a turn.
    pub fn len(&self) -> usize {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.len()
    }

    /// Whether nobody has a turn anywhere.
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
        // Who comes takes it from the map, under the lock: if the map alone has it, nobody
        // waits.
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
    async fn a_turn_is_had_by_one_and_forgotten_after_the_last() {
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
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let locks = FairLocks::default();
        let first = locks.lock(place("a")).await;
        let brief = Duration::from_millis(1);
        let given_up = tokio::time::timeout(brief, locks.lock(place("a"))).await;
        assert!(given_up.is_err());
        drop(first);
        assert!(locks.is_empty());
    }

    #[tokio::test]
    async fn a_place_is_left_when_the_holder_goes_before_who_gives_up() {
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
