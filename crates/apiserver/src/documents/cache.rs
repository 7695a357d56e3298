//! Built documents: shared while in use, and the most recent ones kept.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use insula_core::Space;

use crate::codec::gzip::gzip;

/// How many unused documents are kept.
const MAX_RECENT: usize = 16;

/// The size of all documents that are kept.
const MAX_RECENT_BYTES: usize = 32 << 20;

/// The size of a document that is kept. A larger one is that of a space with very many
/// definitions, which must not take the place of the others.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// How many of them, and how much of their size, one space may keep: a space that changes its
/// definitions all the time leaves the documents of others half of the room.
const MAX_RECENT_OF_SPACE: usize = MAX_RECENT / 2;
const MAX_RECENT_BYTES_OF_SPACE: usize = MAX_RECENT_BYTES / 2;

/// The documents that were built, by key.
#[derive(Debug)]
pub(super) struct DocumentCache<K> {
    slots: Mutex<Vec<(K, Weak<Slot>)>>,
    /// In the order of their last use.
    recent: Mutex<Vec<KeptDocument>>,
}

/// A document that is kept, and the space that last used it if it describes definitions of its own.
#[derive(Debug)]
struct KeptDocument {
    owner: Option<Space>,
    slot: Arc<Slot>,
}

/// A document that is built once: concurrent requests for the same document wait for it.
pub(super) type Slot = OnceLock<CachedDocument>;

/// A document and the hash of its content.
#[derive(Debug)]
pub(super) struct CachedDocument {
    pub body: Bytes,
    pub hash: String,
    compressed: OnceLock<Bytes>,
}

impl<K> Default for DocumentCache<K> {
    fn default() -> Self {
        Self {
            slots: Mutex::default(),
            recent: Mutex::default(),
        }
    }
}

impl<K: PartialEq> DocumentCache<K> {
    /// Returns the slot of a document.
    pub fn slot(&self, key: K) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|(_, slot)| slot.strong_count() > 0);
        let found = slots.iter().find(|(known, _)| *known == key);
        let found = found.and_then(|(_, slot)| slot.upgrade());
        found.unwrap_or_else(|| {
            let slot = Arc::new(Slot::new());
            slots.push((key, Arc::downgrade(&slot)));
            slot
        })
    }

    /// Returns the document in a slot, building it if necessary, and marks it as recently used by
    /// its owner, if it has one.
    pub fn get_or_build<'a>(
        &self,
        slot: &'a Arc<Slot>,
        owner: Option<&Space>,
        build: impl FnOnce() -> Vec<u8>,
    ) -> &'a CachedDocument {
        let document = slot.get_or_init(|| CachedDocument::new(build()));
        self.keep(slot, owner);
        document
    }

    /// Keeps a document, and drops those that were used longest ago.
    fn keep(&self, slot: &Arc<Slot>, owner: Option<&Space>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|kept| !Arc::ptr_eq(&kept.slot, slot));
        let document = KeptDocument {
            owner: owner.cloned(),
            slot: Arc::clone(slot),
        };
        if document.size() > MAX_KEPT_BYTES {
            return;
        }
        recent.push(document);
        if owner.is_some() {
            let is_own = |kept: &KeptDocument| kept.owner.as_ref() == owner;
            let bounds = (MAX_RECENT_OF_SPACE, MAX_RECENT_BYTES_OF_SPACE);
            drop_oldest(&mut recent, is_own, bounds);
        }
        drop_oldest(&mut recent, |_| true, (MAX_RECENT, MAX_RECENT_BYTES));
    }
}

/// Drops the documents that were used longest ago until the matching ones are within the bounds of
/// their number and their bytes.
fn drop_oldest(
    recent: &mut Vec<KeptDocument>,
    matches: impl Fn(&KeptDocument) -> bool,
    (max, max_bytes): (usize, usize),
) {
    let matching = || recent.iter().filter(|kept| matches(kept));
    let mut count = matching().count();
    let mut bytes: usize = matching().map(KeptDocument::size).sum();
    while count > max || bytes > max_bytes {
        let Some(oldest) = recent.iter().position(&matches) else {
            return;
        };
        bytes -= recent.remove(oldest).size();
        count -= 1;
    }
}

impl KeptDocument {
    fn size(&self) -> usize {
        self.slot.get().map_or(0, CachedDocument::size)
    }
}

impl CachedDocument {
    fn new(body: Vec<u8>) -> Self {
        Self {
            hash: hash(&body),
            body: body.into(),
            compressed: OnceLock::new(),
        }
    }

    /// Returns the document, compressed if the client accepts it.
    pub fn bytes(&self, gzipped: bool) -> Bytes {
        match gzipped {
            true => self.compressed.get_or_init(|| gzip(&self.body)).clone(),
            false => self.body.clone(),
        }
    }

    /// Returns the size of the document, with the compressed one.
    fn size(&self) -> usize {
        self.body.len() + self.compressed.get().map_or(0, Bytes::len)
    }
}

/// Returns the hash that identifies a content.
pub(super) fn hash(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA512, bytes);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests a document of this size. Returns whether it was built.
    fn request(cache: &DocumentCache<u8>, key: u8, size: usize) -> bool {
        request_of(cache, None, key, size)
    }

    /// The same for a document with definitions of a space.
    fn request_of(cache: &DocumentCache<u8>, owner: Option<&Space>, key: u8, size: usize) -> bool {
        let mut built = false;
        let slot = cache.slot(key);
        let document = cache.get_or_build(&slot, owner, || {
            built = true;
            vec![key; size]
        });
        assert_eq!((document.body.len(), document.body[0]), (size, key));
        built
    }

    #[test]
    fn recent_documents_are_kept_up_to_a_number() {
        let cache = DocumentCache::default();
        let all = MAX_RECENT as u8 + 1;
        for key in 0..all {
            assert!(request(&cache, key, 1));
        }
        assert!((1..all).all(|key| !request(&cache, key, 1)));
        assert!(request(&cache, 0, 1), "it was used longest ago");
    }

    #[test]
    fn space_displaces_its_own_documents_beyond_half_of_the_room() {
        let cache = DocumentCache::default();
        let [noisy, quiet] = ["t1", "t2"].map(|name| Space::parse(name).unwrap());
        for (size, key) in [(1, 100), (4 << 20, 110)] {
            assert!(request_of(&cache, Some(&quiet), key, size));
            for other in 0..20 {
                assert!(request_of(&cache, Some(&noisy), key / 2 + other, size));
            }
            assert!(!request_of(&cache, Some(&quiet), key, size));
        }
        let recent = cache.recent.lock().unwrap();
        let of_noisy = recent
            .iter()
            .filter(|kept| kept.owner == Some(noisy.clone()));
        let bytes: usize = of_noisy.map(KeptDocument::size).sum();
        assert_eq!(bytes, MAX_RECENT_BYTES_OF_SPACE);
    }

    #[test]
    fn recent_documents_are_kept_up_to_a_size() {
        let cache = DocumentCache::default();
        let fit = (MAX_RECENT_BYTES / MAX_KEPT_BYTES) as u8;
        for key in 0..=fit {
            assert!(request(&cache, key, MAX_KEPT_BYTES));
        }
        assert!((1..=fit).all(|key| !request(&cache, key, MAX_KEPT_BYTES)));
        // One that is too large to be kept takes the place of no other.
        for _ in 0..2 {
            assert!(request(&cache, fit + 1, MAX_KEPT_BYTES + 1));
        }
        assert!((1..=fit).all(|key| !request(&cache, key, MAX_KEPT_BYTES)));
    }
}
