//! How much a space has, in all.

use std::ops::{Add, Sub};

use insula_kinds::KindId;

use crate::collection::Event;
use crate::collection_key::{CollectionKey, definitions};
use crate::entry::Stored;
use insula_kinds::core_kind;

/// Objects and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many objects.
    pub objects: u64,
    /// How many bytes they have, as they are stored.
    pub bytes: u64,
    /// How many of them are namespaces.
    pub namespaces: u64,
    /// How many of them define kinds.
    pub definitions: u64,
}

/// The kinds that are counted apart, looked up once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    namespaces: KindId,
    definitions: KindId,
}

impl Usage {
    /// One object of a kind, of so many bytes.
    pub fn one(shelf: CollectionKey<'_>, bytes: usize) -> Self {
        Apart::new().one(shelf, bytes)
    }
}

impl Apart {
    pub fn new() -> Self {
        Self {
            namespaces: core_kind("namespaces"),
            definitions: definitions(),
        }
    }

    fn one(self, shelf: CollectionKey<'_>, bytes: usize) -> Usage {
        let is = |kind| u64::from(shelf == CollectionKey::BuiltIn(kind));
        Usage {
            objects: 1,
            bytes: bytes as u64,
            namespaces: is(self.namespaces),
            definitions: is(self.definitions),
        }
    }

    /// With one more object.
    pub fn with(self, usage: Usage, shelf: CollectionKey<'_>, object: &Stored) -> Usage {
        usage + self.one(shelf, object.stored_length())
    }

    /// After something happened to objects of a kind.
    pub fn after<'a>(
        self,
        usage: Usage,
        shelf: CollectionKey<'_>,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Usage {
        events.into_iter().fold(usage, |usage, event| {
            let one = |object: &Stored| self.one(shelf, object.stored_length());
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

/// Of each what is left, which is nothing where there was less.
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
