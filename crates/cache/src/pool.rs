//! Pieces of large texts, each kept once however many texts have it.
//!
//! A text is cut where its content says so, not at fixed places: what is inserted or changed
//! moves the cuts near it and no others, so that texts which are alike in most places have
//! most pieces in common, wherever they differ.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ring::digest::{SHA256, digest};

/// The pieces that some text has.
#[derive(Debug, Default)]
pub struct Pool {
    known: Mutex<HashMap<Id, Weak<Piece>>>,
}

/// A part of one text or of many. It leaves the pool with the last of them.
#[derive(Debug)]
pub struct Piece {
    id: Id,
    pool: Arc<Pool>,
    bytes: Box<[u8]>,
}

/// A text in pieces.
#[derive(Debug)]
pub struct Cut {
    /// In the text's order.
    pub pieces: Box<[Arc<Piece>]>,
    /// How many bytes no text had before.
    pub new: usize,
}

/// What tells a piece from all others. Those who write texts do not trust each other: nobody
/// can make a piece that is taken for another's.
type Id = [u8; 32];

/// The least and the most bytes of a piece. A piece that is kept costs 200 bytes or so beside
/// its own; one that somebody changes a byte of is kept again. So they are small, but not so
/// small that a text made of the smallest would cost much more than its length.
const LEAST: usize = 512;
const MOST: usize = 4096;

/// A cut is where these bits of the hash are zero: every 512 bytes or so, after the least.
const MASK: u64 = 0x1ff << 55;

/// How many bytes the hash looks back: it is shifted by a bit for each.
const WINDOW: usize = 64;

/// A number for each byte, such that any two windows that differ are likely to have hashes
/// that do.
const GEAR: [u64; 256] = gear();

impl Pool {
    /// Cuts a text, and keeps of it what is not yet there.
    pub fn cut(self: &Arc<Self>, text: &[u8]) -> Cut {
        let mut new = 0;
        let mut pieces = Vec::with_capacity(text.len() / (2 * LEAST) + 1);
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cut_of(rest));
            pieces.push(self.keep(piece, &mut new));
            rest = after;
        }
        Cut {
            pieces: pieces.into(),
            new,
        }
    }

    /// Keeps a text in one piece if it is not yet there, and says how many bytes that took.
    pub fn keep_whole(self: &Arc<Self>, text: &[u8]) -> (Arc<Piece>, usize) {
        let mut new = 0;
        let piece = self.keep(text, &mut new);
        (piece, new)
    }

    /// How many pieces there are.
    pub fn count(&self) -> usize {
        self.known().len()
    }

    fn keep(self: &Arc<Self>, bytes: &[u8], new: &mut usize) -> Arc<Piece> {
        let mut id = Id::default();
        id.copy_from_slice(digest(&SHA256, bytes).as_ref());
        let mut known = self.known();
        if let Some(found) = known.get(&id).and_then(Weak::upgrade) {
            return found;
        }
        let made = Arc::new(Piece {
            id,
            pool: Arc::clone(self),
            bytes: bytes.into(),
        });
        known.insert(id, Arc::downgrade(&made));
        *new += bytes.len();
        made
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Id, Weak<Piece>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    /// What it says.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut known = self.pool.known();
        // By now somebody may have kept the same bytes again.
        if known.get(&self.id).is_some_and(|of| of.strong_count() == 0) {
            known.remove(&self.id);
        }
        // Most of what was there is gone: so is the room for it.
        if known.capacity() > 1024 && known.len() < known.capacity() / 4 {
            known.shrink_to_fit();
        }
    }
}

/// How long the first piece of a text is.
fn cut_of(text: &[u8]) -> usize {
    let end = text.len().min(MOST);
    if end <= LEAST {
        return end;
    }
    let mut hash = 0_u64;
    for (at, byte) in text.iter().enumerate().take(end).skip(LEAST - WINDOW) {
        hash = (hash << 1).wrapping_add(GEAR[*byte as usize]);
        if at >= LEAST && hash & MASK == 0 {
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

    /// Text that repeats nowhere.
    fn text(lines: usize) -> Vec<u8> {
        let lines = (0..lines).map(|n| format!("line {n} of {:x}\n", n.wrapping_mul(0x9e37_79b9)));
        lines.collect::<String>().into_bytes()
    }

    fn whole(cut: &Cut) -> Vec<u8> {
        let pieces = cut.pieces.iter().map(|piece| piece.bytes());
        pieces.collect::<Vec<_>>().concat()
    }

    #[test]
    fn the_pieces_of_a_text_are_the_text() {
        let pool = Arc::new(Pool::default());
        for length in [0, 1, LEAST - 1, LEAST, LEAST + 1, MOST, MOST + 1, 90_000] {
            let text = &text(6_000)[..length];
            let cut = pool.cut(text);
            assert_eq!(whole(&cut), text, "{length}");
            let short = cut.pieces.iter().rev().skip(1);
            for piece in short {
                assert!((LEAST..=MOST).contains(&piece.bytes().len()));
            }
        }
        // Where there is nothing to tell places apart by, the most is the limit.
        let same = vec![b'x'; 5 * MOST];
        let cut = pool.cut(&same);
        assert_eq!((cut.pieces.len(), pool.count()), (5, 1));
        assert_eq!((whole(&cut), cut.new), (same, MOST));
    }

    #[test]
    fn texts_that_differ_in_places_have_the_rest_in_common() {
        let pool = Arc::new(Pool::default());
        let first = text(4_000);
        let one = pool.cut(&first);
        assert_eq!(one.new, first.len());
        let mut second = first.clone();
        second.splice(70_000..70_001, *b"something else");
        second.splice(30_000..30_000, *b"inserted");
        second.splice(..0, *b"a name of its own");
        let other = pool.cut(&second);
        assert_eq!(whole(&other), second);
        assert!(other.new < 6 * 2 * LEAST, "{} bytes", other.new);
        assert!(other.new > 3 * LEAST / 2, "{} bytes", other.new);
    }

    #[test]
    fn a_piece_goes_with_the_last_text_that_has_it() {
        let pool = Arc::new(Pool::default());
        let first = text(4_000);
        let second = [&b"other"[..], &first].concat();
        let one = pool.cut(&first);
        let count = pool.count();
        let two = pool.cut(&second);
        let both = pool.count();
        assert!(both > count && both < count + 4, "{count} {both}");
        drop(one);
        assert_eq!(pool.count(), two.pieces.len());
        assert_eq!(whole(&two), second);
        drop(two);
        assert_eq!(pool.count(), 0);
        assert!(pool.known().capacity() <= 1024);
        assert_eq!(Arc::strong_count(&pool), 1);
    }

    #[test]
    fn those_who_keep_and_let_go_at_once_never_lose_a_piece() {
        let pool = Arc::new(Pool::default());
        let texts: Vec<Vec<u8>> = (0..4).map(|n| text(200)[n * 64..].to_vec()).collect();
        std::thread::scope(|scope| {
            for text in texts.iter().chain(&texts) {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..200 {
                        assert_eq!(whole(&pool.cut(text)), *text);
                    }
                });
            }
        });
        assert_eq!(pool.count(), 0);
    }
}
