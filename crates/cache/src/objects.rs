//! The objects of a collection in key order. A clone is a snapshot, and costs one pointer.

use std::sync::Arc;

use crate::entry::Stored;
use crate::tree::{Item, Tree};

/// The objects of one kind in one space, at one revision.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    all: Tree<Arc<Stored>>,
}

impl Item for Arc<Stored> {
    type Key = str;
    type OwnedKey = Arc<str>;

    fn key(&self) -> &str {
        &self.key
    }

    fn owned_key(&self) -> Arc<str> {
        Arc::clone(&self.key)
    }
}

impl Objects {
    /// The number of objects.
    pub const fn len(&self) -> usize {
        self.all.weight()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the object at `key`.
    pub fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.all.get(key)
    }

    /// Returns the objects with keys that begin with `prefix` and follow `after`, in key order.
    pub fn range<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        let rest = self.all.iter_from(|key| is_before(key, prefix, after));
        rest.take_while(move |object| object.key.starts_with(prefix))
    }

    /// Returns the number of objects with keys that begin with `prefix` and follow `after`. They
    /// are not visited.
    pub fn count(&self, prefix: &str, after: Option<&str>) -> usize {
        if prefix.is_empty() && after.is_none() {
            return self.len();
        }
        let before = |key: &str| is_before(key, prefix, after);
        let until = |key: &str| before(key) || key < prefix || key.starts_with(prefix);
        self.all.weight_before(until) - self.all.weight_before(before)
    }

    pub(crate) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        self.all.insert(object)
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        self.all.remove(key)
    }
}

/// Whether a key is before the range of keys that begin with `prefix` and follow `after`.
fn is_before(key: &str, prefix: &str, after: Option<&str>) -> bool {
    key < prefix || after.is_some_and(|after| key <= after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_core::Revision;

    fn objects(keys: &[&str]) -> Objects {
        let mut objects = Objects::default();
        for key in keys {
            let object = Stored::new((*key).into(), Revision::new(1), b"{}");
            objects.insert(Arc::new(object));
        }
        objects
    }

    #[test]
    fn range_and_count_agree() {
        let keys = ["a", "a-b/x", "a/x", "a/y", "a/z", "ab/x", "b/x"];
        let objects = objects(&keys);
        for prefix in ["", "a", "a/", "a/y", "ab/", "b/", "c/"] {
            for after in [
                None,
                Some("a"),
                Some("a/"),
                Some("a/y"),
                Some("a/z"),
                Some("z"),
            ] {
                let wanted: Vec<_> = keys
                    .iter()
                    .filter(|key| {
                        key.starts_with(prefix) && after.is_none_or(|after| **key > after)
                    })
                    .collect();
                let found = objects.range(prefix, after);
                let found: Vec<_> = found.map(|object| object.key.to_string()).collect();
                assert_eq!(
                    found.iter().collect::<Vec<_>>(),
                    wanted,
                    "{prefix} {after:?}"
                );
                assert_eq!(
                    objects.count(prefix, after),
                    wanted.len(),
                    "{prefix} {after:?}"
                );
            }
        }
    }
}
