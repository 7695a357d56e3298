//! Watches on their way to be woken, in turns by space.
//!
//! A change may concern thousands of watches of one space. If all were woken at once, the requests
//! of other spaces would wait until the last of them has sent its event.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use insula_core::Space;

use crate::collection::Subscriber;

/// The watches that are yet to be woken, by the space that they are charged to.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    queues: HashMap<Space, VecDeque<Arc<Subscriber>>>,
    /// The spaces with a queue, in the order of their turns.
    order: VecDeque<Space>,
}

/// The most watches that are woken before other tasks run.
const MAX_WOKEN: usize = 32;

/// The most watches of one space that are woken before the next space has its turn.
const MAX_WOKEN_OF_SPACE: usize = 8;

impl Delivery {
    /// Wakes the watches at once if they are few, and in turns if they are many.
    pub fn add(&mut self, marked: Vec<Arc<Subscriber>>) {
        if marked.len() <= MAX_WOKEN {
            for subscriber in marked {
                subscriber.wake();
            }
            return;
        }
        for subscriber in marked {
            let queue = self.queues.entry(subscriber.payer().clone());
            let queue = queue.or_insert_with(|| {
                self.order.push_back(subscriber.payer().clone());
                VecDeque::new()
            });
            queue.push_back(subscriber);
        }
    }

    /// Whether no watch is left to be woken.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Wakes the next watches, some of each space.
    pub fn wake_some(&mut self) {
        let mut left = MAX_WOKEN;
        while left > 0
            && let Some(space) = self.order.pop_front()
        {
            let Some(queue) = self.queues.get_mut(&space) else {
                continue;
            };
            let count = queue.len().min(left).min(MAX_WOKEN_OF_SPACE);
            left -= count;
            for subscriber in queue.drain(..count) {
                subscriber.wake();
            }
            match queue.is_empty() {
                true => drop(self.queues.remove(&space)),
                false => self.order.push_back(space),
            }
        }
    }
}
