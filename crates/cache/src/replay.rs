//! Events that are built again from the store, for watches that fell behind the logs.

use std::borrow::Cow;
use std::sync::Arc;

use insula_core::{Revision, Space};
use insula_store::{Changed, Entry};

use crate::collection::{Change, Event};
use crate::feed::{ObjectKey, shadowed};
use crate::{Cache, CollectionKey};

impl Cache {
    /// Returns the event of a change that the store delivers, and its space. `before` is the
    /// entry that the change replaced or deleted, if it was read. Returns `None` for a key that is
    /// not an object's, and for a deletion without an entry.
    pub fn replay(
        &self,
        revision: Revision,
        change: &Changed,
        before: Option<&Entry>,
    ) -> Option<(Space, Event)> {
        let found = self.parse(change.key())?;
        let stored = |entry: &Entry| {
            let found = found.corrected(&entry.value);
            let object = Arc::new(self.stored(&found, entry));
            (found, object)
        };
        Some(match change {
            Changed::Put(entry) => {
                let (found, object) = stored(entry);
                let is_new = entry.created == entry.modified;
                let before = match is_new {
                    true => shadowed(self, &found, &object),
                    false => before.map(|before| stored(before).1),
                };
                let change = match is_new && before.is_none() {
                    true => Change::Added,
                    false => Change::Modified,
                };
                (found.space, Event::new(revision, change, object, before))
            }
            Changed::Deleted(_) => {
                let (found, before) = stored(before?);
                let object = Arc::new(before.deleted(revision));
                let event = Event::new(revision, Change::Deleted, object, Some(before));
                (found.space, event)
            }
        })
    }
}

impl<'a> ObjectKey<'a> {
    /// Returns the key of the object with this value. The name of a tenant that is gone looks
    /// like a namespace of the system in a key; the value names the tenant.
    fn corrected(&self, value: &[u8]) -> ObjectKey<'a> {
        let uncorrected = ObjectKey {
            collection: self.collection,
            space: self.space.clone(),
            key: self.key,
        };
        let CollectionKey::Custom { .. } = self.collection else {
            return uncorrected;
        };
        let Some((first, rest)) = self.key.split_once('/') else {
            return uncorrected;
        };
        match tenant_of(value).and_then(|tenant| Space::parse(&tenant).ok()) {
            Some(space) if self.space.is_system() && space.to_string() == first => ObjectKey {
                space,
                key: rest,
                ..uncorrected
            },
            _ => uncorrected,
        }
    }
}

/// Returns the tenant that an object's metadata name; none for objects of the system.
pub fn tenant_of(object: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Top<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow)]
        tenant: Option<Cow<'a, str>>,
    }
    let top: Top<'_> = serde_json::from_slice(object).ok()?;
    top.metadata.tenant.filter(|tenant| !tenant.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenant_is_read_from_metadata() {
        for (object, expected) in [
            (r#"{"metadata":{"name":"a","tenant":"t1"}}"#, Some("t1")),
            (r#"{"metadata":{"name":"a","tenant":""}}"#, None),
            (r#"{"metadata":{"name":"a"},"tenant":"t1"}"#, None),
            ("{}", None),
        ] {
            assert_eq!(
                tenant_of(object.as_bytes()).as_deref(),
                expected,
                "{object}"
            );
        }
    }
}
