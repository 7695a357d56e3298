//! A limit of concurrent uses per key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits the concurrent uses of each key. A key has state only while it is in use.
#[derive(Debug)]
pub struct KeyedLimit<K> {
    each: usize,
    keys: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// The permit of one use.
pub struct KeyedPermit<K: Eq + Hash> {
    limit: Arc<KeyedLimit<K>>,
    key: K,
    permit: Option<OwnedSemaphorePermit>,
    semaphore: Arc<Semaphore>,
}

impl<K: Clone + Eq + Hash> KeyedLimit<K> {
    /// Creates a limit of `each` uses per key, at least one.
    pub fn new(each: usize) -> Self {
        Self {
            each: each.max(1),
            keys: Mutex::default(),
        }
    }

    /// Waits for a permit. Waiters of one key are served in the order of their arrival.
    pub async fn acquire(self: &Arc<Self>, key: &K) -> KeyedPermit<K> {
        let semaphore = {
            let mut keys = self.lock();
            let new = || Arc::new(Semaphore::new(self.each));
            Arc::clone(keys.entry(key.clone()).or_insert_with(new))
        };
        // Created first, so that dropping a cancelled wait cleans up as well.
        let mut permit = KeyedPermit {
            limit: Arc::clone(self),
            key: key.clone(),
            permit: None,
            semaphore,
        };
        // The semaphore is never closed.
        permit.permit = Arc::clone(&permit.semaphore).acquire_owned().await.ok();
        permit
    }
}

impl<K> KeyedLimit<K> {
    /// Returns the number of keys in use.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no key is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Semaphore>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        let mut keys = self.limit.lock();
        self.permit = None;
        // The map's reference and this one: no other use holds or awaits a permit.
        if Arc::strong_count(&self.semaphore) <= 2 {
            keys.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn key_waits_for_its_own_uses_only_and_leaves_no_state_behind() {
        let limit = Arc::new(KeyedLimit::new(2));
        let first = now(limit.acquire(&1)).unwrap();
        let second = now(limit.acquire(&1)).unwrap();
        assert!(now(limit.acquire(&1)).is_none());
        let third = now(limit.acquire(&2)).unwrap();
        drop(first);
        let fourth = now(limit.acquire(&1)).unwrap();
        drop((second, third, fourth));
        assert!(limit.is_empty());
    }
}
