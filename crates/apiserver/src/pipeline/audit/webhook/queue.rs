//! The buffer of the webhook backend.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Events that are yet to be sent, bounded in number and bytes.
#[derive(Debug)]
pub struct Queue {
    max_events: usize,
    max_bytes: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    /// An empty queue.
    pub fn new(max_events: usize, max_bytes: usize) -> Self {
        Self {
            max_events,
            max_bytes,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Adds an event. Returns `false` if the queue is full or closed.
    pub fn push(&self, event: Bytes) -> bool {
        let mut state = self.state();
        let is_full = state.events.len() >= self.max_events
            || state.bytes.saturating_add(event.len()) > self.max_bytes;
        if is_full || state.closed {
            return false;
        }
        state.bytes += event.len();
        state.events.push_back(event);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Takes a batch: as soon as it is complete, or `max_wait` after its first event. Returns
    /// `None` once the queue is closed and empty.
    pub async fn take(
        &self,
        max_events: usize,
        max_bytes: usize,
        max_wait: Duration,
    ) -> Option<Vec<Bytes>> {
        while self.len() == 0 {
            if self.state().closed {
                return None;
            }
            self.changed.notified().await;
        }
        let due = Instant::now() + max_wait;
        loop {
            {
                let state = self.state();
                let is_complete =
                    state.events.len() >= max_events || state.bytes >= max_bytes || state.closed;
                if is_complete {
                    break;
                }
            }
            if timeout_at(due, self.changed.notified()).await.is_err() {
                break;
            }
        }
        Some(self.state().batch(max_events, max_bytes))
    }

    /// Refuses further events, and sends what there is without delay.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_one();
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.state().events.len()
    }

    /// The lock is never poisoned: no code panics while it holds the state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes events up to the limits, at least one.
    fn batch(&mut self, max_events: usize, max_bytes: usize) -> Vec<Bytes> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.events.front().map(Bytes::len) {
            let fits = batch.len() < max_events && bytes + next <= max_bytes;
            if !fits && !batch.is_empty() {
                break;
            }
            bytes += next;
            batch.extend(self.events.pop_front());
        }
        self.bytes -= bytes;
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn event(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn batch_is_taken_when_complete_or_due() {
        let queue = Queue::new(100, 100);
        for text in ["one", "two", "six", "longer event"] {
            assert!(queue.push(event(text)));
        }
        let begin = Instant::now();
        assert_eq!(queue.take(2, 100, HOUR).await.unwrap(), ["one", "two"]);
        assert_eq!(queue.take(100, 10, HOUR).await.unwrap(), ["six"]);
        // Larger than a batch, and yet sent.
        assert_eq!(queue.take(100, 5, HOUR).await.unwrap(), ["longer event"]);
        assert_eq!(begin.elapsed(), Duration::ZERO);
        queue.push(event("late"));
        assert_eq!(queue.take(2, 100, HOUR).await.unwrap(), ["late"]);
        assert_eq!(begin.elapsed(), HOUR);
        queue.push(event("last"));
        queue.close();
        assert_eq!(queue.take(2, 100, HOUR).await.unwrap(), ["last"]);
        assert_eq!(queue.take(2, 100, HOUR).await, None);
        assert_eq!(begin.elapsed(), HOUR);
        assert!(!queue.push(event("after the end")));
    }

    #[test]
    fn queue_is_bounded_in_events_and_bytes() {
        let few = Queue::new(2, 100);
        assert_eq!([0, 1, 2].map(|_| few.push(event("e"))), [true, true, false]);
        let small = Queue::new(100, 5);
        assert_eq!(
            ["four", "2", "x"].map(|text| small.push(event(text))),
            [true, true, false]
        );
        assert_eq!(small.len(), 2);
    }
}
