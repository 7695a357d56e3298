//! The watchers of each key.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::Subscriber;
use crate::{Key, KeyRange};

/// The key space, split wherever a watched range begins or ends; each piece has a list of its
/// watchers.
///
/// Finding the watchers of a key is one lookup, however many watch other keys.
pub(super) struct Routes {
    /// Watchers by the start of each piece. There is always one at the smallest key.
    pieces: BTreeMap<Key, Vec<Arc<Subscriber>>>,
    /// Watchers of empty ranges, which only wait for the end.
    idle: Vec<Arc<Subscriber>>,
}

impl Routes {
    pub fn new() -> Self {
        Self {
            pieces: BTreeMap::from([(Key::new(), Vec::new())]),
            idle: Vec::new(),
        }
    }

    /// The watchers of `key`.
    pub fn of(&self, key: &Key) -> &[Arc<Subscriber>] {
        let below = (Bound::Unbounded, Bound::Included(key));
        let piece = self.pieces.range::<Key, _>(below).next_back();
        piece.map_or(&[], |(_, subscribers)| subscribers)
    }

    pub fn add(&mut self, range: &KeyRange, subscriber: &Arc<Subscriber>) {
        if range.is_empty() {
            self.idle.push(Arc::clone(subscriber));
            return;
        }
        self.cut(range.start());
        if let Some(end) = range.end() {
            self.cut(end);
        }
        for (_, subscribers) in self.pieces.range_mut(range.bounds()) {
            subscribers.push(Arc::clone(subscriber));
        }
    }

    pub fn remove(&mut self, range: &KeyRange, subscriber: &Arc<Subscriber>) {
        if range.is_empty() {
            self.idle.retain(|other| !Arc::ptr_eq(other, subscriber));
            return;
        }
        for (_, subscribers) in self.pieces.range_mut(range.bounds()) {
            subscribers.retain(|other| !Arc::ptr_eq(other, subscriber));
        }
        self.join(range.start());
        if let Some(end) = range.end() {
            self.join(end);
        }
    }

    /// Every watcher, some of them several times.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Subscriber>> {
        self.pieces.values().flatten().chain(&self.idle)
    }

    /// Splits the piece that contains `key`, so that one starts there.
    fn cut(&mut self, key: &Key) {
        if !self.pieces.contains_key(key) {
            let subscribers = self.of(key).to_vec();
            self.pieces.insert(key.clone(), subscribers);
        }
    }

    /// Removes the split at `key` if both sides have the same watchers.
    fn join(&mut self, key: &Key) {
        let below = (Bound::Unbounded, Bound::Excluded(key));
        let Some((_, before)) = self.pieces.range::<Key, _>(below).next_back() else {
            return;
        };
        let Some(here) = self.pieces.get(key) else {
            return;
        };
        let same =
            before.len() == here.len() && before.iter().zip(here).all(|(a, b)| Arc::ptr_eq(a, b));
        if same {
            self.pieces.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;
    use tokio::sync::Notify;

    use super::*;

    fn subscriber() -> Arc<Subscriber> {
        Arc::new(Subscriber {
            queue: Mutex::default(),
            wake: Notify::new(),
        })
    }

    fn any_key() -> impl Strategy<Value = Key> {
        prop::collection::vec(b'a'..=b'c', 0..3).prop_map(Key::from)
    }

    fn any_range() -> impl Strategy<Value = KeyRange> {
        prop_oneof![
            any_key().prop_map(KeyRange::prefix),
            any_key().prop_map(KeyRange::single),
            (any_key(), any_key()).prop_map(|(from, to)| KeyRange::between(from, to)),
            Just(KeyRange::all()),
        ]
    }

    proptest! {
        #[test]
        fn key_is_routed_to_the_watchers_of_its_ranges(
            ranges in prop::collection::vec((any_range(), any::<bool>()), 0..12),
            keys in prop::collection::vec(any_key(), 12),
        ) {
            let mut routes = Routes::new();
            let all: Vec<_> = ranges.iter().map(|(range, stays)| (range, *stays, subscriber())).collect();
            for (range, _, subscriber) in &all {
                routes.add(range, subscriber);
            }
            for (range, _, subscriber) in all.iter().filter(|(_, stays, _)| !stays) {
                routes.remove(range, subscriber);
            }
            for key in keys {
                let found = routes.of(&key);
                for (range, stays, subscriber) in &all {
                    let times = found.iter().filter(|other| Arc::ptr_eq(other, subscriber)).count();
                    prop_assert_eq!(times, usize::from(*stays && range.contains(&key)));
                }
            }
            for (range, _, subscriber) in all.iter().filter(|(_, stays, _)| *stays) {
                routes.remove(range, subscriber);
            }
            prop_assert_eq!(routes.all().count(), 0);
        }
    }
}
