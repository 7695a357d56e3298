//! Documents that are read item by item, and checked before that.

use super::head::{
    ARRAY, BASE16, BASE64, BASE64_URL, BIGNUMS, BYTES, MAP, NEGATIVE, SIMPLE, TAG, TEXT, UNSIGNED,
    from_half,
};
use super::{Error, MAX_DEPTH};

/// What a document contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its maps.
    pub maps: usize,
    /// The most bytes that its JSON has.
    pub json: usize,
}

/// The most bytes of a number in JSON and the comma after it.
pub(super) const MAX_NUMBER: usize = 26;

/// The most bytes of `false`, of the ends of a map, list or string, and what follows them.
pub(super) const MAX_ENDS: usize = 6;

/// The bytes that an escape adds to a byte of a string.
const ESCAPE: usize = 5;

/// Checks that a document is well-formed and has no numbers that JSON does not have.
///
/// # Errors
///
/// If it is not.
pub fn measure(document: &[u8]) -> Result<Size, Error> {
    if document.is_empty() {
        return Err(Error::Empty);
    }
    let mut reader = Reader::new(document);
    let mut check = Check::up_to(MAX_DEPTH);
    reader.check(0, &mut check)?;
    let size = check.size;
    match document.len() - reader.at {
        0 => Ok(size),
        left => Err(Error::Extraneous(left, reader.at)),
    }
}

/// Returns the length of the first document of a sequence that the server has written; `None` if
/// it is not well-formed.
pub fn first_length(sequence: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(sequence);
    reader.check(0, &mut Check::up_to(MAX_EVENT_DEPTH)).ok()?;
    Some(reader.at)
}

/// Maximum nesting of events: objects have managed fields beside what clients may send, and are
/// members of an event.
const MAX_EVENT_DEPTH: usize = 2 * MAX_DEPTH;

/// What is found out about a document.
struct Check {
    size: Size,
    max_depth: usize,
    /// Whether a tag around the item has counted that bytes may become longer.
    is_encoded: bool,
}

impl Check {
    fn up_to(max_depth: usize) -> Self {
        Self {
            size: Size::default(),
            max_depth,
            is_encoded: false,
        }
    }
}

/// The head of an item.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub major: u8,
    pub info: u8,
    pub value: u64,
}

impl Head {
    /// Whether the item ends with a break instead of having a length.
    pub const fn is_indefinite(self) -> bool {
        self.info == 31
    }

    pub const fn name(self) -> &'static str {
        type_name(self.major)
    }
}

const fn type_name(major: u8) -> &'static str {
    match major {
        UNSIGNED => "positive integer",
        NEGATIVE => "negative integer",
        BYTES => "byte string",
        TEXT => "UTF-8 text string",
        ARRAY => "array",
        MAP => "map",
        TAG => "tag",
        _ => "primitives",
    }
}

const BREAK: u8 = 0xff;

/// Reads heads and contents.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let left = &self.bytes[self.at..];
        let length = usize::try_from(length).map_err(|_| Error::Truncated)?;
        let taken = left.get(..length).ok_or(Error::Truncated)?;
        self.at += length;
        Ok(taken)
    }

    pub fn head(&mut self) -> Result<Head, Error> {
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 0x1f);
        let value = match info {
            0..24 => u64::from(info),
            24..28 => {
                let bytes = self.take(1 << (info - 24))?;
                bytes
                    .iter()
                    .fold(0, |value, byte| value << 8 | u64::from(*byte))
            }
            31 if first == BREAK => return Err(Error::Break),
            31 if (BYTES..=MAP).contains(&major) => 0,
            _ => return Err(Error::Head(info, type_name(major))),
        };
        Ok(Head { major, info, value })
    }

    pub fn skip_break(&mut self) -> bool {
        let is_break = self.bytes.get(self.at) == Some(&BREAK);
        self.at += usize::from(is_break);
        is_break
    }

    /// Whether another element follows, of `count` or until a break.
    pub fn has_next(&mut self, head: Head, count: u64) -> bool {
        match head.is_indefinite() {
            true => !self.skip_break(),
            false => count < head.value,
        }
    }

    fn check(&mut self, depth: usize, check: &mut Check) -> Result<(), Error> {
        let head = self.head()?;
        check.size.json += MAX_ENDS;
        match head.major {
            UNSIGNED | NEGATIVE => check.size.json += MAX_NUMBER,
            BYTES | TEXT => check.size.json += self.check_string(head)?,
            SIMPLE => {
                check.size.json += MAX_NUMBER;
                check_simple(head)?;
            }
            _ if depth == check.max_depth => return Err(Error::TooDeep),
            TAG => self.check_tag(head, depth, check)?,
            major => {
                check.size.maps += usize::from(major == MAP);
                let mut count = 0;
                while self.has_next(head, count) {
                    self.check(depth + 1, check)?;
                    if major == MAP {
                        self.check(depth + 1, check)?;
                    }
                    count += 1;
                }
            }
        }
        Ok(())
    }

    fn check_tag(&mut self, head: Head, depth: usize, check: &mut Check) -> Result<(), Error> {
        if BIGNUMS.contains(&head.value) {
            return Err(Error::NotAccepted("tag", "bignum".to_owned()));
        }
        let encodes = matches!(head.value, BASE64_URL | BASE64 | BASE16);
        if !encodes || check.is_encoded {
            return self.check(depth + 1, check);
        }
        let start = self.at;
        check.is_encoded = true;
        self.check(depth + 1, check)?;
        check.is_encoded = false;
        // Bytes have at most two digits each, however many tags are around them.
        check.size.json += self.at - start;
        Ok(())
    }

    /// Returns the most bytes of the string in JSON, without its quotes.
    fn check_string(&mut self, head: Head) -> Result<usize, Error> {
        if !head.is_indefinite() {
            return self.take(head.value).map(json_length);
        }
        let mut length = 0;
        while !self.skip_break() {
            let piece = self.head()?;
            if piece.major != head.major {
                return Err(Error::Piece(piece.name(), head.name()));
            }
            if piece.is_indefinite() {
                return Err(Error::IndefinitePiece(head.name()));
            }
            length += json_length(self.take(piece.value)?);
        }
        Ok(length)
    }
}

fn json_length(text: &[u8]) -> usize {
    // Of the two line separators, the first of three bytes.
    let is_escaped =
        |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
    let escaped = text.iter().filter(|byte| is_escaped(byte)).count();
    text.len() + ESCAPE * escaped
}

/// Checks that a simple value is well-formed, and a number finite.
fn check_simple(head: Head) -> Result<(), Error> {
    if head.info == 24 && head.value < 32 {
        return Err(Error::Simple(head.value));
    }
    match float(head) {
        Some(value) if value.is_nan() => {
            let why = "floating-point NaN".to_owned();
            Err(Error::NotAccepted(head.name(), why))
        }
        Some(value) if value.is_infinite() => {
            let why = "floating-point infinity".to_owned();
            Err(Error::NotAccepted(head.name(), why))
        }
        _ => Ok(()),
    }
}

/// Returns the value of a floating-point number.
pub(super) fn float(head: Head) -> Option<f64> {
    if head.major != SIMPLE {
        return None;
    }
    match head.info {
        25 => u16::try_from(head.value).ok().map(from_half),
        26 => {
            let bits = u32::try_from(head.value).ok()?;
            Some(f32::from_bits(bits).into())
        }
        27 => Some(f64::from_bits(head.value)),
        _ => None,
    }
}
