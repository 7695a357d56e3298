//! Lists of cached objects, encoded piece by piece as fast as the client reads them.

use std::io::Write;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::codec::indent::Indenter;
use crate::flow_control::cpu_bound;
use insula_cache::Stored;

/// A list that is encoded while it is sent, so that a large list to a slow client never exists as
/// a whole. Nothing in it can fail: its objects do not change, and all of them can be encoded.
pub struct List {
    head: Bytes,
    items: std::vec::IntoIter<Arc<Stored>>,
    tail: Option<Bytes>,
    separator: &'static [u8],
    write_item: Box<WriteItem>,
    is_first: bool,
    /// The bytes that are left, if the length of the list is known.
    left: Option<u64>,
    /// A piece that was encoded before the list was sent.
    ready: Option<Bytes>,
    indenter: Option<Indenter>,
    gzip: Option<GzEncoder<Vec<u8>>>,
    /// Whether a piece takes milliseconds to encode.
    is_slow: bool,
    /// The size of the next piece.
    piece: usize,
}

/// Appends the encoding of one item.
pub type WriteItem = dyn Fn(&Stored, &mut Vec<u8>) + Send + Sync;

/// The bytes of a list that are encoded at once: large enough that the overhead per piece does
/// not matter, small enough that a thousand slow clients hold little.
pub const PIECE: usize = 128 << 10;

/// The size of the first piece. The next is twice as large, because the client has read this one:
/// a client that reads nothing holds no more than this.
pub const FIRST_PIECE: usize = 16 << 10;

/// The bytes of stored objects that are read for one piece. A piece of table rows may be small and
/// show large objects.
const MAX_READ: usize = 4 << 20;

/// The room beyond the size of a piece for the last item in it.
const ITEM_ROOM: usize = 8 << 10;

impl List {
    /// A list of `head`, the items with `separator` between them, and `tail`.
    pub fn new(
        head: impl Into<Bytes>,
        items: Vec<Arc<Stored>>,
        tail: impl Into<Bytes>,
        separator: &'static [u8],
        write_item: Box<WriteItem>,
    ) -> Self {
        Self {
            head: head.into(),
            items: items.into_iter(),
            tail: Some(tail.into()),
            separator,
            write_item,
            is_first: true,
            left: None,
            ready: None,
            indenter: None,
            gzip: None,
            is_slow: false,
            piece: FIRST_PIECE,
        }
    }

    /// The same, with the length of its items and separators.
    #[must_use]
    pub fn with_items_length(mut self, length: usize) -> Self {
        let ends = self.head.len() + self.tail.as_ref().map_or(0, Bytes::len);
        self.left = Some((ends + length) as u64);
        self
    }

    /// The same JSON, indented.
    #[must_use]
    pub fn indented(mut self) -> Self {
        self.left = None;
        self.indenter = Some(Indenter::default());
        self
    }

    /// The same, with items that take long to encode.
    #[must_use]
    pub fn slow(mut self) -> Self {
        self.is_slow = true;
        self
    }

    /// Compresses the list. What was encoded before must be nothing, or [taken](Self::take_whole)
    /// as a piece.
    #[must_use]
    pub fn compressed(mut self) -> Self {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        if let Some(ready) = self.ready.take() {
            // Writing to memory cannot fail.
            gzip.write_all(&ready).ok();
        }
        self.left = None;
        self.is_slow = true;
        self.gzip = Some(gzip);
        self
    }

    /// The length of the rest, if it is known.
    pub const fn left(&self) -> Option<u64> {
        self.left
    }

    /// Whether the last piece was returned.
    pub const fn is_over(&self) -> bool {
        self.tail.is_none() && self.ready.is_none()
    }

    /// The bytes that it holds. Objects of the cache are counted as references.
    pub fn held_bytes(&self) -> usize {
        let tail = self.tail.as_ref().map_or(0, Bytes::len);
        let ready = self.ready.as_ref().map_or(0, Bytes::len);
        let gzip = self.gzip.as_ref().map_or(0, |_| GZIP_STATE);
        self.head.len() + tail + ready + gzip + size_of_val(self.items.as_slice())
    }

    /// Encodes the whole list, if it has at most `max` bytes. Otherwise what was encoded stays its
    /// first piece.
    pub fn take_whole(&mut self, max: usize) -> Option<Bytes> {
        if self.left.is_some_and(|left| left > max as u64) {
            return None;
        }
        let mut whole: Vec<u8> = Vec::new();
        while whole.len() <= max {
            let Some(piece) = self.next_piece() else {
                return Some(whole.into());
            };
            match whole.is_empty() && self.is_over() && piece.len() <= max {
                true => return Some(piece),
                false => whole.extend_from_slice(&piece),
            }
        }
        if let Some(left) = &mut self.left {
            *left += whole.len() as u64;
        }
        self.ready = Some(whole.into());
        None
    }

    /// Encodes the next piece.
    pub fn next_piece(&mut self) -> Option<Bytes> {
        if let Some(ready) = self.ready.take() {
            return Some(self.counted(ready));
        }
        while self.tail.is_some() {
            let piece = match self.is_slow {
                true => cpu_bound::run_blocking(|| self.encode_piece()),
                false => self.encode_piece(),
            };
            // Compression returns nothing at first.
            if !piece.is_empty() {
                return Some(self.counted(piece));
            }
        }
        None
    }

    fn counted(&mut self, piece: Bytes) -> Bytes {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(piece.len() as u64);
        }
        piece
    }

    fn encode_piece(&mut self) -> Bytes {
        let mut piece = self.encode_items();
        if let Some(indenter) = &mut self.indenter {
            let mut lines = Vec::with_capacity(piece.len() * 2);
            indenter.push(&piece, &mut lines);
            piece = lines;
        }
        if let Some(mut gzip) = self.gzip.take() {
            gzip.write_all(&piece).ok();
            if self.tail.is_none() {
                piece = gzip.finish().unwrap_or_default();
            } else {
                piece = std::mem::take(gzip.get_mut());
                self.gzip = Some(gzip);
            }
        }
        // A client that does not read keeps the buffer, and is charged for its length only.
        if piece.capacity() > piece.len() + piece.len() / 4 + ITEM_ROOM {
            piece.shrink_to_fit();
        }
        piece.into()
    }

    fn encode_items(&mut self) -> Vec<u8> {
        let size = self.piece;
        self.piece = (size * 2).min(PIECE);
        let left = self.left.and_then(|left| usize::try_from(left).ok());
        let room = left.unwrap_or(usize::MAX).min(size + ITEM_ROOM);
        let mut piece = Vec::with_capacity(room);
        piece.put_slice(&std::mem::take(&mut self.head));
        let mut read = 0;
        while piece.len() < size && read < MAX_READ {
            let Some(object) = self.items.next() else {
                piece.put_slice(&self.tail.take().unwrap_or_default());
                break;
            };
            if !std::mem::replace(&mut self.is_first, false) {
                piece.put_slice(self.separator);
            }
            (self.write_item)(&object, &mut piece);
            read += object.length();
        }
        piece
    }
}

/// The memory of a compressor at the fastest level.
const GZIP_STATE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::codec::gzip::gzip;
    use crate::codec::indent::indent;

    fn objects(count: usize) -> Vec<Arc<Stored>> {
        let object = |number| {
            let text = format!(
                r#"{{"metadata":{{"name":"{number}"}},"data":"{:0800}"}}"#,
                number
            );
            Arc::new(Stored::unsaved("a".into(), text.into()))
        };
        (0..count).map(object).collect()
    }

    fn list(count: usize) -> List {
        let write = |object: &Stored, out: &mut Vec<u8>| out.extend_from_slice(&object.body());
        List::new("[", objects(count), "]", b",", Box::new(write))
    }

    fn whole(count: usize) -> Vec<u8> {
        let texts: Vec<_> = objects(count)
            .iter()
            .map(|of| of.body().into_owned())
            .collect();
        [b"[", &*texts.join(&b","[..]), b"]"].concat()
    }

    fn collected(mut list: List) -> (Vec<u8>, usize) {
        let (mut text, mut largest) = (Vec::new(), 0);
        while let Some(piece) = list.next_piece() {
            largest = largest.max(piece.len());
            text.extend_from_slice(&piece);
        }
        assert!(list.is_over() && list.next_piece().is_none());
        (text, largest)
    }

    #[test]
    fn pieces_are_the_whole_list() {
        for count in [0, 1, 2, 19, 1000] {
            let expected = whole(count);
            let (text, largest) = collected(list(count));
            assert!(text == expected, "{count}");
            assert!(largest < PIECE + 2 * ITEM_ROOM, "{largest}");
            let known = list(count).with_items_length(expected.len() - 2);
            assert_eq!(known.left(), Some(expected.len() as u64));
            assert!(collected(known).0 == expected);
            assert!(collected(list(count).indented()).0 == indent(&expected));
            let zipped = collected(list(count).compressed()).0;
            let mut unzipped = Vec::new();
            let mut reader = flate2::read::GzDecoder::new(&*zipped);
            reader.read_to_end(&mut unzipped).unwrap();
            assert!(unzipped == expected);
            assert!(zipped.len() <= gzip(&expected).len() * 2);
        }
    }

    #[test]
    fn large_list_is_not_taken_whole_and_nothing_is_encoded_twice() {
        let encoded = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&encoded);
        let write = move |object: &Stored, out: &mut Vec<u8>| {
            counted.fetch_add(1, Ordering::Relaxed);
            out.extend_from_slice(&object.body());
        };
        let mut large = List::new("[", objects(1000), "]", b",", Box::new(write));
        assert_eq!(large.take_whole(100_000), None);
        assert!((100_000..400_000).contains(&large.held_bytes()));
        assert!(collected(large).0 == whole(1000));
        assert_eq!(encoded.load(Ordering::Relaxed), 1000);
        assert!(list(19).take_whole(100_000).unwrap() == whole(19));
        let known = whole(1000).len() - 2;
        let mut known = list(1000).with_items_length(known);
        assert_eq!(known.take_whole(100_000), None);
        assert!(known.held_bytes() < 16_000, "nothing was encoded");
    }

    #[test]
    fn client_that_reads_nothing_holds_a_small_piece() {
        let first = list(1000).next_piece().unwrap();
        assert!((FIRST_PIECE..FIRST_PIECE + 1_000).contains(&first.len()));
    }
}
