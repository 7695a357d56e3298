//! The format of log files, byte by byte.
//!
//! ```text
//! segment   header (64 bytes), frames, zeros up to the fixed size of the file
//! header    magic 8 | salt 8 | size of the file 8 | checksum 8 | zeros
//! frame     length of body 4 | mark 4 | first revision 8 | checksum 8 | body, padded to 8
//! body      items: a transaction, or a new floor
//! ```
//!
//! Numbers are little-endian. A frame is the unit of one sync: its transactions have consecutive
//! revisions from the frame's first. Its checksum is salted with a random number of the segment, so
//! that neither a client's value nor a leftover of another file can look like a frame.

use bytes::{Buf, BufMut, Bytes};
use insula_core::Revision;
use xxhash_rust::xxh3::Xxh3;

use crate::{Changed, Entry, Key};

/// The offset of the first frame.
pub(super) const HEADER_BYTES: u64 = 64;
/// The size of a frame's header.
pub(super) const FRAME_HEADER_BYTES: usize = 24;
/// Frames begin at multiples of this, so that lost ones can be searched for.
pub(super) const ALIGNMENT: usize = 8;

const MAGIC: &[u8; 8] = b"insulog1";
const FRAME_MARK: u32 = 0x4752_5031;

/// A logged transaction, with everything needed to apply, deliver and compact it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Record {
    pub revision: Revision,
    /// In key order.
    pub changes: Vec<Logged>,
}

/// One change of a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Logged {
    pub key: Key,
    /// `None` for a deletion.
    pub value: Option<Bytes>,
    /// The revision at which the key was created; `ZERO` for a deletion.
    pub created: Revision,
    /// The revision of the replaced value; `ZERO` if there was none.
    pub previous: Revision,
}

impl Logged {
    /// The change as a watcher sees it.
    pub(in crate::embedded) fn to_changed(&self, revision: Revision) -> Changed {
        match &self.value {
            None => Changed::Deleted(self.key.clone()),
            Some(value) => Changed::Put(Entry {
                key: self.key.clone(),
                value: value.clone(),
                created: self.created,
                modified: revision,
            }),
        }
    }

    /// The approximate size in a frame.
    pub(in crate::embedded) fn bytes(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, Bytes::len) + 32
    }
}

/// An item of a frame's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Item {
    Record(Record),
    /// The history before this revision was compacted.
    Floor(Revision),
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub salt: u64,
    pub size: u64,
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut out = &mut bytes[..];
        out.put_slice(MAGIC);
        out.put_u64_le(self.salt);
        out.put_u64_le(self.size);
        let checksum = checksum(self.salt, &[&bytes[..24]]);
        bytes[24..32].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub fn decode(mut bytes: &[u8]) -> Result<Self, &'static str> {
        let head = bytes.get(..24).ok_or("it is too short to have a header")?;
        if !bytes.starts_with(MAGIC) {
            return Err("it is not a log of a version that this program knows");
        }
        bytes.advance(8);
        let (salt, size) = (bytes.get_u64_le(), bytes.get_u64_le());
        if bytes.len() < 8 || checksum(salt, &[head]) != bytes.get_u64_le() {
            return Err("its header does not have the right checksum");
        }
        Ok(Self { salt, size })
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub body: usize,
    pub first: Revision,
    checksum: u64,
}

impl FrameHeader {
    /// `None` where there is no frame: zeros, or anything else.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() < FRAME_HEADER_BYTES {
            return None;
        }
        let (body, mark) = (bytes.get_u32_le() as usize, bytes.get_u32_le());
        let (first, checksum) = (Revision::new(bytes.get_u64_le()), bytes.get_u64_le());
        (mark == FRAME_MARK && body > 0).then_some(Self {
            body,
            first,
            checksum,
        })
    }

    pub fn matches_checksum(&self, salt: u64, body: &[u8]) -> bool {
        frame_checksum(salt, self.body, self.first, body) == self.checksum
    }

    /// The size of the frame with its padding.
    pub const fn frame_bytes(&self) -> usize {
        (FRAME_HEADER_BYTES + self.body).next_multiple_of(ALIGNMENT)
    }
}

/// Builds one frame after another in one buffer.
#[derive(Debug, Default)]
pub(in crate::embedded) struct FrameBuilder {
    bytes: Vec<u8>,
}

impl FrameBuilder {
    /// Discards the current frame.
    pub(in crate::embedded) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(FRAME_HEADER_BYTES, 0);
    }

    /// Whether the frame has no items.
    pub(in crate::embedded) fn is_empty(&self) -> bool {
        self.bytes.len() <= FRAME_HEADER_BYTES
    }

    pub(in crate::embedded) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a transaction. Each must have the revision after the one before.
    pub(in crate::embedded) fn record(&mut self, record: &Record) {
        self.bytes.put_u8(tag::RECORD);
        self.bytes.put_u32_le(length(record.changes.len()));
        for change in &record.changes {
            let value = change.value.as_deref();
            let op = if value.is_some() {
                tag::PUT
            } else {
                tag::DELETE
            };
            let value = value.unwrap_or_default();
            self.bytes.put_u8(op);
            self.bytes.put_u32_le(length(change.key.len()));
            self.bytes.put_u32_le(length(value.len()));
            self.bytes.put_u64_le(change.created.get());
            self.bytes.put_u64_le(change.previous.get());
            self.bytes.put_slice(&change.key);
            self.bytes.put_slice(value);
        }
    }

    /// Adds a new floor.
    pub(in crate::embedded) fn floor(&mut self, floor: Revision) {
        self.bytes.put_u8(tag::FLOOR);
        self.bytes.put_u64_le(floor.get());
    }

    /// Completes the frame. Its first transaction has the revision `first`.
    pub(super) fn seal(&mut self, salt: u64, first: Revision) -> &[u8] {
        let body = self.bytes.len() - FRAME_HEADER_BYTES;
        let checksum = frame_checksum(salt, body, first, &self.bytes[FRAME_HEADER_BYTES..]);
        let mut header = &mut self.bytes[..FRAME_HEADER_BYTES];
        header.put_u32_le(length(body));
        header.put_u32_le(FRAME_MARK);
        header.put_u64_le(first.get());
        header.put_u64_le(checksum);
        let padded = self.bytes.len().next_multiple_of(ALIGNMENT);
        self.bytes.resize(padded, 0);
        &self.bytes
    }
}

/// Decodes a body with a valid checksum.
pub(super) fn decode_body(first: Revision, mut body: Bytes) -> Result<Vec<Item>, &'static str> {
    const SHORT: &str = "a frame ends in the middle of an item";
    let mut items = Vec::new();
    let mut revision = first;
    while body.has_remaining() {
        match body.get_u8() {
            tag::RECORD => {
                let changes = body.try_get_u32_le().map_err(|_| SHORT)?;
                let changes: Result<Vec<_>, _> =
                    (0..changes).map(|_| decode_change(&mut body)).collect();
                let changes = changes?;
                items.push(Item::Record(Record { revision, changes }));
                revision = revision.next();
            }
            tag::FLOOR => {
                let floor = body.try_get_u64_le().map_err(|_| SHORT)?;
                items.push(Item::Floor(Revision::new(floor)));
            }
            _ => return Err("a frame holds an item of a kind that this program does not know"),
        }
    }
    Ok(items)
}

fn decode_change(body: &mut Bytes) -> Result<Logged, &'static str> {
    const FIXED: usize = 1 + 4 + 4 + 8 + 8;
    if body.len() < FIXED {
        return Err("a frame ends in the middle of a change");
    }
    let op = body.get_u8();
    let (key, value) = (body.get_u32_le() as usize, body.get_u32_le() as usize);
    let created = Revision::new(body.get_u64_le());
    let previous = Revision::new(body.get_u64_le());
    if body.len() < key + value {
        return Err("a frame ends in the middle of a value");
    }
    let key = body.split_to(key);
    let value = body.split_to(value);
    let value = (op == tag::PUT).then_some(value);
    Ok(Logged {
        key,
        value,
        created,
        previous,
    })
}

mod tag {
    pub(super) const RECORD: u8 = 1;
    pub(super) const FLOOR: u8 = 2;
    pub(super) const PUT: u8 = 1;
    pub(super) const DELETE: u8 = 2;
}

/// Lengths are bounded by the limits of a transaction and of a segment, far below 4 GiB.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn frame_checksum(salt: u64, body_bytes: usize, first: Revision, body: &[u8]) -> u64 {
    let length = length(body_bytes).to_le_bytes();
    checksum(salt, &[&length, &first.get().to_le_bytes(), body])
}

fn checksum(salt: u64, parts: &[&[u8]]) -> u64 {
    let mut hasher = Xxh3::with_seed(salt);
    for part in parts {
        hasher.update(part);
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let change = |key: &'static [u8], value: Option<&'static [u8]>| Logged {
            key: Bytes::from_static(key),
            value: value.map(Bytes::from_static),
            created: Revision::new(if value.is_some() { 3 } else { 0 }),
            previous: Revision::new(2),
        };
        vec![
            Record {
                revision: Revision::new(7),
                changes: vec![change(b"a", Some(b"1")), change(b"b", None)],
            },
            Record {
                revision: Revision::new(8),
                changes: vec![change(b"c", Some(b""))],
            },
        ]
    }

    #[test]
    fn frame_round_trips() {
        let mut builder = FrameBuilder::default();
        builder.clear();
        assert!(builder.is_empty());
        records().iter().for_each(|record| builder.record(record));
        builder.floor(Revision::new(5));
        let frame = builder.seal(99, Revision::new(7)).to_vec();
        assert_eq!(frame.len() % ALIGNMENT, 0);

        let header = FrameHeader::decode(&frame).unwrap();
        assert_eq!(header.frame_bytes(), frame.len());
        let body = &frame[FRAME_HEADER_BYTES..][..header.body];
        assert!(header.matches_checksum(99, body));
        assert!(!header.matches_checksum(98, body), "another segment's salt");
        let mut items: Vec<_> = records().into_iter().map(Item::Record).collect();
        items.push(Item::Floor(Revision::new(5)));
        let body = Bytes::copy_from_slice(body);
        assert_eq!(decode_body(Revision::new(7), body), Ok(items));
    }

    #[test]
    fn every_flipped_bit_of_a_frame_is_detected() {
        let mut builder = FrameBuilder::default();
        builder.clear();
        records().iter().for_each(|record| builder.record(record));
        let frame = builder.seal(99, Revision::new(7)).to_vec();
        let body = FrameHeader::decode(&frame).unwrap().body;
        for bit in 0..(FRAME_HEADER_BYTES + body) * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let noticed = FrameHeader::decode(&damaged).is_none_or(|header| {
                let end = FRAME_HEADER_BYTES + header.body;
                damaged
                    .get(FRAME_HEADER_BYTES..end)
                    .is_none_or(|body| !header.matches_checksum(99, body))
            });
            assert!(noticed, "bit {bit}");
        }
    }

    #[test]
    fn foreign_header_is_refused_with_a_reason() {
        let header = Header {
            salt: 1,
            size: 4096,
        };
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        let mut other = header.encode();
        other[7] = b'2';
        assert!(Header::decode(&other).unwrap_err().contains("version"));
        let mut flipped = header.encode();
        flipped[16] ^= 1;
        assert!(Header::decode(&flipped).unwrap_err().contains("checksum"));
        assert!(Header::decode(b"insu").unwrap_err().contains("short"));
    }

    #[test]
    fn truncated_body_does_not_panic() {
        let mut builder = FrameBuilder::default();
        builder.clear();
        records().iter().for_each(|record| builder.record(record));
        let body = Bytes::copy_from_slice(&builder.bytes[FRAME_HEADER_BYTES..]);
        for cut in 0..body.len() {
            let cut_off = decode_body(Revision::new(7), body.slice(..cut));
            assert!(cut_off.is_err() || cut_off.is_ok_and(|items| items.len() < 2));
        }
    }
}
