//! The wire format of protobuf: tags, varints, lengths.

use super::Error;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const END_OF_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Maximum nesting of skipped groups, which no known client sends.
const MAX_GROUPS: usize = 32;

/// The tag of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub number: u32,
    pub wire: u8,
}

/// A reader of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the tag of the next field of the message `of`; none at the end.
    pub fn tag(&mut self, of: &'static str) -> Result<Option<Tag>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire = (key & 7) as u8;
        // Go keeps 32 bits of the number.
        let number = (key >> 3) as u32;
        if wire == END_OF_GROUP {
            return Err(Error::EndOfGroup(of));
        }
        if number == 0 || number > i32::MAX as u32 {
            return Err(Error::IllegalTag(of, wire));
        }
        Ok(Some(Tag { number, wire }))
    }

    pub fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::Overflow)
    }

    /// Returns the bytes after a length prefix.
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| Error::Truncated)?;
        self.take(length)
    }

    pub fn fixed64(&mut self) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Skips the value of an unknown field.
    pub fn skip(&mut self, wire: u8) -> Result<(), Error> {
        let mut groups = 0;
        let mut wire = wire;
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.take(8)?),
                BYTES => drop(self.bytes()?),
                FIXED32 => drop(self.take(4)?),
                GROUP => groups += 1,
                END_OF_GROUP if groups > 0 => groups -= 1,
                other => return Err(Error::IllegalWireType(other)),
            }
            if groups == 0 {
                return Ok(());
            }
            if groups > MAX_GROUPS {
                return Err(Error::TooDeep);
            }
            wire = (self.varint()? & 7) as u8;
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

pub(super) fn put_number(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, VARINT);
    // Negative numbers are written with all 64 bits.
    put_varint(out, value as u64);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a field with a length that is known only afterwards.
pub(super) fn put_nested(out: &mut Vec<u8>, number: u32, content: impl FnOnce(&mut Vec<u8>)) {
    let at = open_nested(out, number);
    content(out);
    close_nested(out, at);
}

/// Begins a field with a length that is known only afterwards. Returns its offset for
/// [`close_nested`].
pub(super) fn open_nested(out: &mut Vec<u8>, number: u32) -> usize {
    put_tag(out, number, BYTES);
    // Most messages are short: reserve one byte for the length.
    out.push(0);
    out.len() - 1
}

/// Ends a field that began at this offset, and moves its content if the length needs more than
/// one byte.
pub(super) fn close_nested(out: &mut Vec<u8>, at: usize) {
    let length = out.len() - at - 1;
    let more = varint_length(length as u64) - 1;
    if more > 0 {
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(at + 1..end, at + 1 + more);
    }
    let mut rest = length;
    for byte in &mut out[at..at + more] {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[at + more] = rest as u8;
}

/// Returns the encoded size of a field with this many bytes of content.
pub(super) fn field_length(number: u32, content: usize) -> usize {
    varint_length(u64::from(number) << 3) + varint_length(content as u64) + content
}

fn varint_length(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_lengths_use_the_shortest_varint() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 2_097_152] {
            let content = vec![7; length];
            let (mut nested, mut plain) = (vec![9], vec![9]);
            put_nested(&mut nested, 3, |out| out.extend_from_slice(&content));
            put_bytes(&mut plain, 3, &content);
            assert!(nested == plain, "{length}");
            assert_eq!(plain.len() - 1, field_length(3, length));
        }
    }

    #[test]
    fn varints_roundtrip() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_length(value));
            assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(Error::Overflow));
        assert_eq!(Reader::new(&[0xff]).varint(), Err(Error::Truncated));
    }

    #[test]
    fn skipped_group_depth_is_bounded() {
        // A group with a varint and a group in it, then a byte that stays.
        let bytes = [0x08, 0x01, 0x13, 0x14, 0x0c, 0x55];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.skip(GROUP), Ok(()));
        assert_eq!(reader.rest, [0x55]);
        assert_eq!(Reader::new(&[0x0b; 99]).skip(GROUP), Err(Error::TooDeep));
        assert_eq!(Reader::new(&[]).skip(7), Err(Error::IllegalWireType(7)));
    }
}
