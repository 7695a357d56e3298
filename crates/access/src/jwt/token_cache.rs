//! A cache of verified tokens.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// A cache of the results of verifying tokens, until they expire. Verifying a signature takes
/// fifty times as long as a lookup.
///
/// It holds digests instead of tokens. When full, the oldest entry is evicted. Entries are
/// only as current as the keys they were verified with: when the keys change, the owner must
/// create a new cache, or check the key of each entry.
pub struct TokenCache<T> {
    shards: [Mutex<Shard<T>>; SHARDS],
    /// Maximum number of entries per shard.
    shard_capacity: usize,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

struct Shard<T> {
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
const SHARDS: usize = 16;

/// Enough for some thousand concurrent users; tokens beyond that are verified again.
const CAPACITY: usize = 4096;

impl<T> TokenCache<T> {
    /// Creates a cache for this many tokens, rounded up to one per shard.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            shard_capacity: capacity.div_ceil(SHARDS).max(1),
        }
    }

    /// Looks up a token that has not expired at `now`, in seconds since 1970.
    pub fn find(&self, token: &str, now: i64) -> Option<Arc<T>> {
        let digest = digest_of(token);
        let shard = self.shard(&digest);
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = shard.entries.get(&digest)?;
        (now < entry.expires).then(|| Arc::clone(&entry.value))
    }

    /// Stores the result for a token until it expires.
    pub fn insert(&self, token: &str, expires: i64, value: Arc<T>) {
        let digest = digest_of(token);
        let shard = self.shard(&digest);
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry { expires, value };
        if shard.entries.insert(digest, entry).is_some() {
            return;
        }
        shard.order.push_back(digest);
        if shard.order.len() > self.shard_capacity
            && let Some(oldest) = shard.order.pop_front()
        {
            shard.entries.remove(&oldest);
        }
    }

    fn shard(&self, digest: &Digest) -> &Mutex<Shard<T>> {
        &self.shards[usize::from(digest[0]) % SHARDS]
    }
}

impl<T> Default for TokenCache<T> {
    fn default() -> Self {
        Self::with_capacity(CAPACITY)
    }
}

impl<T> Default for Shard<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<T> fmt::Debug for TokenCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCache(****)")
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
        let cache = TokenCache::default();
        cache.insert("a.b.c", 100, Arc::new("alice"));
        for (token, now, expected) in [
            ("a.b.c", 0, Some("alice")),
            ("a.b.c", 99, Some("alice")),
            ("a.b.c", 100, None),
            ("a.b.c", 101, None),
            ("a.b.d", 0, None),
            ("", 0, None),
        ] {
            let found = cache.find(token, now);
            assert_eq!(found.as_deref().copied(), expected, "{token} at {now}");
        }
        cache.insert("a.b.c", 200, Arc::new("bob"));
        assert_eq!(cache.find("a.b.c", 150).as_deref(), Some(&"bob"));
        assert_eq!(format!("{cache:?}"), "TokenCache(****)");
    }

    #[test]
    fn oldest_entry_is_evicted_and_size_is_bounded() {
        let cache = TokenCache::with_capacity(64);
        for number in 0..10_000 {
            cache.insert(&number.to_string(), 100, Arc::new(number));
            // Stored twice, as when two requests verify the same token concurrently.
            cache.insert(&number.to_string(), 100, Arc::new(number));
            let found = cache.find(&number.to_string(), 0);
            assert_eq!(found.as_deref(), Some(&number));
        }
        let held = |number: &i32| cache.find(&number.to_string(), 0).is_some();
        assert_eq!((0..10_000).filter(held).count(), 64);
        assert_eq!((0..9_000).filter(held).count(), 0);
        for shard in &cache.shards {
            let shard = shard.lock().unwrap();
            assert_eq!((shard.entries.len(), shard.order.len()), (4, 4));
        }
    }
}
