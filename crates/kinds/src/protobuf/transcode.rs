//! Messages from the JSON text of stored objects, without a tree in between.
//!
//! The text is the server's own writing: compact, members in the order of their types, map keys
//! sorted. It is read once, from the beginning to the end. Members that the message has later
//! than JSON are skipped and read again at their turn. Whatever else is found ends the reading,
//! and the text is decoded to a tree and [encoded](super::encode()) instead: both produce the
//! same bytes.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::encode::{encode, put_time, put_value};
use super::layout::{Entry, Layout, Turn, layout};
use super::wire::{BYTES, close_nested, open_nested, put_bytes, put_number, put_tag, put_varint};
use crate::Object;
use crate::scan::{skip_value, string_end, unescape};
use crate::time::unix_time;
use crate::types::{Form, Shape, TypeId, types};

/// Nesting beyond which the text is decoded to a tree.
const MAX_DEPTH: usize = 48;

/// Appends the message of the object with this JSON text, as [`encode`](super::encode()) does of
/// its tree.
pub fn encode_text(of: TypeId, json: &[u8], out: &mut Vec<u8>) {
    if !transcode(of, json, out) {
        encode(of, &tree(json), out);
    }
}

/// Appends the message of a `PartialObjectMetadata` with the metadata that this text begins with.
/// What follows the metadata is not read.
pub fn encode_metadata_text(text: &[u8], out: &mut Vec<u8>) {
    static OBJECT_META: LazyLock<TypeId> = LazyLock::new(|| {
        let found = types().find("apimachinery.pkg.apis.meta.v1.ObjectMeta");
        found.expect("the table has the metadata type")
    });
    let at = open_nested(out, 1);
    if transcode_beginning(*OBJECT_META, text, out).is_none() {
        let end = skip_value(text, 0).unwrap_or(text.len());
        encode(*OBJECT_META, &tree(&text[..end]), out);
    }
    close_nested(out, at);
}

fn tree(json: &[u8]) -> Object {
    serde_json::from_slice(json).unwrap_or_default()
}

/// Appends the message, or nothing if the text is not as the server writes it.
pub(super) fn transcode(of: TypeId, json: &[u8], out: &mut Vec<u8>) -> bool {
    let length = out.len();
    let is_whole = transcode_beginning(of, json, out) == Some(json.len());
    if !is_whole {
        out.truncate(length);
    }
    is_whole
}

/// Appends the message of the object that the text begins with, and returns the length of that
/// object's text. Appends nothing if it is not as the server writes it.
fn transcode_beginning(of: TypeId, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let length = out.len();
    let mut transcoder = Transcoder {
        text,
        at: 0,
        out,
        noted: Vec::new(),
        depth: 0,
    };
    let written = transcoder.message(of);
    let end = transcoder.at;
    if written.is_none() {
        out.truncate(length);
    }
    written.map(|()| end)
}

struct Transcoder<'a> {
    text: &'a [u8],
    /// The offset that is read next.
    at: usize,
    out: &'a mut Vec<u8>,
    /// The texts of deferred members, of all messages that are being written.
    noted: Vec<Range<usize>>,
    depth: usize,
}

/// A string in the text, without its quotes.
struct Text<'a> {
    bytes: &'a [u8],
    is_escaped: bool,
}

impl<'a> Transcoder<'a> {
    /// Writes the fields of the object that begins here.
    fn message(&mut self, of: TypeId) -> Option<()> {
        let layout = layout(of);
        let base = self.noted.len();
        self.noted.resize(base + layout.deferred, 0..0);
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.expect(b'{')?;
        let (mut position, mut written) = (0, 0);
        let mut is_first = true;
        while !self.skip_if(b'}') {
            if !std::mem::replace(&mut is_first, false) {
                self.expect(b',')?;
            }
            let name = self.plain_string()?;
            self.expect(b':')?;
            let Some(found) = find(layout, position, name) else {
                // The tree encoder ignores members that the type does not have, and so does this.
                // A member that comes too late or twice is decoded to a tree.
                if find(layout, 0, name).is_some() {
                    return None;
                }
                self.skip_value()?;
                continue;
            };
            position = found + 1;
            if self.skip_null()? {
                continue;
            }
            match layout.members[found].turn {
                Turn::Deferred(slot) => {
                    let start = self.at;
                    self.skip_value()?;
                    self.noted[base + slot] = start..self.at;
                }
                Turn::InPlace(entry) => {
                    self.entries(&layout.entries[written..entry], base)?;
                    if let Entry::Field { field, .. } = &layout.entries[entry] {
                        self.field(&field.shape, field.number)?;
                    }
                    written = entry + 1;
                }
            }
        }
        self.entries(&layout.entries[written..], base)?;
        self.noted.truncate(base);
        self.depth -= 1;
        Some(())
    }

    /// Writes fields that are absent or whose members were noted.
    fn entries(&mut self, entries: &'static [Entry], base: usize) -> Option<()> {
        for entry in entries {
            match entry {
                Entry::Inline { number, entries } => {
                    let nested = open_nested(self.out, *number);
                    self.entries(entries, base)?;
                    close_nested(self.out, nested);
                }
                Entry::Field {
                    field,
                    absent,
                    slot,
                } => {
                    let noted = slot.map(|slot| self.noted[base + slot].clone());
                    match noted.filter(|noted| !noted.is_empty()) {
                        None => self.out.extend_from_slice(absent),
                        Some(noted) => {
                            let at = std::mem::replace(&mut self.at, noted.start);
                            self.field(&field.shape, field.number)?;
                            self.at = at;
                        }
                    }
                }
            }
        }
        Some(())
    }

    /// Writes the value that begins here as a field, which may be repeated.
    fn field(&mut self, shape: &Shape, number: u32) -> Option<()> {
        match shape {
            Shape::List(inner) => self.elements(inner, number),
            Shape::WrappedList(inner) if matches!(**inner, Shape::Struct(_)) => {
                self.elements(inner, number)
            }
            Shape::Map(inner) => self.map(inner, number),
            shape => self.value(shape, number),
        }
    }

    fn elements(&mut self, shape: &Shape, number: u32) -> Option<()> {
        self.expect(b'[')?;
        let mut is_first = true;
        while !self.skip_if(b']') {
            if !std::mem::replace(&mut is_first, false) {
                self.expect(b',')?;
            }
            self.value(shape, number)?;
        }
        Some(())
    }

    fn map(&mut self, shape: &Shape, number: u32) -> Option<()> {
        self.expect(b'{')?;
        let mut last: Option<&[u8]> = None;
        while !self.skip_if(b'}') {
            if last.is_some() {
                self.expect(b',')?;
            }
            let key = self.plain_string()?;
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            last = Some(key);
            self.expect(b':')?;
            let entry = open_nested(self.out, number);
            put_bytes(self.out, 1, key);
            // Only byte values can be nil in Go.
            if !(shape == &Shape::Bytes && self.skip_null()?) {
                self.value(shape, 2)?;
            }
            close_nested(self.out, entry);
        }
        Some(())
    }

    /// Writes the value that begins here as one field. Any unexpected value, null included, is
    /// left to the tree encoder.
    fn value(&mut self, shape: &Shape, number: u32) -> Option<()> {
        match shape {
            Shape::String => {
                let text = self.string()?;
                put_text(self.out, number, &text)
            }
            Shape::Bool => {
                let value = self.boolean()?;
                put_number(self.out, number, i64::from(value));
                Some(())
            }
            Shape::Int32 | Shape::Int64 => {
                let value = self.integer()?;
                put_number(self.out, number, value);
                Some(())
            }
            Shape::Bytes => {
                let text = self.plain_string()?;
                put_base64(self.out, number, text)
            }
            Shape::Time | Shape::MicroTime => {
                let text = self.plain_string()?;
                let nested = open_nested(self.out, number);
                let is_micro = shape == &Shape::MicroTime;
                match unix_time(text) {
                    Some((seconds, micros)) => {
                        put_number(self.out, 1, seconds);
                        put_number(self.out, 2, if is_micro { micros * 1_000 } else { 0 });
                    }
                    None => {
                        let text = std::str::from_utf8(text).ok()?;
                        put_time(text, is_micro, self.out);
                    }
                }
                close_nested(self.out, nested);
                Some(())
            }
            Shape::Quantity if self.text.get(self.at) == Some(&b'"') => {
                let text = self.string()?;
                let nested = open_nested(self.out, number);
                put_text(self.out, 1, &text)?;
                close_nested(self.out, nested);
                Some(())
            }
            Shape::IntOrString => self.int_or_string(number),
            Shape::Raw => self.raw(number),
            Shape::Struct(id) if types().get(*id).form == Form::Object => {
                let nested = open_nested(self.out, number);
                self.message(*id)?;
                close_nested(self.out, nested);
                Some(())
            }
            Shape::WrappedList(inner) => {
                let nested = open_nested(self.out, number);
                self.elements(inner, 1)?;
                close_nested(self.out, nested);
                Some(())
            }
            // Rare values: numbers as quantities, doubles, alternatives in schemas.
            Shape::Quantity | Shape::Float64 | Shape::Struct(_) => {
                let start = self.at;
                self.skip_value()?;
                let value: Value = serde_json::from_slice(&self.text[start..self.at]).ok()?;
                put_value(shape, number, Some(&value), self.out);
                Some(())
            }
            Shape::List(_) | Shape::Map(_) => None,
        }
    }

    fn int_or_string(&mut self, number: u32) -> Option<()> {
        let is_text = self.text.get(self.at) == Some(&b'"');
        let nested = open_nested(self.out, number);
        put_number(self.out, 1, i64::from(is_text));
        if is_text {
            put_number(self.out, 2, 0);
            let text = self.string()?;
            put_text(self.out, 3, &text)?;
        } else {
            let value = self.integer()?;
            put_number(self.out, 2, value);
            put_bytes(self.out, 3, b"");
        }
        close_nested(self.out, nested);
        Some(())
    }

    /// Writes any JSON, which is copied if decoding and encoding would not change it.
    fn raw(&mut self, number: u32) -> Option<()> {
        let start = self.at;
        let nested = open_nested(self.out, number);
        let is_canonical = self.skip_canonical(0)?;
        let text = &self.text[start..self.at];
        match is_canonical {
            _ if text == b"null" => {}
            true => put_bytes(self.out, 1, text),
            false => {
                let value: Value = serde_json::from_slice(text).ok()?;
                put_bytes(self.out, 1, value.to_string().as_bytes());
            }
        }
        close_nested(self.out, nested);
        Some(())
    }

    /// Skips a value and returns whether encoding its tree would reproduce its text: keys are
    /// sorted, strings have no escapes, and numbers are natural.
    fn skip_canonical(&mut self, depth: usize) -> Option<bool> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut is_canonical = true;
        match *self.text.get(self.at)? {
            b'"' => is_canonical = !self.string()?.is_escaped,
            b'{' => {
                self.at += 1;
                let mut last: Option<&[u8]> = None;
                while !self.skip_if(b'}') {
                    if last.is_some() {
                        self.expect(b',')?;
                    }
                    let key = self.string()?;
                    is_canonical &= !key.is_escaped && last.is_none_or(|last| last < key.bytes);
                    last = Some(key.bytes);
                    self.expect(b':')?;
                    is_canonical &= self.skip_canonical(depth + 1)?;
                }
            }
            b'[' => {
                self.at += 1;
                let mut is_first = true;
                while !self.skip_if(b']') {
                    if !std::mem::replace(&mut is_first, false) {
                        self.expect(b',')?;
                    }
                    is_canonical &= self.skip_canonical(depth + 1)?;
                }
            }
            _ => {
                let scalar = self.scalar();
                let is_natural = scalar.iter().all(u8::is_ascii_digit) && scalar.len() < 19;
                is_canonical = is_natural || matches!(scalar, b"true" | b"false" | b"null");
            }
        }
        Some(is_canonical)
    }

    /// Skips any value.
    fn skip_value(&mut self) -> Option<()> {
        self.at = skip_value(self.text, self.at)?;
        Some(())
    }

    /// Reads a string that has no escapes.
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        let text = self.string()?;
        (!text.is_escaped).then_some(text.bytes)
    }

    fn string(&mut self) -> Option<Text<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, is_escaped) = string_end(self.text, start)?;
        self.at = end + 1;
        Some(Text {
            bytes: &self.text[start..end],
            is_escaped,
        })
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.scalar() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    fn integer(&mut self) -> Option<i64> {
        let scalar = self.scalar();
        // Parsing would accept a plus sign, which JSON does not have.
        let is_json = scalar.first() != Some(&b'+');
        let text = std::str::from_utf8(scalar).ok().filter(|_| is_json)?;
        text.parse().ok()
    }

    /// Reads to the end of a number or keyword.
    fn scalar(&mut self) -> &'a [u8] {
        let rest = &self.text[self.at.min(self.text.len())..];
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']'));
        let scalar = &rest[..end.unwrap_or(rest.len())];
        self.at += scalar.len();
        scalar
    }

    fn skip_null(&mut self) -> Option<bool> {
        if *self.text.get(self.at)? != b'n' {
            return Some(false);
        }
        (self.scalar() == b"null").then_some(true)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip_if(byte).then_some(())
    }

    fn skip_if(&mut self, byte: u8) -> bool {
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }
}

/// Finds a member at or after a position.
fn find(layout: &Layout, position: usize, name: &[u8]) -> Option<usize> {
    let members = layout.members.get(position..)?;
    let found = members
        .iter()
        .position(|member| member.name.as_bytes() == name);
    found.map(|found| position + found)
}

fn put_text(out: &mut Vec<u8>, number: u32, text: &Text<'_>) -> Option<()> {
    if !text.is_escaped {
        put_bytes(out, number, text.bytes);
        return Some(());
    }
    let nested = open_nested(out, number);
    unescape(text.bytes, out)?;
    close_nested(out, nested);
    Some(())
}

fn put_base64(out: &mut Vec<u8>, number: u32, text: &[u8]) -> Option<()> {
    let padding = text.iter().rev().take(2).filter(|byte| **byte == b'=');
    let length = (text.len() / 4 * 3).checked_sub(padding.count())?;
    put_tag(out, number, BYTES);
    put_varint(out, length as u64);
    let start = out.len();
    // Decoding needs room for whole groups of three bytes.
    out.resize(start + text.len() / 4 * 3 + 3, 0);
    let decoded = STANDARD.decode_slice(text, &mut out[start..]).ok()?;
    out.truncate(start + length);
    (decoded == length).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::types;

    fn id(name: &str) -> TypeId {
        types().find(name).unwrap()
    }

    fn assert_equal(of: TypeId, json: &str, is_transcoded: bool) {
        let (mut text, mut expected) = (vec![7], vec![7]);
        assert_eq!(
            transcode(of, json.as_bytes(), &mut text),
            is_transcoded,
            "{json}"
        );
        if !is_transcoded {
            assert_eq!(text, [7], "{json}");
        }
        text.truncate(1);
        encode_text(of, json.as_bytes(), &mut text);
        encode(of, &tree(json.as_bytes()), &mut expected);
        assert_eq!(text, expected, "{json}");
    }

    #[test]
    fn text_of_the_server_needs_no_tree() {
        let config_map = id("api.core.v1.ConfigMap");
        for json in [
            "{}",
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","tenant":"t","uid":"u","creationTimestamp":"2026-02-28T23:59:59Z","labels":{"a":"1","b":""},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":true}],"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-11-18T12:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:k":{}}}}]},"immutable":true,"data":{"a":"x\ny\u003c\"\\","b":"é"},"binaryData":{"c":"AAEC","d":"","e":"AA=="}}"#,
            r#"{"metadata":{"creationTimestamp":null},"data":null}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"b":"\u003c","c":1.50,"d":[-0,true,null,"x"],"e":12345678901234567890}}]}}"#,
            r#"{"metadata":{"managedFields":[{"fieldsV1":{"b":1,"a":2}},{"fieldsV1":null}]}}"#,
            r#"{"metadata":{"name":"a"},"unknown":[{"x":["]\"}"]},1],"data":{"k":"v"}}"#,
        ] {
            assert_equal(config_map, json, true);
        }
    }

    #[test]
    fn null_in_a_list_of_any_values_is_empty() {
        let schema = id("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
        assert_equal(schema, r#"{"enum":[null,1,"a",{"b":null}]}"#, true);
    }

    #[test]
    fn recorded_objects_need_no_tree() {
        let mut count = 0;
        for line in include_str!("../../tests/data/codec/objects.jsonl").lines() {
            let meta = crate::decode::type_meta_json(line.as_bytes()).unwrap();
            let (version, kind) = (meta.api_version.unwrap(), meta.kind.unwrap());
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            let Some(kind) = crate::kinds().find_by_kind(group, version, &kind) else {
                continue;
            };
            let kind = crate::kinds().get(kind);
            let object = crate::decode::json(kind.type_id(), line.as_bytes()).unwrap();
            let mut text = Vec::new();
            let (of, object) = (kind.type_id(), &object.object);
            crate::encode::json(kind.api_version(), &kind.kind, of, object, &mut text);
            assert_equal(of, std::str::from_utf8(&text).unwrap(), true);
            count += 1;
        }
        assert!(count >= 16, "{count}");
    }

    #[test]
    fn other_text_is_decoded_to_a_tree() {
        let config_map = id("api.core.v1.ConfigMap");
        for json in [
            "",
            "{",
            "null",
            r#"{"metadata": {}}"#,
            r#"{"metadata":{}}x"#,
            r#"{"data":{"b":"1","a":"2"}}"#,
            r#"{"data":{"a":"1","a":"2"}}"#,
            r#"{"data":{"a":null}}"#,
            r#"{"data":{"a":1}}"#,
            r#"{"data":{"a\n":"1"}}"#,
            r#"{"data":{"a":"\ud83d\ude00"}}"#,
            r#"{"data":{"a":"1"},"immutable":true}"#,
            r#"{"metadata":{},"metadata":{"name":"b"}}"#,
            r#"{"immutable":1}"#,
            r#"{"binaryData":{"a":"A"}}"#,
            r#"{"binaryData":{"a":"===="}}"#,
            r#"{"metadata":{"generation":1.5}}"#,
            r#"{"metadata":{"generation":99999999999999999999}}"#,
        ] {
            assert_equal(config_map, json, false);
        }
    }
}
