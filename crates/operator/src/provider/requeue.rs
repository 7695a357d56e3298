//! Objects to reconcile again, reported by other reconciliations, or by watches of a provider.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, stream};
use tokio::sync::Notify;

/// A set of pending keys, each once.
#[derive(Debug, Default)]
pub struct Requeue {
    pending: Mutex<BTreeSet<Arc<str>>>,
    added: Notify,
}

impl Requeue {
    /// Adds the key of an object, as [`Key::text`](crate::key::Key::text) returns it.
    pub fn add(&self, name: Arc<str>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(name);
        self.added.notify_one();
    }

    /// Returns the keys one after the other. There is only one listener.
    pub fn keys(self: Arc<Self>) -> impl Stream<Item = Arc<str>> {
        stream::unfold(self, |requeue| async {
            loop {
                if let Some(name) = requeue.take() {
                    return Some((name, requeue));
                }
                requeue.added.notified().await;
            }
        })
    }

    fn take(&self) -> Option<Arc<str>> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn each_key_is_delivered_once() {
        let requeue = Arc::new(Requeue::default());
        let mut keys = std::pin::pin!(Arc::clone(&requeue).keys());
        assert_eq!(keys.next().now_or_never(), None);
        for name in ["b", "a", "b"] {
            requeue.add(name.into());
        }
        for name in ["a", "b"] {
            assert_eq!(keys.next().now_or_never(), Some(Some(name.into())));
        }
        assert_eq!(keys.next().now_or_never(), None);
        requeue.add("b".into());
        assert_eq!(keys.next().now_or_never(), Some(Some("b".into())));
    }
}
