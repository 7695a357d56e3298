//! The JSON of one object: whole, in shared chunks, or as a filled template.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use insula_core::Revision;
use insula_kinds::scan::{Members, skip_value};

use crate::entry::{after_uid, uid, with_revision, without_revision};
use crate::pool::{Chunk, Pool};
use crate::template::Template;

/// The JSON of one object.
#[derive(Debug)]
pub enum Text {
    /// The bytes that are sent, of this object alone.
    Whole(Bytes),
    /// Shared chunks: large, and mostly alike in many spaces.
    Shared(Box<Shared>),
    /// A filled template: small, and alike in many spaces but for some values.
    Template(Template),
}

/// A text in shared chunks.
#[derive(Debug)]
pub struct Shared {
    /// The text up to the resourceVersion, which no other object has.
    head: Bytes,
    chunks: Arc<[Arc<Chunk>]>,
    length: usize,
    /// The bytes that were not in the pool before.
    own: usize,
}

/// The fewest bytes that are worth chunks.
const MIN_SHARED: usize = 8 << 10;

impl Text {
    /// The text that is stored as `json`, at `revision`.
    pub fn whole(json: &[u8], revision: Revision) -> Self {
        Self::Whole(with_revision(json, revision))
    }

    /// The same in shared chunks, if it is large.
    pub fn shared(json: &[u8], revision: Revision, pool: &Arc<Pool>) -> Self {
        let end = after_uid(json).filter(|_| json.len() >= MIN_SHARED);
        let Some((head, rest)) = end.map(|end| json.split_at(end)) else {
            return Self::whole(json, revision);
        };
        let head = with_revision(head, revision);
        let cut = pool.split(rest);
        Self::Shared(Box::new(Shared {
            length: head.len() + rest.len(),
            own: head.len() + cut.new + size_of_val(&*cut.chunks),
            head,
            chunks: cut.chunks.into(),
        }))
    }

    /// The same as a filled template, if that is possible.
    pub fn templated(json: &[u8], revision: Revision, pool: &Arc<Pool>) -> Self {
        let json = with_revision(json, revision);
        match Template::of(&json, pool) {
            Some(letter) => Self::Template(letter),
            None => Self::Whole(json),
        }
    }

    /// The same at another revision.
    pub fn at(&self, revision: Revision) -> Self {
        match self {
            Self::Whole(json) => Self::whole(&without_revision(json), revision),
            Self::Template(letter) => Self::Template(letter.at(revision)),
            Self::Shared(shared) => {
                let head = with_revision(&without_revision(&shared.head), revision);
                Self::Shared(Box::new(Shared {
                    length: shared.length + head.len() - shared.head.len(),
                    own: head.len(),
                    head,
                    chunks: Arc::clone(&shared.chunks),
                }))
            }
        }
    }

    /// Returns the whole text, assembled if it is shared.
    pub fn bytes(&self) -> Cow<'_, Bytes> {
        match self {
            Self::Whole(json) => Cow::Borrowed(json),
            Self::Shared(_) | Self::Template(_) => {
                let mut json = Vec::with_capacity(self.length());
                self.write(0, &mut json);
                Cow::Owned(json.into())
            }
        }
    }

    /// Returns the beginning: as much as is contiguous, at max `max` bytes.
    pub fn beginning(&self, max: usize) -> Cow<'_, [u8]> {
        match self {
            Self::Whole(json) => Cow::Borrowed(&json[..json.len().min(max)]),
            Self::Shared(shared) => {
                let mut json = shared.head.to_vec();
                for chunk in shared.chunks.iter() {
                    if json.len() >= max {
                        break;
                    }
                    json.extend_from_slice(chunk.bytes());
                }
                json.truncate(max);
                Cow::Owned(json)
            }
            Self::Template(letter) => {
                let mut json = Vec::with_capacity(letter.length());
                letter.write(0, &mut json);
                json.truncate(max);
                Cow::Owned(json)
            }
        }
    }

    /// Returns the text of the metadata; `{}` if there is none.
    pub fn metadata(&self) -> Cow<'_, [u8]> {
        if let Self::Whole(json) = self {
            return Cow::Borrowed(metadata_range(json).map_or(b"{}", |range| &json[range]));
        }
        let mut max = FIRST_BEGINNING;
        loop {
            let beginning = self.beginning(max);
            match metadata_range(&beginning) {
                Some(range) => return Cow::Owned(beginning[range].to_vec()),
                None if beginning.len() < max => return Cow::Borrowed(b"{}"),
                None => max *= 4,
            }
        }
    }

    /// Returns the text from the metadata on, at least to their end; `{}` if there are none. This
    /// is cheaper than [`metadata`](Self::metadata), which looks for the end.
    pub fn tail_from_metadata(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Whole(json) => {
                let start = Members::new(json, 0).start_of(b"metadata");
                Cow::Borrowed(start.map_or(b"{}", |start| &json[start..]))
            }
            Self::Shared(_) | Self::Template(_) => self.metadata(),
        }
    }

    /// The UID.
    pub fn uid(&self) -> Option<&str> {
        let head: &[u8] = match self {
            Self::Whole(json) => json,
            Self::Shared(shared) => &shared.head,
            Self::Template(letter) => return letter.uid(),
        };
        std::str::from_utf8(&head[uid(head)?]).ok()
    }

    /// Writes the text from offset `from` on.
    pub fn write(&self, from: usize, out: &mut impl BufMut) {
        match self {
            Self::Whole(json) => out.put_slice(&json[from.min(json.len())..]),
            Self::Template(letter) => letter.write(from, out),
            Self::Shared(shared) => {
                let mut skip = from;
                let chunks = shared.chunks.iter().map(|chunk| chunk.bytes());
                for part in std::iter::once(&*shared.head).chain(chunks) {
                    let skipped = skip.min(part.len());
                    out.put_slice(&part[skipped..]);
                    skip -= skipped;
                }
            }
        }
    }

    /// The length.
    pub fn length(&self) -> usize {
        match self {
            Self::Whole(json) => json.len(),
            Self::Shared(shared) => shared.length,
            Self::Template(letter) => letter.length(),
        }
    }

    /// Whether it has to be assembled from shared parts.
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::Whole(_))
    }

    /// Returns how much memory the text added. Later texts with the same parts add nothing for
    /// them.
    pub fn weight(&self) -> usize {
        match self {
            Self::Whole(json) => json.len(),
            Self::Shared(shared) => shared.own,
            Self::Template(letter) => letter.weight(),
        }
    }
}

/// The most bytes of a shared text that are assembled at first to find its metadata.
const FIRST_BEGINNING: usize = 4 << 10;

/// Returns the range of the metadata, if the text has all of it.
fn metadata_range(json: &[u8]) -> Option<Range<usize>> {
    let start = Members::new(json, 0).start_of(b"metadata")?;
    Some(start..skip_value(json, start)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(uid: &str, length: usize) -> Vec<u8> {
        let lines: String = (0..length / 8).map(|n| format!("{n:08x}")).collect();
        format!(r#"{{"kind":"K","metadata":{{"uid":"{uid}","x":1}},"spec":"{lines}"}}"#).into()
    }

    fn pair(json: &[u8], pool: &Arc<Pool>) -> [Text; 2] {
        let at = Revision::new(7);
        [Text::whole(json, at), Text::shared(json, at, pool)]
    }

    #[test]
    fn shared_text_reads_as_the_whole() {
        let pool = Arc::new(Pool::default());
        let [whole, shared] = pair(&object("u-1", 40_000), &pool);
        assert!(shared.is_shared() && !whole.is_shared());
        assert_eq!(shared.bytes(), whole.bytes());
        assert_eq!(shared.length(), whole.length());
        assert_eq!((shared.uid(), whole.uid()), (Some("u-1"), Some("u-1")));
        for length in [0, 10, 60, 1024, 90_000] {
            assert_eq!(
                shared.beginning(length),
                whole.beginning(length),
                "{length}"
            );
            let (mut one, mut other) = (Vec::new(), Vec::new());
            whole.write(length, &mut one);
            shared.write(length, &mut other);
            assert_eq!(one, other, "{length}");
        }
        let later = Revision::new(1234);
        assert_eq!(shared.at(later).bytes(), whole.at(later).bytes());
        assert_eq!(shared.at(later).length(), whole.at(later).length());
    }

    #[test]
    fn metadata_is_found_at_the_beginning() {
        let (pool, at) = (Arc::new(Pool::default()), Revision::new(7));
        let annotation = "y".repeat(3 * FIRST_BEGINNING);
        for metadata in [
            r#"{"uid":"u-1","resourceVersion":"7","tenant":"t1"}"#.to_owned(),
            format!(
                r#"{{"uid":"u-1","resourceVersion":"7","annotations":{{"a":"{annotation}"}}}}"#
            ),
        ] {
            let stored = metadata.replace(r#","resourceVersion":"7""#, "");
            for length in [10, 40_000] {
                let data = "x".repeat(length);
                let json = format!(r#"{{"kind":"K","metadata":{stored},"data":"{data}"}}"#);
                let json = json.as_bytes();
                for text in [
                    Text::whole(json, at),
                    Text::shared(json, at, &pool),
                    Text::templated(json, at, &pool),
                ] {
                    assert_eq!(text.metadata(), metadata.as_bytes());
                    assert!(text.tail_from_metadata().starts_with(metadata.as_bytes()));
                }
            }
        }
        for none in ["{}", "", r#"{"kind":"K""#] {
            let text = Text::whole(none.as_bytes(), at);
            assert_eq!(text.metadata(), &b"{}"[..]);
            assert_eq!(text.tail_from_metadata(), &b"{}"[..]);
        }
    }

    #[test]
    fn templated_text_reads_as_the_whole() {
        let (pool, at) = (Arc::new(Pool::default()), Revision::new(7));
        let json = br#"{"kind":"K","metadata":{"uid":"u-1","tenant":"t1"},"data":1}"#;
        let (whole, letter) = (Text::whole(json, at), Text::templated(json, at, &pool));
        assert!(letter.is_shared() && pool.count() == 1);
        assert_eq!(letter.bytes(), whole.bytes());
        assert_eq!(letter.length(), whole.length());
        assert_eq!(letter.uid(), Some("u-1"));
        for length in [0, 10, 60, 1024] {
            assert_eq!(letter.beginning(length), whole.beginning(length));
        }
        let later = Revision::new(1234);
        assert_eq!(letter.at(later).bytes(), whole.at(later).bytes());
        let strange = Text::templated(b"{}", at, &pool);
        assert!(!strange.is_shared());
        assert_eq!(&**strange.bytes(), b"{}");
    }

    #[test]
    fn small_texts_and_texts_without_uid_stay_whole() {
        let pool = Arc::new(Pool::default());
        let [_, small] = pair(&object("u-1", 4_000), &pool);
        let [_, strange] = pair(&[b' '; 40_000], &pool);
        assert!(!small.is_shared() && !strange.is_shared());
        assert_eq!(pool.count(), 0);
    }

    #[test]
    fn shared_parts_add_no_weight() {
        let pool = Arc::new(Pool::default());
        let [whole, first] = pair(&object("u-1", 40_000), &pool);
        assert!(first.weight() > whole.weight());
        let [_, second] = pair(&object("u-2", 40_000), &pool);
        assert!(second.weight() < 1_000, "{}", second.weight());
        assert!(second.at(Revision::new(9)).weight() < 100);
        drop((first, second));
        assert_eq!(pool.count(), 0);
    }
}
