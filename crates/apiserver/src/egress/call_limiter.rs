//! How many calls a space has under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use insula_core::Space;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Seats of each space. A space is remembered while it has calls under way.
#[derive(Debug)]
pub(super) struct CallLimiter {
    each: usize,
    spaces: Mutex<HashMap<Space, Arc<Semaphore>>>,
}

/// A call that is under way.
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

    /// Waits for a seat.
    pub async fn take<'a>(&'a self, space: &'a Space) -> CallPermit<'a> {
        let semaphore = {
            let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(self.each));
            Arc::clone(spaces.entry(space.clone()).or_insert_with(new))
        };
        // Made first, so that whoever gives up waiting is forgotten as well.
        let mut seat = CallPermit {
            call_limiter: self,
            space,
            permit: None,
            semaphore,
        };
        // It is never closed.
        seat.permit = Arc::clone(&seat.semaphore).acquire_owned().await.ok();
        seat
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        let spaces = &self.call_limiter.spaces;
        let mut spaces = spaces.lock().unwrap_or_else(PoisonError::into_inner);
        self.permit = None;
        // The map's and this one: nobody else sits or waits, and nobody comes meanwhile.
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
    fn a_space_waits_for_its_own_calls_only_and_is_forgotten_with_the_last() {
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
