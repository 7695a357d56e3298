//! Which collection the objects of a resource are in.

use std::sync::OnceLock;

use insula_kinds::{KindId, kinds};

/// The key of a collection within a space: the resource, whatever its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CollectionKey<'a> {
    /// A built-in kind, in its storage version.
    BuiltIn(KindId),
    /// A custom resource.
    Custom {
        /// Its group.
        group: &'a str,
        /// Its plural.
        resource: &'a str,
    },
}

/// A value that names a collection.
pub trait Keyed {
    /// Returns the collection's key.
    fn collection_key(&self) -> CollectionKey<'_>;
}

impl Keyed for KindId {
    fn collection_key(&self) -> CollectionKey<'_> {
        CollectionKey::BuiltIn(*self)
    }
}

impl Keyed for CollectionKey<'_> {
    fn collection_key(&self) -> CollectionKey<'_> {
        *self
    }
}

impl<K: Keyed> Keyed for &K {
    fn collection_key(&self) -> CollectionKey<'_> {
        (**self).collection_key()
    }
}

/// Returns the kind of CustomResourceDefinitions.
pub fn definitions() -> KindId {
    static DEFINITIONS: OnceLock<KindId> = OnceLock::new();
    *DEFINITIONS.get_or_init(|| {
        let found = kinds().find_storage("apiextensions.k8s.io", "customresourcedefinitions");
        found.expect("CustomResourceDefinitions are in the table")
    })
}
