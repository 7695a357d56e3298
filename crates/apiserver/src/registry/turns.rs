//! Turns at what only one can change at a time.
//!
//! A turn exists while somebody has it or waits for it, and is forgotten then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};

use insula_cache::Place;

/// All turns of one server.
#[derive(Clone, Debug, Default)]
pub struct Turnstiles {
    places: Arc<Mutex<HashMap<Place, Arc<Turnstile<()>>>>>,
}

/// The turn at a place, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    // Given back before the place is forgotten.
    _held: OwnedMutexGuard<()>,
    _waiting: Waiting,
}

/// Somebody who has a turn, or waits for it.
#[derive(Debug)]
struct Waiting {
    at: Turnstiles,
    place: Place,
    turnstile: Option<Arc<Turnstile<()>>>,
}

impl Turnstiles {
    /// Waits for the turn at a place, in the order in which it was asked for.
    pub async fn take(&self, place: Place) -> Turn {
        let turnstile = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(places.entry(place.clone()).or_default())
        };
        let waiting = Waiting {
            at: self.clone(),
            place,
            turnstile: Some(Arc::clone(&turnstile)),
        };
        Turn {
            _held: turnstile.lock_owned().await,
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
        self.turnstile = None;
        // Who comes takes it from the map, under the lock: if the map alone has it, nobody
        // waits.
        if places
            .get(&self.place)
            .is_some_and(|turnstile| Arc::strong_count(turnstile) == 1)
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
        let turns = Turnstiles::default();
        let first = turns.take(place("a")).await;
        let second = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.take(place("a")).await) }
        });
        drop(turns.take(place("b")).await);
        assert_eq!(turns.len(), 1);
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap();
        assert!(turns.is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let turns = Turnstiles::default();
        let first = turns.take(place("a")).await;
        let brief = Duration::from_millis(1);
        let given_up = tokio::time::timeout(brief, turns.take(place("a"))).await;
        assert!(given_up.is_err());
        drop(first);
        assert!(turns.is_empty());
    }

    #[tokio::test]
    async fn a_place_is_left_when_the_holder_goes_before_who_gives_up() {
        let turns = Turnstiles::default();
        let first = turns.take(place("a")).await;
        let mut second = Box::pin(turns.take(place("a")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(second.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert_eq!(turns.len(), 1);
        drop(second);
        assert!(turns.is_empty());
    }
}
