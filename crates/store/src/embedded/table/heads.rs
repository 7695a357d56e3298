//! The revisions of every key's current value.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{PoisonError, RwLock};

use insula_core::Revision;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The number of shards, so that none of them takes long to grow.
const SHARDS: usize = 256;

/// The revisions of a key's current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Head {
    pub modified: Revision,
    pub created: Revision,
}

/// The heads of all existing keys, in 33 bytes each plus the maps' spare capacity.
///
/// Keys are identified by 128 bits of a hash with a random seed. A collision is less likely than a
/// memory failure: with a billion keys, 1 in 10^20.
pub(super) struct Heads {
    seed: u64,
    shards: Vec<RwLock<Shard>>,
}

type Shard = HashMap<u128, Head, BuildHasherDefault<IdentityHasher>>;

impl Heads {
    pub fn new() -> Self {
        Self {
            seed: RandomState::new().hash_one(0_u8),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<Head> {
        let (hash, shard) = self.shard_of(key);
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&hash).copied()
    }

    /// Sets or, with `None`, removes a key's head.
    pub fn set(&self, key: &[u8], head: Option<Head>) {
        let (hash, shard) = self.shard_of(key);
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        match head {
            Some(head) => shard.insert(hash, head),
            None => shard.remove(&hash),
        };
    }

    fn shard_of(&self, key: &[u8]) -> (u128, &RwLock<Shard>) {
        let hash = xxh3_128_with_seed(key, self.seed);
        // The map uses the low bits.
        let shard = (hash >> 120) as usize % SHARDS;
        (hash, &self.shards[shard])
    }
}

/// The map's keys are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_own_head() {
        let heads = Heads::new();
        let head = |n: u64| Head {
            modified: Revision::new(n + 1),
            created: Revision::new(n),
        };
        for n in 0..10_000_u64 {
            heads.set(&n.to_le_bytes(), Some(head(n)));
        }
        for n in (0..10_000_u64).step_by(2) {
            heads.set(&n.to_le_bytes(), None);
        }
        for n in 0..10_000_u64 {
            let expected = (n % 2 == 1).then(|| head(n));
            assert_eq!(heads.get(&n.to_le_bytes()), expected);
        }
    }
}
