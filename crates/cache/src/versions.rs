//! A custom object in the versions that clients asked for.
//!
//! The layer that knows schemas converts; the result is kept beside the object as long as the
//! object lives. Nearly always the stored bytes are the result, and then only that is noted.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::entry::Stored;

/// What is known of one object in other versions. A version is identified by a fingerprint of
/// its definition, which is never zero.
#[derive(Debug, Default)]
pub struct Versions {
    /// The version in which the stored bytes are served unchanged; zero if not known yet.
    as_stored: AtomicU64,
    /// Objects converted to other versions.
    converted: Mutex<Vec<(u64, Arc<Stored>)>>,
}

/// The most versions kept of one object: a definition rarely serves more.
const MAX_VERSIONS: usize = 4;

/// An object in the version that a client asked for.
#[derive(Debug)]
pub enum Shown<'a> {
    /// The stored bytes.
    AsStored(&'a Stored),
    /// Converted bytes.
    Converted(Arc<Stored>),
}

impl Deref for Shown<'_> {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        match self {
            Self::AsStored(object) => object,
            Self::Converted(object) => object,
        }
    }
}

impl Versions {
    /// Returns `object`, which these versions belong to, in a version that was kept before.
    pub fn find<'a>(&self, version: u64, object: &'a Stored) -> Option<Shown<'a>> {
        if self.as_stored.load(Ordering::Acquire) == version {
            return Some(Shown::AsStored(object));
        }
        let converted = self
            .converted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = converted.iter().find(|(known, _)| *known == version);
        found.map(|(_, object)| Shown::Converted(Arc::clone(object)))
    }

    /// Notes that the stored bytes are served unchanged in this version.
    pub fn note_as_stored(&self, version: u64) {
        self.as_stored.store(version, Ordering::Release);
    }

    /// Keeps the object in this version; the oldest kept version makes room for it.
    pub fn keep(&self, version: u64, object: Arc<Stored>) {
        let mut converted = self
            .converted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if converted.len() == MAX_VERSIONS {
            converted.remove(0);
        }
        converted.push((version, object));
    }
}
