//! The envelope (`runtime.Unknown`) of messages, watch frames and lists.

use super::Error;
use super::encode::encode;
use super::wire::{BYTES, Reader, field_length, put_bytes, put_nested, put_tag, put_varint};
use crate::Object;
use crate::types::types;

/// The prefix of every body and of every object in a watch event.
const MAGIC: &[u8] = b"k8s\0";

/// An opened body: a message and its type metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `v1`, `apps/v1`; may be empty.
    pub api_version: &'a str,
    /// The kind; may be empty.
    pub kind: &'a str,
    /// The message.
    pub raw: &'a [u8],
}

/// Opens a body.
///
/// # Errors
///
/// If it does not begin with `k8s\0` or is not followed by an envelope.
pub fn open(body: &[u8]) -> Result<Envelope<'_>, Error> {
    if body.is_empty() {
        return Err(Error::NoData);
    }
    let message = body.strip_prefix(MAGIC).ok_or(Error::NoMagic)?;
    if message.is_empty() {
        return Err(Error::NoBody);
    }
    let mut envelope = Envelope {
        api_version: "",
        kind: "",
        raw: &[],
    };
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag("Unknown")? {
        match (tag.number, tag.wire) {
            (1, BYTES) => read_type(reader.bytes()?, &mut envelope)?,
            (2, BYTES) => envelope.raw = reader.bytes()?,
            (1, wire) => return Err(wrong(wire, "TypeMeta")),
            (2, wire) => return Err(wrong(wire, "Raw")),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(envelope)
}

/// Wraps a message in an envelope.
pub fn seal(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + api_version.len() + kind.len() + 24);
    seal_into(api_version, kind, raw, &mut out);
    out
}

/// Appends a message wrapped in an envelope.
fn seal_into(api_version: &str, kind: &str, raw: &[u8], out: &mut Vec<u8>) {
    put_type(api_version, kind, out);
    put_bytes(out, 2, raw);
    put_end(out);
}

/// Appends the bytes of an envelope before its message.
fn put_type(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    put_nested(out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
}

/// Appends the bytes of an envelope after its message: content encoding and content type, always
/// present, always empty.
fn put_end(out: &mut Vec<u8>) {
    put_bytes(out, 3, b"");
    put_bytes(out, 4, b"");
}

/// Builds a watch frame: its length and an event with an enveloped object.
pub fn watch_frame(event_type: &str, sealed_object: &[u8]) -> Vec<u8> {
    let object = field_length(1, sealed_object.len());
    let length = field_length(1, event_type.len()) + field_length(2, object);
    let mut frame = Vec::with_capacity(4 + length);
    // An object is far smaller than 4 GiB.
    frame.extend_from_slice(&(length as u32).to_be_bytes());
    put_bytes(&mut frame, 1, event_type.as_bytes());
    put_tag(&mut frame, 2, BYTES);
    put_varint(&mut frame, object as u64);
    put_bytes(&mut frame, 1, sealed_object);
    frame
}

/// The bytes of a list in its envelope before and after its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFrame {
    /// The bytes before the items.
    pub head: Vec<u8>,
    /// The bytes after the items.
    pub tail: Vec<u8>,
}

impl ListFrame {
    /// The frame of a list of items that take `items_length` bytes as written by [`put_item`].
    pub fn new(api_version: &str, kind: &str, list_meta: &Object, items_length: usize) -> Self {
        let mut meta = Vec::new();
        put_nested(&mut meta, 1, |out| {
            if let Some(of) = types().find("apimachinery.pkg.apis.meta.v1.ListMeta") {
                encode(of, list_meta, out);
            }
        });
        let mut head = Vec::with_capacity(64 + meta.len());
        put_type(api_version, kind, &mut head);
        put_tag(&mut head, 2, BYTES);
        put_varint(&mut head, (meta.len() + items_length) as u64);
        head.extend_from_slice(&meta);
        let mut tail = Vec::new();
        put_end(&mut tail);
        Self { head, tail }
    }

    /// Returns the length of an item with a message of this length.
    pub fn item_length(message: usize) -> usize {
        field_length(2, message)
    }
}

/// Appends an item of a list. Its message must have the length that is given.
pub fn put_item(length: usize, message: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    put_tag(out, 2, BYTES);
    put_varint(out, length as u64);
    let start = out.len();
    message(out);
    debug_assert_eq!(out.len() - start, length, "the message has its length");
}

fn read_type<'a>(message: &'a [u8], envelope: &mut Envelope<'a>) -> Result<(), Error> {
    let mut reader = Reader::new(message);
    while let Some(tag) = reader.tag("TypeMeta")? {
        match (tag.number, tag.wire) {
            (1, BYTES) => envelope.api_version = name(reader.bytes()?, "apiVersion")?,
            (2, BYTES) => envelope.kind = name(reader.bytes()?, "kind")?,
            (1, wire) => return Err(wrong(wire, "APIVersion")),
            (2, wire) => return Err(wrong(wire, "Kind")),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(())
}

fn name<'a>(bytes: &'a [u8], field: &str) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::OutOfRange(field.to_owned()))
}

fn wrong(wire: u8, field: &str) -> Error {
    Error::WrongWireType {
        wire,
        field: field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn envelopes_roundtrip() {
        let sealed = seal("apps/v1", "Deployment", b"abc");
        let wanted = b"k8s\0\x0a\x15\x0a\x07apps/v1\x12\x0aDeployment\x12\x03abc\x1a\x00\x22\x00";
        assert_eq!(sealed, wanted);
        let envelope = open(&sealed).unwrap();
        assert_eq!(envelope.api_version, "apps/v1");
        assert_eq!(envelope.kind, "Deployment");
        assert_eq!(envelope.raw, b"abc");
    }

    #[test]
    fn malformed_envelopes_are_rejected_in_gos_words() {
        let refused = |body: &[u8]| open(body).unwrap_err().to_string();
        assert_eq!(refused(b""), "empty data");
        assert_eq!(refused(b"k8s\0"), "empty body");
        assert_eq!(
            refused(b"{}"),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        );
        assert_eq!(refused(b"k8s\0\x0a\x09a"), "unexpected EOF");
        assert_eq!(
            refused(b"k8s\0\x10\x01"),
            "proto: wrong wireType = 0 for field Raw"
        );
    }

    #[test]
    fn watch_frame_starts_with_its_length() {
        let frame = watch_frame("ADDED", b"xyz");
        assert_eq!(frame, b"\0\0\0\x0e\x0a\x05ADDED\x12\x05\x0a\x03xyz");
        let large = watch_frame("ADDED", &[0; 1000]);
        assert_eq!(u32::from_be_bytes([0, 0, 3, 245]) as usize, large.len() - 4);
    }

    #[test]
    fn list_message_repeats_its_items() {
        let meta = json!({"resourceVersion": "7"});
        let items: [&[u8]; 2] = [b"a", b""];
        let length = |item: &&[u8]| ListFrame::item_length(item.len());
        let length = items.iter().map(length).sum();
        let frame = ListFrame::new("v1", "KList", meta.as_object().unwrap(), length);
        let mut list = frame.head;
        for item in items {
            put_item(item.len(), |out| out.extend_from_slice(item), &mut list);
        }
        list.extend_from_slice(&frame.tail);
        let raw = b"\x0a\x07\x0a\x00\x12\x017\x1a\x00\x12\x01a\x12\x00";
        assert_eq!(list, seal("v1", "KList", raw));
    }
}
