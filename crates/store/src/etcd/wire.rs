//! etcd's own words, as far as the engine speaks them.
//!
//! Made by `tools/protogen` from `crates/store/proto`; not to be edited. Public so that
//! tests and tools can look at what is really in an etcd.

#[expect(missing_docs, reason = "generated; the names are documented by etcd")]
pub mod etcdserverpb;
#[expect(missing_docs, reason = "generated; the names are documented by etcd")]
pub mod mvccpb;

use bytes::Bytes;
use insula_core::Revision;

use self::etcdserverpb::{RangeRequest, ResponseHeader};
use self::mvccpb::KeyValue;
use crate::{Entry, Key, KeyRange};

/// The smallest key that etcd takes. As the end of a range it means that there is none.
const LEAST: Bytes = Bytes::from_static(&[0]);

/// A range as etcd wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) key: Key,
    pub(super) range_end: Key,
}

impl Span {
    /// The span of `range`; `None` if no key that etcd takes can be in it.
    ///
    /// The empty key is none that etcd takes. So `["", "\0")` is empty, and must not be
    /// asked for: etcd would read its end as "no end".
    pub(super) fn of(range: &KeyRange) -> Option<Self> {
        if range.is_empty() || range.end() == Some(&LEAST) {
            return None;
        }
        let range_end = match (range.as_single(), range.end()) {
            (Some(_), _) => Key::new(),
            (None, Some(end)) => end.clone(),
            (None, None) => LEAST,
        };
        let key = range.start().max(&LEAST).clone();
        Some(Self { key, range_end })
    }

    /// One key that need not exist, for questions about the store as a whole.
    pub(super) const fn nothing() -> Self {
        Self {
            key: LEAST,
            range_end: Key::new(),
        }
    }
}

/// A question about nothing but the store's revision, and whether one can be read.
pub(super) fn probe(revision: i64) -> RangeRequest {
    RangeRequest {
        key: Span::nothing().key,
        revision,
        count_only: true,
        ..RangeRequest::default()
    }
}

/// A revision as etcd writes it. Those that do not fit are ones that never come.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// A revision as etcd wrote it.
pub(super) fn revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or(0))
}

/// The revision in the head of an answer.
pub(super) fn headed(header: Option<&ResponseHeader>) -> Revision {
    revision(header.map_or(0, |header| header.revision))
}

impl From<KeyValue> for Entry {
    fn from(kv: KeyValue) -> Self {
        Self {
            key: kv.key.into(),
            value: kv.value.into(),
            created: revision(kv.create_revision),
            modified: revision(kv.mod_revision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(range: &KeyRange) -> Option<(Vec<u8>, Vec<u8>)> {
        Span::of(range).map(|span| (span.key.to_vec(), span.range_end.to_vec()))
    }

    #[test]
    fn a_range_is_asked_for_as_etcd_reads_it() {
        let asked = |key: &[u8], end: &[u8]| Some((key.to_vec(), end.to_vec()));
        for (range, expected) in [
            (KeyRange::all(), asked(b"\0", b"\0")),
            (KeyRange::single(&b"k"[..]), asked(b"k", b"")),
            (KeyRange::prefix(&b"k"[..]), asked(b"k", b"l")),
            (KeyRange::prefix(&b"\xff"[..]), asked(b"\xff", b"\0")),
            (KeyRange::between(&b""[..], &b"b"[..]), asked(b"\0", b"b")),
            (KeyRange::between(&b""[..], &b"\0"[..]), None),
            (KeyRange::between(&b"b"[..], &b"a"[..]), None),
            (KeyRange::single(Key::new()), None),
        ] {
            assert_eq!(span(&range), expected, "{range:?}");
        }
    }

    #[test]
    fn a_revision_that_does_not_fit_is_one_that_never_comes() {
        assert_eq!(number(Revision::new(u64::MAX)), i64::MAX);
        assert_eq!(revision(number(Revision::new(7))), Revision::new(7));
        assert_eq!(revision(-1), Revision::ZERO);
    }
}
