//! The usage of a space, as tenant quotas count it.

use std::ops::{Add, Sub};

use insula_kinds::KindId;

use crate::collection::Event;
use crate::collection_key::{CollectionKey, definitions};
use crate::entry::Stored;
use insula_kinds::core_kind;

/// The objects of a space and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of objects.
    pub objects: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// The number of namespaces among them.
    pub namespaces: u64,
    /// The number of definitions among them.
    pub definitions: u64,
}

/// The kinds that are counted separately, looked up once.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsageKinds {
    namespaces: KindId,
    definitions: KindId,
}

impl Usage {
    /// The usage of one object of so many bytes.
    pub fn one(key: CollectionKey<'_>, bytes: usize) -> Self {
        UsageKinds::new().one(key, bytes)
    }
}

impl UsageKinds {
    pub fn new() -> Self {
        Self {
            namespaces: core_kind("namespaces"),
            definitions: definitions(),
        }
    }

    fn one(self, key: CollectionKey<'_>, bytes: usize) -> Usage {
        let kind = match key {
            CollectionKey::BuiltIn(kind) => Some(kind),
            CollectionKey::Custom { .. } => None,
        };
        self.of(kind, 1, bytes)
    }

    /// The usage of objects of a kind, if it is built in.
    pub fn of(self, kind: Option<KindId>, objects: usize, bytes: usize) -> Usage {
        let objects = objects as u64;
        let count = |of| if kind == Some(of) { objects } else { 0 };
        Usage {
            objects,
            bytes: bytes as u64,
            namespaces: count(self.namespaces),
            definitions: count(self.definitions),
        }
    }

    /// Returns the usage after events of a kind.
    pub fn after<'a>(
        self,
        usage: Usage,
        key: CollectionKey<'_>,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Usage {
        events.into_iter().fold(usage, |usage, event| {
            let one = |object: &Stored| self.one(key, object.stored_length());
            let before = event.stored_before().map(|before| one(before));
            let after = event.stored_after().map(|after| one(after));
            usage + after.unwrap_or_default() - before.unwrap_or_default()
        })
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
            namespaces: self.namespaces.saturating_add(other.namespaces),
            definitions: self.definitions.saturating_add(other.definitions),
        }
    }
}

/// Saturates at zero.
impl Sub for Usage {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            objects: self.objects.saturating_sub(other.objects),
            bytes: self.bytes.saturating_sub(other.bytes),
            namespaces: self.namespaces.saturating_sub(other.namespaces),
            definitions: self.definitions.saturating_sub(other.definitions),
        }
    }
}
