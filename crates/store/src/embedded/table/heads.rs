//! When every key's current value came about.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{PoisonError, RwLock};

use insula_core::Revision;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// So many parts, so that none of them takes long to grow.
const PARTS: usize = 256;

/// When a key's current value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Head {
    pub modified: Revision,
    pub created: Revision,
}

/// The heads of all keys that have a value, in 33 bytes each and the maps' room to grow.
///
/// Keys are known by 128 bits of a hash with a random seed. That two keys share one is
/// less likely than that the memory fails: with a billion keys, 1 in 10^20.
pub(super) struct Heads {
    seed: u64,
    parts: Vec<RwLock<Part>>,
}

type Part = HashMap<u128, Head, BuildHasherDefault<AsItIs>>;

impl Heads {
    pub fn new() -> Self {
        Self {
            seed: RandomState::new().hash_one(0_u8),
            parts: (0..PARTS).map(|_| RwLock::default()).collect(),
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<Head> {
        let (print, part) = self.place(key);
        let part = part.read().unwrap_or_else(PoisonError::into_inner);
        part.get(&print).copied()
    }

    /// Sets or, with `None`, removes a key's head.
    pub fn set(&self, key: &[u8], head: Option<Head>) {
        let (print, part) = self.place(key);
        let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
        match head {
            Some(head) => part.insert(print, head),
            None => part.remove(&print),
        };
    }

    fn place(&self, key: &[u8]) -> (u128, &RwLock<Part>) {
        let print = xxh3_128_with_seed(key, self.seed);
        // The map uses the low bits.
        let part = (print >> 120) as usize % PARTS;
        (print, &self.parts[part])
    }
}

/// What is hashed is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = print as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_head() {
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
