//! A cache of verified tokens.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// A cache of the results of verifying tokens, until they expire. Verifying a signature takes
/// fifty times as long as a lookup.
///
/// It holds digests instead of tokens. When full, the oldest entry is evicted. Entries are
/// only as current as the keys they were verified with: the owner must create a new cache
/// when the keys change.
pub struct Verified<T> {
    shelves: [Mutex<Shelf<T>>; SHELVES],
    /// Maximum number of entries per shard.
    depth: usize,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

struct Shelf<T> {
    entries: HashMap<Digest, Entry<T>>,
    /// Every key of `entries` once, oldest first.
    order: VecDeque<Digest>,
}

struct Entry<T> {
    expires: i64,
    value: Arc<T>,
}

/// Shards reduce lock contention between cores. The first byte of the digest selects one,
/// which an attacker cannot steer.
const SHELVES: usize = 16;

/// Enough for some thousand concurrent users; tokens beyond that are verified again.
const CAPACITY: usize = 4096;

impl<T> Verified<T> {
    /// Creates a cache for this many tokens, rounded up to one per shard.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            shelves: std::array::from_fn(|_| Mutex::default()),
            depth: capacity.div_ceil(SHELVES).max(1),
        }
    }

    /// Looks up a token that has not expired at `now`, in seconds since 1970.
    pub fn find(&self, token: &str, now: i64) -> Option<Arc<T>> {
        let digest = digest_of(token);
        let shelf = self.shelf(&digest);
        let shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = shelf.entries.get(&digest)?;
        (now < entry.expires).then(|| Arc::clone(&entry.value))
    }

    /// Stores the result for a token until it expires.
    pub fn keep(&self, token: &str, expires: i64, value: Arc<T>) {
        let digest = digest_of(token);
        let shelf = self.shelf(&digest);
        let mut shelf = shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry { expires, value };
        if shelf.entries.insert(digest, entry).is_some() {
            return;
        }
        shelf.order.push_back(digest);
        if shelf.order.len() > self.depth
            && let Some(oldest) = shelf.order.pop_front()
        {
            shelf.entries.remove(&oldest);
        }
    }

    fn shelf(&self, digest: &Digest) -> &Mutex<Shelf<T>> {
        &self.shelves[usize::from(digest[0]) % SHELVES]
    }
}

impl<T> Default for Verified<T> {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T> fmt::Debug for Verified<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verified(****)")
    }
}

fn digest_of(token: &str) -> Digest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_until_it_expires() {
        let verified = Verified::default();
        verified.keep("a.b.c", 100, Arc::new("alice"));
        for (token, now, expected) in [
            ("a.b.c", 0, Some("alice")),
            ("a.b.c", 99, Some("alice")),
            ("a.b.c", 100, None),
            ("a.b.c", 101, None),
            ("a.b.d", 0, None),
            ("", 0, None),
        ] {
            let found = verified.find(token, now);
            assert_eq!(found.as_deref().copied(), expected, "{token} at {now}");
        }
        verified.keep("a.b.c", 200, Arc::new("bob"));
        assert_eq!(verified.find("a.b.c", 150).as_deref(), Some(&"bob"));
        assert_eq!(format!("{verified:?}"), "Verified(****)");
    }

    #[test]
    fn oldest_entry_is_evicted_and_size_is_bounded() {
        let verified = Verified::with_capacity(64);
        for number in 0..10_000 {
            verified.keep(&number.to_string(), 100, Arc::new(number));
            // Stored twice, as when two requests verify the same token concurrently.
            verified.keep(&number.to_string(), 100, Arc::new(number));
            let found = verified.find(&number.to_string(), 0);
            assert_eq!(found.as_deref(), Some(&number));
        }
        let held = |number: &i32| verified.find(&number.to_string(), 0).is_some();
        assert_eq!((0..10_000).filter(held).count(), 64);
        assert_eq!((0..9_000).filter(held).count(), 0);
        for shelf in &verified.shelves {
            let shelf = shelf.lock().unwrap();
            assert_eq!((shelf.entries.len(), shelf.order.len()), (4, 4));
        }
    }
}
