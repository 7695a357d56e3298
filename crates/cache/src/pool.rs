//! Content-defined chunks of large texts, each held once for all texts that contain it.
//!
//! The boundaries of chunks depend on the content around them, not on offsets: an insertion moves
//! the boundaries near it and no others. So texts that are mostly alike share most chunks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ring::digest::{SHA256, digest};

/// All chunks that some text contains.
#[derive(Debug, Default)]
pub struct Pool {
    known: Mutex<HashMap<Id, Weak<Chunk>>>,
}

/// A chunk. It leaves the pool with the last text that contains it.
#[derive(Debug)]
pub struct Chunk {
    id: Id,
    pool: Arc<Pool>,
    bytes: Box<[u8]>,
}

/// A text in chunks.
#[derive(Debug)]
pub struct Chunks {
    /// The chunks, in the text's order.
    pub chunks: Box<[Arc<Chunk>]>,
    /// The bytes of the chunks that were not in the pool before.
    pub new: usize,
}

/// The identity of a chunk: a cryptographic hash, because tenants do not trust each other and none
/// may produce a chunk that is taken for another's.
type Id = [u8; 32];

/// The bounds of a chunk's length. A chunk costs about 200 bytes beside its own, and is held again
/// when one byte differs. So chunks are small, but not so small that a text of the smallest ones
/// costs much more than its length.
const MIN_CHUNK: usize = 512;
const MAX_CHUNK: usize = 4096;

/// A chunk ends where these bits of the rolling hash are zero: about every 512 bytes after the
/// minimum.
const MASK: u64 = 0x1ff << 55;

/// The bytes that the rolling hash covers: each shifts it by one bit.
const WINDOW: usize = 64;

/// A pseudo-random number for each byte, so that different windows are likely to have different
/// hashes.
const GEAR: [u64; 256] = gear();

impl Pool {
    /// Splits a text into chunks, and adds those that are not in the pool yet.
    pub fn split(self: &Arc<Self>, text: &[u8]) -> Chunks {
        let mut new = 0;
        let mut chunks = Vec::with_capacity(text.len() / (2 * MIN_CHUNK) + 1);
        let mut rest = text;
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(chunk_length(rest));
            chunks.push(self.add(chunk, &mut new));
            rest = after;
        }
        Chunks {
            chunks: chunks.into(),
            new,
        }
    }

    /// Adds a text as one chunk. Returns how many bytes were not in the pool yet.
    pub fn add_whole(self: &Arc<Self>, text: &[u8]) -> (Arc<Chunk>, usize) {
        let mut new = 0;
        let chunk = self.add(text, &mut new);
        (chunk, new)
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.known().len()
    }

    fn add(self: &Arc<Self>, bytes: &[u8], new: &mut usize) -> Arc<Chunk> {
        let mut id = Id::default();
        id.copy_from_slice(digest(&SHA256, bytes).as_ref());
        let mut known = self.known();
        if let Some(found) = known.get(&id).and_then(Weak::upgrade) {
            return found;
        }
        let made = Arc::new(Chunk {
            id,
            pool: Arc::clone(self),
            bytes: bytes.into(),
        });
        known.insert(id, Arc::downgrade(&made));
        *new += bytes.len();
        made
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Id, Weak<Chunk>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chunk {
    /// The bytes of the chunk.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut known = self.pool.known();
        // Another text may have added the same bytes meanwhile.
        if known.get(&self.id).is_some_and(|of| of.strong_count() == 0) {
            known.remove(&self.id);
        }
        // Free the capacity of a map that has lost most of its entries.
        if known.capacity() > 1024 && known.len() < known.capacity() / 4 {
            known.shrink_to_fit();
        }
    }
}

/// Returns the length of the first chunk of a text.
fn chunk_length(text: &[u8]) -> usize {
    let end = text.len().min(MAX_CHUNK);
    if end <= MIN_CHUNK {
        return end;
    }
    let mut hash = 0_u64;
    for (at, byte) in text.iter().enumerate().take(end).skip(MIN_CHUNK - WINDOW) {
        hash = (hash << 1).wrapping_add(GEAR[*byte as usize]);
        if at >= MIN_CHUNK && hash & MASK == 0 {
            return at + 1;
        }
    }
    end
}

const fn gear() -> [u64; 256] {
    let mut gear = [0; 256];
    let mut state = 0_u64;
    let mut at = 0;
    while at < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        gear[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    gear
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text without repetitions.
    fn text(lines: usize) -> Vec<u8> {
        let lines = (0..lines).map(|n| format!("line {n} of {:x}\n", n.wrapping_mul(0x9e37_79b9)));
        lines.collect::<String>().into_bytes()
    }

    fn whole(cut: &Chunks) -> Vec<u8> {
        let chunks = cut.chunks.iter().map(|chunk| chunk.bytes());
        chunks.collect::<Vec<_>>().concat()
    }

    #[test]
    fn chunks_concatenate_to_the_text() {
        let pool = Arc::new(Pool::default());
        for length in [
            0,
            1,
            MIN_CHUNK - 1,
            MIN_CHUNK,
            MIN_CHUNK + 1,
            MAX_CHUNK,
            MAX_CHUNK + 1,
            90_000,
        ] {
            let text = &text(6_000)[..length];
            let cut = pool.split(text);
            assert_eq!(whole(&cut), text, "{length}");
            let short = cut.chunks.iter().rev().skip(1);
            for chunk in short {
                assert!((MIN_CHUNK..=MAX_CHUNK).contains(&chunk.bytes().len()));
            }
        }
        // Uniform text has no boundaries, so its chunks have the maximum length.
        let same = vec![b'x'; 5 * MAX_CHUNK];
        let cut = pool.split(&same);
        assert_eq!((cut.chunks.len(), pool.count()), (5, 1));
        assert_eq!((whole(&cut), cut.new), (same, MAX_CHUNK));
    }

    #[test]
    fn texts_that_differ_in_places_share_their_other_chunks() {
        let pool = Arc::new(Pool::default());
        let first = text(4_000);
        let one = pool.split(&first);
        assert_eq!(one.new, first.len());
        let mut second = first.clone();
        second.splice(70_000..70_001, *b"something else");
        second.splice(30_000..30_000, *b"inserted");
        second.splice(..0, *b"a name of its own");
        let other = pool.split(&second);
        assert_eq!(whole(&other), second);
        assert!(other.new < 6 * 2 * MIN_CHUNK, "{} bytes", other.new);
        assert!(other.new > 3 * MIN_CHUNK / 2, "{} bytes", other.new);
    }

    #[test]
    fn chunk_is_freed_with_the_last_text_that_contains_it() {
        let pool = Arc::new(Pool::default());
        let first = text(4_000);
        let second = [&b"other"[..], &first].concat();
        let one = pool.split(&first);
        let count = pool.count();
        let two = pool.split(&second);
        let both = pool.count();
        assert!(both > count && both < count + 4, "{count} {both}");
        drop(one);
        assert_eq!(pool.count(), two.chunks.len());
        assert_eq!(whole(&two), second);
        drop(two);
        assert_eq!(pool.count(), 0);
        assert!(pool.known().capacity() <= 1024);
        assert_eq!(Arc::strong_count(&pool), 1);
    }

    #[test]
    fn concurrent_adds_and_drops_lose_no_chunk() {
        let pool = Arc::new(Pool::default());
        let texts: Vec<Vec<u8>> = (0..4).map(|n| text(200)[n * 64..].to_vec()).collect();
        std::thread::scope(|scope| {
            for text in texts.iter().chain(&texts) {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..200 {
                        assert_eq!(whole(&pool.split(text)), *text);
                    }
                });
            }
        });
        assert_eq!(pool.count(), 0);
    }
}
