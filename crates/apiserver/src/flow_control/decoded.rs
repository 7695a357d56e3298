//! The memory that a write needs beside its body: decoded objects are larger than their text.
//!
//! Every map of a decoded object is a tree node with room for eleven members, however few it has,
//! so a schema of a megabyte takes twenty. A write has several such trees at once: the sent
//! object, the stored one, the changed one and what is derived from them.

use insula_kinds::cbor;

use crate::status::{Result, StatusError};

/// The size of a tree node: eleven names and values.
const MAP_BYTES: usize = 640;

/// How many decoded objects a write has at once.
const TREES: usize = 3;

/// The fewest bytes of a map with a member in protobuf, and in the text of a stored schema.
const MIN_PROTOBUF_MAP: usize = 8;
const STORED_MAP: usize = 32;

/// The most maps of one object. A definition of the largest size has half as many.
const MAX_MAPS: usize = 120_000;

/// The beginning of every body in protobuf.
const PROTOBUF_MAGIC: &[u8] = b"k8s\0";

/// Returns an estimate of the memory to decode a body and work with the result.
///
/// # Errors
///
/// If the body has more maps than any object may have.
pub fn estimate(body: &[u8]) -> Result<usize> {
    let maps = count_maps(body);
    if !body.starts_with(PROTOBUF_MAGIC) {
        check_maps(maps)?;
    }
    Ok(TREES * (maps * MAP_BYTES + body.len()))
}

/// Returns the same of a body in CBOR, which is decoded through its JSON. What is malformed is
/// refused before anything is decoded.
///
/// # Errors
///
/// If the body has more maps than any object may have.
pub fn estimate_cbor(body: &[u8]) -> Result<usize> {
    let size = cbor::measure(body).unwrap_or_default();
    check_maps(size.maps)?;
    Ok(TREES * (size.maps * MAP_BYTES + size.json) + size.json)
}

fn check_maps(maps: usize) -> Result<()> {
    if maps > MAX_MAPS {
        let why = format!("{maps} maps in one object, the limit is {MAX_MAPS}");
        return Err(StatusError::too_large(&why));
    }
    Ok(())
}

/// Returns an estimate of the memory to work with a stored object of this length.
pub fn estimate_stored(length: usize, is_structured: bool) -> usize {
    let maps = if is_structured {
        length / STORED_MAP
    } else {
        0
    };
    TREES * (maps * MAP_BYTES + length)
}

/// Returns an upper bound of the maps in a body.
fn count_maps(body: &[u8]) -> usize {
    if body.starts_with(PROTOBUF_MAGIC) {
        return body.len() / MIN_PROTOBUF_MAP;
    }
    let is_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
    if is_json {
        return memchr::memchr_iter(b'{', body).count();
    }
    // In YAML a map has a colon for each of its members.
    memchr::memchr_iter(b':', body).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_counts_maps_and_text() {
        let text = "x".repeat(1000);
        let flat = format!("{{\"data\":\"{text}\"}}");
        assert_eq!(estimate(flat.as_bytes()).unwrap(), 3 * (640 + flat.len()));
        let nested = br#"{"a":{"b":{"c":1}}}"#;
        assert_eq!(estimate(nested).unwrap(), 3 * (3 * 640 + nested.len()));
        let yaml = b"a:\n  b:\n    c: 1\n";
        assert_eq!(estimate(yaml).unwrap(), 3 * (3 * 640 + yaml.len()));
        assert_eq!(estimate(b"").unwrap(), 0);
    }

    #[test]
    fn body_with_too_many_maps_is_too_large() {
        let body = format!("[{}]", vec!["{\"a\":1}"; 120_001].join(","));
        let error = estimate(body.as_bytes()).unwrap_err();
        assert_eq!((error.code, error.reason()), (413, "RequestEntityTooLarge"));
        assert!(
            error.message().contains("120001 maps"),
            "{}",
            error.message()
        );
    }

    #[test]
    fn cbor_is_estimated_by_its_json() {
        let body = b"\xd9\xd9\xf7\xa1Aa\xa1Ab\x82\x01\xf4";
        let json = cbor::measure(body).unwrap().json;
        assert_eq!(estimate_cbor(body).unwrap(), 3 * (2 * 640 + json) + json);
        assert_eq!(estimate_cbor(b"\xa1"), Ok(0));
        let maps = [&[0x9a, 0, 1, 0xd4, 0xc1], &*vec![0xa0; 120_001]].concat();
        assert_eq!(estimate_cbor(&maps).unwrap_err().code, 413);
    }

    #[test]
    fn stored_schema_is_estimated_by_its_length() {
        assert_eq!(estimate_stored(32_000, false), 96_000);
        assert_eq!(estimate_stored(32_000, true), 3 * (640_000 + 32_000));
    }
}
