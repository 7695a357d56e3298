//! An object in the owner graph.

use std::sync::Arc;

use insula_kinds::KindId;

use crate::collection_key::{CollectionKey, Keyed};
use crate::entry::Stored;

/// One object of a space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    resource: OwnedKey,
    /// `namespace/name` or `name`.
    pub key: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum OwnedKey {
    BuiltIn(KindId),
    /// The name of the definition: `resource.group`.
    Custom(Arc<str>),
}

impl Node {
    /// The node of an object of this collection.
    pub fn new(key: CollectionKey<'_>, object: &Stored) -> Self {
        let resource = match key {
            CollectionKey::BuiltIn(id) => OwnedKey::BuiltIn(id),
            CollectionKey::Custom { group, resource } => {
                OwnedKey::Custom(format!("{resource}.{group}").into())
            }
        };
        Self {
            resource,
            key: Arc::clone(&object.key),
        }
    }

    /// The namespace; `None` of a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }
}

impl Keyed for Node {
    fn collection_key(&self) -> CollectionKey<'_> {
        match &self.resource {
            OwnedKey::BuiltIn(id) => CollectionKey::BuiltIn(*id),
            OwnedKey::Custom(name) => {
                // No resource has a dot in it.
                let (resource, group) = name.split_once('.').unwrap_or((name, ""));
                CollectionKey::Custom { group, resource }
            }
        }
    }
}
