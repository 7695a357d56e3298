//! Objects to reconcile again, reported by other reconciliations.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, stream};
use tokio::sync::Notify;

/// A set of pending keys, each once.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    names: Mutex<BTreeSet<Arc<str>>>,
    said: Notify,
}

impl Wakes {
    /// Adds a key.
    pub fn say(&self, name: Arc<str>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(name);
        self.said.notify_one();
    }

    /// Returns the keys one after the other. There is only one listener.
    pub fn hear(self: Arc<Self>) -> impl Stream<Item = Arc<str>> {
        stream::unfold(self, |wakes| async {
            loop {
                if let Some(name) = wakes.take() {
                    return Some((name, wakes));
                }
                wakes.said.notified().await;
            }
        })
    }

    fn take(&self) -> Option<Arc<str>> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn each_name_is_heard_once_however_often_it_was_said() {
        let wakes = Arc::new(Wakes::default());
        let mut heard = std::pin::pin!(Arc::clone(&wakes).hear());
        assert_eq!(heard.next().now_or_never(), None);
        for name in ["b", "a", "b"] {
            wakes.say(name.into());
        }
        for name in ["a", "b"] {
            assert_eq!(heard.next().now_or_never(), Some(Some(name.into())));
        }
        assert_eq!(heard.next().now_or_never(), None);
        wakes.say("b".into());
        assert_eq!(heard.next().now_or_never(), Some(Some("b".into())));
    }
}
