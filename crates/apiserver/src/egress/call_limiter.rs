//! The limit of concurrent calls per space.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use insula_core::Space;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits the concurrent calls of each space. A space has state only while it has calls.
#[derive(Debug)]
pub(super) struct CallLimiter {
    each: usize,
    spaces: Mutex<HashMap<Space, Arc<Semaphore>>>,
}

/// The permit of one call.
pub(super) struct CallPermit<'a> {
    call_limiter: &'a CallLimiter,
    space: &'a Space,
    permit: Option<OwnedSemaphorePermit>,
    semaphore: Arc<Semaphore>,
}

impl CallLimiter {
    pub fn new(each: usize) -> Self {
        Self {
            each: each.max(1),
            spaces: Mutex::default(),
        }
    }

    /// Waits for a permit.
    pub async fn take<'a>(&'a self, space: &'a Space) -> CallPermit<'a> {
        let semaphore = {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(self.each));
            Arc::clone(spaces.entry(space.clone()).or_insert_with(new))
        };
        // Created first, so that dropping a cancelled wait cleans up as well.
        let mut permit = CallPermit {
            call_limiter: self,
            space,
            permit: None,
            semaphore,
        };
        // The semaphore is never closed.
        permit.permit = Arc::clone(&permit.semaphore).acquire_owned().await.ok();
        permit
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        let spaces = &self.call_limiter.spaces;
        let mut spaces = spaces.lock().unwrap_or_else(PoisonError::into_inner);
        self.permit = None;
        // The map's reference and this one: no other call holds or awaits a permit.
        if Arc::strong_count(&self.semaphore) <= 2 {
            spaces.remove(self.space);
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
    fn space_waits_for_its_own_calls_only_and_leaves_no_state_behind() {
        let call_limiter = CallLimiter::new(2);
        let one = Space::System;
        let other = Space::parse("t1").unwrap();
        let first = now(call_limiter.take(&one)).unwrap();
        let second = now(call_limiter.take(&one)).unwrap();
        assert!(now(call_limiter.take(&one)).is_none());
        let third = now(call_limiter.take(&other)).unwrap();
        drop(first);
        let fourth = now(call_limiter.take(&one)).unwrap();
        drop((second, third, fourth));
        assert!(call_limiter.spaces.lock().unwrap().is_empty());
    }
}
