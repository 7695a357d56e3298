//! An object, as others in its space know it.

use std::sync::Arc;

use insula_kinds::KindId;

use crate::collection_key::{CollectionKey, Keyed};
use crate::entry::Stored;

/// One object of a space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    shelf: KindCollections,
    /// `namespace/name` or `name`.
    pub key: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum KindCollections {
    BuiltIn(KindId),
    /// The name of the definition: `resource.group`.
    Custom(Arc<str>),
}

impl Node {
    /// An object that is on this shelf.
    pub fn new(mark: CollectionKey<'_>, object: &Stored) -> Self {
        let shelf = match mark {
            CollectionKey::BuiltIn(id) => KindCollections::BuiltIn(id),
            CollectionKey::Custom { group, resource } => {
                KindCollections::Custom(format!("{resource}.{group}").into())
            }
        };
        Self {
            shelf,
            key: Arc::clone(&object.key),
        }
    }

    /// Its namespace; `None` where there are no namespaces.
    pub fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }
}

impl Keyed for Node {
    fn collection_key(&self) -> CollectionKey<'_> {
        match &self.shelf {
            KindCollections::BuiltIn(id) => CollectionKey::BuiltIn(*id),
            KindCollections::Custom(name) => {
                // No resource has a dot in it.
                let (resource, group) = name.split_once('.').unwrap_or((name, ""));
                CollectionKey::Custom { group, resource }
            }
        }
    }
}
