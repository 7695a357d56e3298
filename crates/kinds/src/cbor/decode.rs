//! JSON text from a document.
//!
//! Bytes with an expected later encoding become the text that it says, so the JSON is what a
//! client would have sent as JSON, and is decoded like that.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::Error;
use super::head::{
    ARRAY, BASE16, BASE64, BASE64_URL, BYTES, MAP, NEGATIVE, TAG, TEXT, TIME_NUMBER, TIME_TEXT,
    UNSIGNED,
};
use super::reader::{Head, Reader, float, measure};
use crate::encode::text;

/// Returns the JSON of a document.
///
/// # Errors
///
/// If the document is not well-formed, or has no JSON.
pub fn to_json(document: &[u8]) -> Result<Vec<u8>, Error> {
    let size = measure(document)?;
    let reader = Reader::new(document);
    let mut writer = Writer {
        reader,
        // What numbers may need at the most is far more than they do.
        out: Vec::with_capacity(size.json.min(2 * document.len())),
        keys: Vec::new(),
        scratch: Vec::new(),
    };
    writer.item(None)?;
    Ok(writer.out)
}

const FALSE: u64 = 20;
const TRUE: u64 = 21;
const NULL: u64 = 22;

/// Writes the JSON of a well-formed document.
struct Writer<'a> {
    reader: Reader<'a>,
    out: Vec<u8>,
    /// The keys of the maps that are being written, as ranges of the JSON.
    keys: Vec<(usize, usize)>,
    /// The content of a string in pieces.
    scratch: Vec<u8>,
}

impl Writer<'_> {
    /// Writes an item. Its bytes, if it is bytes, are expected in an encoding later on.
    fn item(&mut self, later: Option<u64>) -> Result<(), Error> {
        let head = self.reader.head()?;
        match head.major {
            UNSIGNED | NEGATIVE => self.integer(head),
            BYTES | TEXT => self.string(head, later),
            ARRAY => self.array(head),
            MAP => self.map(head),
            TAG => self.tag(head.value, later),
            _ => self.simple(head),
        }
    }

    fn integer(&mut self, head: Head) -> Result<(), Error> {
        let is_negative = head.major == NEGATIVE;
        let value = match is_negative {
            true => -1 - i128::from(head.value),
            false => i128::from(head.value),
        };
        let value = i64::try_from(value).map_err(|_| Error::Integer(head.name(), value))?;
        self.out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn array(&mut self, head: Head) -> Result<(), Error> {
        self.out.push(b'[');
        let mut count = 0;
        while self.reader.has_next(head, count) {
            if count > 0 {
                self.out.push(b',');
            }
            self.item(None)?;
            count += 1;
        }
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, head: Head) -> Result<(), Error> {
        let base = self.keys.len();
        self.out.push(b'{');
        let mut count = 0;
        while self.reader.has_next(head, count) {
            if count > 0 {
                self.out.push(b',');
            }
            let key = self.reader.head()?;
            if !matches!(key.major, BYTES | TEXT) {
                return Err(Error::Key(key.name()));
            }
            let start = self.out.len();
            self.string(key, None)?;
            self.keys.push((start, self.out.len()));
            self.out.push(b':');
            self.item(None)?;
            count += 1;
        }
        self.out.push(b'}');
        self.check_keys(base)
    }

    /// Checks that the keys from `base` on differ, and forgets them.
    fn check_keys(&mut self, base: usize) -> Result<(), Error> {
        let keys = &mut self.keys[base..];
        let text = |key: (usize, usize)| &self.out[key.0..key.1];
        keys.sort_unstable_by(|one, other| (text(*one), one.0).cmp(&(text(*other), other.0)));
        let same = keys.windows(2).find(|pair| text(pair[0]) == text(pair[1]));
        if let Some(&[_, again]) = same {
            let before = keys.iter().filter(|key| key.0 < again.0).count();
            let key = String::from_utf8_lossy(text(again)).into_owned();
            return Err(Error::Duplicate(key, before));
        }
        self.keys.truncate(base);
        Ok(())
    }

    fn tag(&mut self, tag: u64, later: Option<u64>) -> Result<(), Error> {
        match tag {
            TIME_TEXT => self.time_text(),
            TIME_NUMBER => self.time_number(),
            BASE64 | BASE64_URL | BASE16 => self.item(Some(tag)),
            // Tags without a meaning for JSON, such as the one before every document.
            _ => self.item(later),
        }
    }

    fn time_text(&mut self) -> Result<(), Error> {
        let head = self.reader.head()?;
        if head.major != TEXT {
            return Err(Error::TagContent(TIME_TEXT, "text string", head.name()));
        }
        let start = self.out.len();
        self.string(head, None)?;
        let text = String::from_utf8_lossy(&self.out[start..]);
        let text = text.trim_matches('"');
        match crate::time::unix_time(text.as_bytes()).is_some()
            || text.parse::<jiff::Timestamp>().is_ok()
        {
            true => Ok(()),
            false => Err(Error::Time(text.to_owned())),
        }
    }

    /// Writes the time that is a number of seconds since 1970.
    fn time_number(&mut self) -> Result<(), Error> {
        let head = self.reader.head()?;
        let seconds = match head.major {
            UNSIGNED => i64::try_from(head.value).ok(),
            NEGATIVE => i64::try_from(head.value).ok().map(|value| -1 - value),
            _ => None,
        };
        let time = match (seconds, float(head)) {
            (Some(seconds), _) => jiff::Timestamp::from_second(seconds).ok(),
            (None, Some(seconds)) => {
                let since = jiff::SignedDuration::try_from_secs_f64(seconds).ok();
                since.and_then(|since| jiff::Timestamp::from_duration(since).ok())
            }
            _ => {
                let wanted = "integer or floating-point number";
                return Err(Error::TagContent(TIME_NUMBER, wanted, head.name()));
            }
        };
        let time = time.ok_or_else(|| Error::Time(head.value.to_string()))?;
        self.out.extend_from_slice(format!("\"{time}\"").as_bytes());
        Ok(())
    }

    fn simple(&mut self, head: Head) -> Result<(), Error> {
        if let Some(value) = float(head) {
            let value = serde_json::Number::from_f64(value);
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            self.out.extend_from_slice(value.as_bytes());
            return Ok(());
        }
        let word: &[u8] = match head.value {
            FALSE => b"false",
            TRUE => b"true",
            NULL => b"null",
            other => {
                let why = format!("simple value {other} is not recognized");
                return Err(Error::NotAccepted(head.name(), why));
            }
        };
        self.out.extend_from_slice(word);
        Ok(())
    }

    fn string(&mut self, head: Head, later: Option<u64>) -> Result<(), Error> {
        if !head.is_indefinite() {
            let bytes = self.reader.take(head.value)?;
            return put_text(head.major, bytes, later, &mut self.out);
        }
        self.scratch.clear();
        while !self.reader.skip_break() {
            let piece = self.reader.head()?;
            let bytes = self.reader.take(piece.value)?;
            self.scratch.extend_from_slice(bytes);
        }
        put_text(head.major, &self.scratch, later, &mut self.out)
    }
}

/// Appends the JSON of a string: its text, or of bytes the text that is expected later.
fn put_text(major: u8, bytes: &[u8], later: Option<u64>, out: &mut Vec<u8>) -> Result<(), Error> {
    let encoded = match later.filter(|_| major == BYTES) {
        Some(BASE64) => STANDARD.encode(bytes),
        Some(BASE64_URL) => URL_SAFE_NO_PAD.encode(bytes),
        Some(BASE16) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        _ => {
            text::string(std::str::from_utf8(bytes).map_err(|_| Error::NotUtf8)?, out);
            return Ok(());
        }
    };
    text::string(&encoded, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::MAX_DEPTH;
    use super::super::reader::{MAX_ENDS, MAX_NUMBER, Size, first_length};
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        digits.chunks(2).map(|of| pair(of).unwrap()).collect()
    }

    fn json(hex: &str) -> Result<String, String> {
        let json = to_json(&bytes(hex)).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(json).unwrap())
    }

    /// Recorded from Kubernetes' decoder: `direct.Unmarshal` of k8s.io/apimachinery 0.36.4 into
    /// any value, which was then written as JSON.
    #[test]
    fn documents_are_decoded_as_in_go() {
        for (hex, expected) in [
            ("00", "0"),
            ("f6", "null"),
            ("80", "[]"),
            ("40", r#""""#),
            ("60", r#""""#),
            ("a1416174", "unexpected EOF"),
            (
                "a14161c074 323031332d30332d32315432303a30343a30305a",
                r#"{"a":"2013-03-21T20:04:00Z"}"#,
            ),
            ("a14161c11a514b67b0", r#"{"a":"2013-03-21T20:04:00Z"}"#),
            (
                "a14161c1fb41d452d9ec200000",
                r#"{"a":"2013-03-21T20:04:00.5Z"}"#,
            ),
            ("a14161d5426162", r#"{"a":"YWI"}"#),
            ("a14161d6426162", r#"{"a":"YWI="}"#),
            ("a14161d7426162", r#"{"a":"6162"}"#),
            ("a14161d6820102", r#"{"a":[1,2]}"#),
            ("a14161d86401", r#"{"a":1}"#),
            ("a14161d9d9f701", r#"{"a":1}"#),
            ("bf416101ff", r#"{"a":1}"#),
            ("a141619f0102ff", r#"{"a":[1,2]}"#),
            ("a141615f4161ff", r#"{"a":"a"}"#),
            ("a141617f6161ff", r#"{"a":"a"}"#),
            ("a15f4161ff01", r#"{"a":1}"#),
            ("d9d9f7d9d9f7a0", "{}"),
            ("a14161fb3ff199999999999a", r#"{"a":1.1}"#),
            ("a14161d57f6161ff", r#"{"a":"a"}"#),
            ("a14161d66161", r#"{"a":"a"}"#),
            ("a14161d65f41614162ff", r#"{"a":"YWI="}"#),
            ("a14161d6d6426162", r#"{"a":"YWI="}"#),
            ("a14161d6d9d9f7426162", r#"{"a":"YWI="}"#),
            ("a141613b7fffffffffffffff", r#"{"a":-9223372036854775808}"#),
        ] {
            let found = json(hex).unwrap_or_else(|error| error);
            assert_eq!(found, expected, "{hex}");
        }
        // Go writes a whole number without its fraction.
        assert_eq!(json("a14161f93c00").unwrap(), r#"{"a":1.0}"#);
    }

    /// Recorded in the same way.
    #[test]
    fn documents_without_json_are_refused_as_in_go() {
        for (hex, expected) in [
            ("", "EOF"),
            ("a1", "unexpected EOF"),
            ("ff", "cbor: unexpected \"break\" code"),
            (
                "1c",
                "cbor: invalid additional information 28 for type positive integer",
            ),
            (
                "5c",
                "cbor: invalid additional information 28 for type byte string",
            ),
            ("a1ff", "cbor: unexpected \"break\" code"),
            (
                "a0a0",
                "cbor: 1 bytes of extraneous data starting at index 1",
            ),
            ("7b2261223a317d", "unexpected EOF"),
            ("61ff", "cbor: invalid UTF-8 string"),
            ("a161ff00", "cbor: invalid UTF-8 string"),
            (
                "a2416100416101",
                "cbor: found duplicate map key \"a\" at map element index 1",
            ),
            (
                "a2416100616101",
                "cbor: found duplicate map key \"a\" at map element index 1",
            ),
            (
                "a10001",
                "cbor: cannot unmarshal positive integer into Go value of type string",
            ),
            (
                "a1f500",
                "cbor: cannot unmarshal primitives into Go value of type string",
            ),
            (
                "a14161f7",
                "cbor: data item of cbor type primitives is not accepted by protocol: simple \
                 value 23 is not recognized",
            ),
            (
                "a14161f820",
                "cbor: data item of cbor type primitives is not accepted by protocol: simple \
                 value 32 is not recognized",
            ),
            (
                "a14161f818",
                "cbor: invalid simple value 24 for type primitives",
            ),
            (
                "a14161f97e00",
                "cbor: data item of cbor type primitives is not accepted by protocol: \
                 floating-point NaN",
            ),
            (
                "a14161f97c00",
                "cbor: data item of cbor type primitives is not accepted by protocol: \
                 floating-point infinity",
            ),
            (
                "a141611bffffffffffffffff",
                "cbor: cannot unmarshal positive integer into Go value of type int64 \
                 (18446744073709551615 overflows Go's int64)",
            ),
            (
                "a141613bffffffffffffffff",
                "cbor: cannot unmarshal negative integer into Go value of type int64 \
                 (-18446744073709551616 overflows Go's int64)",
            ),
            (
                "a14161c2420001",
                "cbor: data item of cbor type tag is not accepted by protocol: bignum",
            ),
            (
                "a14161c0436e6f7a",
                "cbor: tag number 0 must be followed by text string, got byte string",
            ),
            (
                "a14161c001",
                "cbor: tag number 0 must be followed by text string, got positive integer",
            ),
            (
                "a14161c16161",
                "cbor: tag number 1 must be followed by integer or floating-point number, got \
                 UTF-8 text string",
            ),
            ("bf416101", "unexpected EOF"),
            (
                "a141615f6161ff",
                "cbor: wrong element type UTF-8 text string for indefinite-length byte string",
            ),
            (
                "a141615f5f4161ffff",
                "cbor: indefinite-length byte string chunk is not definite-length",
            ),
            ("bf4161ff", "cbor: unexpected \"break\" code"),
            ("a141615f41ff", "unexpected EOF"),
            ("9bffffffffffffffff", "unexpected EOF"),
            ("5bffffffffffffffff", "unexpected EOF"),
            // Go decodes these to U+FFFD, and goes on with the wording of its parser of times.
            ("a1416141ff", "cbor: invalid UTF-8 string"),
            ("a14161c06378797a", "cbor: cannot set xyz for time.Time"),
        ] {
            assert_eq!(json(hex), Err(expected.to_owned()), "{hex}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize, inner: &str| format!("{}{inner}", "81".repeat(depth));
        let deep = json(&nested(MAX_DEPTH - 1, "80")).unwrap();
        assert_eq!(deep.len(), 2 * MAX_DEPTH);
        for head in ["81", "a140", "d864", "9f"] {
            let deep = head.repeat(100_000);
            assert_eq!(json(&deep), Err(Error::TooDeep.to_string()), "{head}");
        }
    }

    #[test]
    fn key_may_occur_in_several_maps() {
        let maps = "a2 4161 a1416101 4162 a24161024163 a1416103";
        assert_eq!(
            json(maps).unwrap(),
            r#"{"a":{"a":1},"b":{"a":2,"c":{"a":3}}}"#
        );
        let error = json("a3 4161 01 4162 a0 4161 a0").unwrap_err();
        assert_eq!(
            error,
            "cbor: found duplicate map key \"a\" at map element index 2"
        );
    }

    #[test]
    fn documents_of_a_sequence_are_told_apart() {
        let sequence = bytes("d9d9f7a1416101 80");
        assert_eq!(first_length(&sequence), Some(7));
        assert_eq!(first_length(&sequence[7..]), Some(1));
        assert_eq!(first_length(&[]), None);
        // An event has more levels than its object.
        let event = bytes(&format!("d9d9f7a14461{}80", "81".repeat(MAX_DEPTH + 30)));
        assert_eq!(
            first_length(&[&event[..], &sequence].concat()),
            Some(event.len())
        );
    }

    #[test]
    fn json_is_no_longer_than_measured() {
        for hex in [
            "00",
            "f4",
            "3b7fffffffffffffff",
            "fbffefffffffffffff",
            "f90001",
            "4a00010203040506070809",
            "d7420001",
            "d64101",
            "63e280a8",
            "43e280a9",
            "83 f4 f4 f4",
            "a141f4f4",
            "5f 41 00 41 22 ff",
            "c11a514b67b0",
            "453c3e265c22",
        ] {
            let bytes = bytes(hex);
            let Ok(json) = to_json(&bytes) else {
                continue;
            };
            assert!(json.len() <= measure(&bytes).unwrap().json, "{hex}");
        }
    }

    #[test]
    fn size_counts_maps_and_json() {
        let size = measure(&bytes("d9d9f7a24161a04162820102")).unwrap();
        let json = 8 * MAX_ENDS + 2 * MAX_NUMBER + 2;
        assert_eq!(size, Size { maps: 2, json });
    }
}
