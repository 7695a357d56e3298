//! Encodes versions, heads and marks as rows.
//!
//! ```text
//! h key                      -> modified, created          the current version
//! m name                     -> number                     how far the table is
//! v key' 00 01 !revision     -> created, value             a version, newest first
//! v key' 00 01 !revision     -> nothing                    a deletion
//! ```
//!
//! `key'` is the key with each 00 as 00 FF, so that versions sort by key and then by revision,
//! whatever bytes a key has. Heads are read only when the table is opened.

use std::ops::Bound;

use bytes::{BufMut, Bytes};
use insula_core::Revision;

use super::Head;
use crate::embedded::log::Logged;
use crate::{Entry, Key, KeyRange};

pub(super) const APPLIED: &str = "applied";
pub(super) const FLOOR: &str = "floor";
pub(super) const SWEPT: &str = "swept";

const HEAD: u8 = b'h';
const MARK: u8 = b'm';
const VERSION: u8 = b'v';

/// Terminates a key: smaller than the continuation of any longer key.
const END_OF_KEY: [u8; 2] = [0x00, 0x01];
const REVISION_BYTES: usize = 8;

/// A range of row keys.
pub(super) struct Bounds {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Bounds {
    /// The bounds of a range of row keys, which must have an end.
    pub(super) fn of(range: &KeyRange) -> Option<Self> {
        Some(Self {
            from: range.start().to_vec(),
            to: range.end()?.to_vec(),
        })
    }

    pub(super) fn to_range(&self) -> KeyRange {
        KeyRange::between(self.from.clone(), self.to.clone())
    }

    pub(super) fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), Bound::Excluded(&self.to))
    }
}

/// A stored version.
pub(super) struct Version<'a> {
    created: Revision,
    value: &'a [u8],
}

impl Version<'_> {
    /// Copied: a row is part of a larger block, which would stay in memory with it.
    pub(super) fn entry(&self, key: Key, modified: Revision) -> Entry {
        Entry {
            key,
            value: Bytes::copy_from_slice(self.value),
            created: self.created,
            modified,
        }
    }
}

pub(super) fn mark(name: &str) -> Vec<u8> {
    let mut row = vec![MARK];
    row.extend_from_slice(name.as_bytes());
    row
}

pub(super) fn encode_mark(revision: Revision) -> Vec<u8> {
    revision.get().to_be_bytes().to_vec()
}

pub(super) fn decode_mark(row: &[u8]) -> Option<Revision> {
    let number = row.try_into().ok()?;
    Some(Revision::new(u64::from_be_bytes(number)))
}

/// The range of all heads.
pub(super) fn head_bounds() -> Bounds {
    Bounds {
        from: vec![HEAD],
        to: vec![HEAD + 1],
    }
}

/// The key of a head's row.
pub(super) fn head_key(row_key: &[u8]) -> Option<&[u8]> {
    row_key.strip_prefix(&[HEAD])
}

pub(super) fn head(key: &[u8]) -> Vec<u8> {
    let mut row_key = Vec::with_capacity(1 + key.len());
    row_key.push(HEAD);
    row_key.extend_from_slice(key);
    row_key
}

pub(super) fn encode_head(head: Head) -> Vec<u8> {
    [head.modified, head.created]
        .map(|revision| revision.get().to_be_bytes())
        .concat()
}

pub(super) fn decode_head(row: &[u8]) -> Option<Head> {
    let (modified, created) = row.split_first_chunk::<8>()?;
    Some(Head {
        modified: Revision::new(u64::from_be_bytes(*modified)),
        created: Revision::new(u64::from_be_bytes(created.try_into().ok()?)),
    })
}

pub(super) fn version(key: &[u8], revision: Revision) -> Vec<u8> {
    let mut row = escaped(key, END_OF_KEY.len() + REVISION_BYTES);
    row.put_slice(&END_OF_KEY);
    row.put_u64(!revision.get());
    row
}

/// The escaped key and the revision of a version's row.
pub(super) fn split_version(row: &[u8]) -> Option<(&[u8], Revision)> {
    let row = row.strip_prefix(&[VERSION])?;
    let (key, revision) = row.split_last_chunk::<REVISION_BYTES>()?;
    let key = key.strip_suffix(&END_OF_KEY)?;
    Some((key, Revision::new(!u64::from_be_bytes(*revision))))
}

/// The range of the versions of a range's keys.
pub(super) fn version_bounds(range: &KeyRange) -> Bounds {
    let end = range.end().map(|end| escaped(end, 0));
    Bounds {
        from: escaped(range.start(), 0),
        to: end.unwrap_or_else(|| vec![VERSION + 1]),
    }
}

pub(super) fn encode_version(change: &Logged) -> Vec<u8> {
    let Some(value) = &change.value else {
        return Vec::new();
    };
    let mut row = Vec::with_capacity(REVISION_BYTES + value.len());
    row.put_u64(change.created.get());
    row.put_slice(value);
    row
}

/// `Some(None)` for a deletion, `None` for an invalid row.
pub(super) fn decode_version(row: &[u8]) -> Option<Option<Version<'_>>> {
    if row.is_empty() {
        return Some(None);
    }
    let (created, value) = row.split_first_chunk::<REVISION_BYTES>()?;
    let created = Revision::new(u64::from_be_bytes(*created));
    Some(Some(Version { created, value }))
}

/// Reverses [`escaped`].
pub(super) fn unescape(escaped: &[u8]) -> Key {
    if !escaped.contains(&0) {
        return Bytes::copy_from_slice(escaped);
    }
    let mut key = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        key.push(*byte);
        if *byte == 0 {
            bytes.next();
        }
    }
    key.into()
}

fn escaped(key: &[u8], room: usize) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + key.len() + room);
    row.push(VERSION);
    if key.contains(&0) {
        for byte in key {
            row.push(*byte);
            if *byte == 0 {
                row.push(0xff);
            }
        }
    } else {
        row.extend_from_slice(key);
    }
    row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0_u8), Just(1), Just(0xff), Just(b'a'), any::<u8>()];
        prop::collection::vec(byte, 0..6)
    }

    proptest! {
        #[test]
        fn rows_sort_by_key_then_newest_first(
            a in any_key(), b in any_key(), x in 0..4_u64, y in 0..4_u64,
        ) {
            let rows = version(&a, Revision::new(x)).cmp(&version(&b, Revision::new(y)));
            prop_assert_eq!(rows, a.cmp(&b).then(y.cmp(&x)));
        }

        #[test]
        fn version_row_round_trips(key in any_key(), revision: u64) {
            let row = version(&key, Revision::new(revision));
            let (escaped, found) = split_version(&row).unwrap();
            prop_assert_eq!(found.get(), revision);
            prop_assert_eq!(unescape(escaped).to_vec(), key);
        }

        #[test]
        fn range_contains_exactly_the_rows_of_its_keys(
            start in any_key(), end in any_key(), key in any_key(), revision: u64,
        ) {
            let range = KeyRange::between(start, end);
            prop_assume!(!range.is_empty());
            let Bounds { from, to } = version_bounds(&range);
            let row = version(&key, Revision::new(revision));
            prop_assert_eq!(range.contains(&key), from <= row && row < to);
        }
    }
}
