//! Data items from JSON text, without a tree in between.
//!
//! The text is the server's own writing: compact, and without surrogates. Any other JSON is
//! decoded and written anew first.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::SELF_DESCRIBED;
use super::head::{
    ARRAY, BASE64, BYTES, FALSE, MAP, NEGATIVE, NULL, TAG, TRUE, UNSIGNED, close, close_wide, open,
    open_wide, put_float, put_head, put_string,
};
use crate::scan::{string_end, unescape};
use crate::types::{Form, Shape, Type, TypeId, types};

/// Nesting beyond which text is not transcoded: more than objects, tables and events have.
const MAX_DEPTH: usize = 160;

/// The nesting up to which a long head moves what is in it. Few objects are nested deeper; to move
/// the content of one at each of its levels would take tens of milliseconds.
const MAX_MOVED_DEPTH: usize = 16;

/// Whether there are bytes in a type, by its position in the table.
static HOLDS_BYTES: LazyLock<Vec<bool>> = LazyLock::new(holds_bytes);

/// Returns the document of a JSON value, which is of this type if it is given.
pub fn self_described(of: Option<TypeId>, json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() + SELF_DESCRIBED.len());
    out.extend_from_slice(&SELF_DESCRIBED);
    put_value(of, json, &mut out);
    out
}

/// Appends the item of a JSON value, which is of this type if it is given.
pub fn put_value(of: Option<TypeId>, json: &[u8], out: &mut Vec<u8>) {
    let json = json.trim_ascii();
    if !transcode(json, out, |reader| reader.root(of)) {
        put_rewritten(of, json, out);
    }
}

/// Appends the map of a JSON object whose text begins after its brace, or after any of its
/// members and the comma.
pub fn put_members(of: Option<TypeId>, rest: &[u8], out: &mut Vec<u8>) {
    if !transcode(rest, out, |reader| reader.members(fields_of(of))) {
        put_rewritten(of, &[b"{", rest].concat(), out);
    }
}

/// Appends everything of a list before its items, from the JSON of the list without items, which
/// are the last member. The items follow, and nothing follows them.
pub fn put_list_head(empty: &[u8], items: usize, out: &mut Vec<u8>) {
    put_value(None, empty, out);
    // The empty array is one byte at the end.
    out.pop();
    put_head(ARRAY, items as u64, out);
}

/// Appends everything of a `PartialObjectMetadata` before the item of its metadata.
pub fn put_metadata_head(api_version: &str, out: &mut Vec<u8>) {
    put_head(MAP, 3, out);
    for text in [
        "kind",
        "PartialObjectMetadata",
        "apiVersion",
        api_version,
        "metadata",
    ] {
        put_string(text.as_bytes(), out);
    }
}

/// Appends everything of a watch event before the document of its object.
pub fn put_event_head(event: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    put_head(MAP, 2, out);
    for text in ["type", event, "object"] {
        put_string(text.as_bytes(), out);
    }
}

/// Appends what `read` writes if it reads the whole text, otherwise nothing.
fn transcode(
    text: &[u8],
    out: &mut Vec<u8>,
    read: impl FnOnce(&mut Transcoder<'_>) -> Option<()>,
) -> bool {
    let length = out.len();
    let mut reader = Transcoder {
        text,
        at: 0,
        out,
        depth: 0,
    };
    let is_whole = read(&mut reader).is_some() && reader.at == text.len();
    if !is_whole {
        out.truncate(length);
    }
    is_whole
}

/// Appends the item of JSON that is not as the server writes it; null of what is no JSON.
fn put_rewritten(of: Option<TypeId>, json: &[u8], out: &mut Vec<u8>) {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    let text = value.to_string();
    if !transcode(text.as_bytes(), out, |reader| reader.root(of)) {
        out.push(NULL);
    }
}

struct Transcoder<'a> {
    text: &'a [u8],
    /// The offset that is read next.
    at: usize,
    out: &'a mut Vec<u8>,
    depth: usize,
}

/// The types of the members of an object.
#[derive(Clone, Copy)]
enum Fields {
    /// There are no bytes in them.
    Plain,
    /// Those of a type.
    Of(TypeId),
    /// All of one shape.
    Map(&'static Shape),
}

impl<'a> Transcoder<'a> {
    fn root(&mut self, of: Option<TypeId>) -> Option<()> {
        match fields_of(of) {
            Fields::Plain => self.value(None),
            fields => {
                self.expect(b'{')?;
                self.members(fields)
            }
        }
    }

    /// Writes the value that begins here. The shape is given if there may be bytes in it.
    fn value(&mut self, shape: Option<&'static Shape>) -> Option<()> {
        match *self.text.get(self.at)? {
            b'"' if shape == Some(&Shape::Bytes) => self.bytes(),
            b'"' => self.string(),
            b'{' => {
                self.at += 1;
                self.members(fields_in(shape))
            }
            b'[' => {
                self.at += 1;
                self.elements(shape)
            }
            b't' => self.keyword(b"true", TRUE),
            b'f' => self.keyword(b"false", FALSE),
            b'n' => self.keyword(b"null", NULL),
            _ => self.number(),
        }
    }

    /// Writes an object, from after its brace.
    fn members(&mut self, fields: Fields) -> Option<()> {
        self.enter()?;
        let start = self.begin();
        let mut count = 0;
        while !self.skip_if(b'}') {
            if count > 0 {
                self.expect(b',')?;
            }
            let name = self.name()?;
            self.expect(b':')?;
            let shape = match fields {
                Fields::Plain => None,
                Fields::Of(of) => {
                    let name = std::str::from_utf8(name).ok()?;
                    let field = types().member(of, name);
                    field.and_then(|field| with_bytes(&field.shape))
                }
                Fields::Map(shape) => Some(shape),
            };
            self.value(shape)?;
            count += 1;
        }
        self.end(start, MAP, count);
        Some(())
    }

    /// Writes an array, from after its bracket.
    fn elements(&mut self, shape: Option<&'static Shape>) -> Option<()> {
        self.enter()?;
        let shape = match shape {
            Some(Shape::List(inner) | Shape::WrappedList(inner)) => with_bytes(inner),
            _ => None,
        };
        let start = self.begin();
        let mut count = 0;
        while !self.skip_if(b']') {
            if count > 0 {
                self.expect(b',')?;
            }
            self.value(shape)?;
            count += 1;
        }
        self.end(start, ARRAY, count);
        Some(())
    }

    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }

    fn begin(&mut self) -> usize {
        match self.depth > MAX_MOVED_DEPTH {
            true => open_wide(self.out),
            false => open(self.out),
        }
    }

    /// Ends what was [begun](Self::begin), and leaves its level.
    fn end(&mut self, start: usize, major: u8, count: usize) {
        match self.depth > MAX_MOVED_DEPTH {
            true => close_wide(start, major, count, self.out),
            false => close(start, major, count, self.out),
        }
        self.depth -= 1;
    }

    /// Writes the name of a member, and returns its text.
    fn name(&mut self) -> Option<&'a [u8]> {
        let start = self.at + 1;
        self.string()?;
        Some(&self.text[start..self.at - 1])
    }

    fn string(&mut self) -> Option<()> {
        let (text, is_escaped) = self.read_string()?;
        if is_escaped {
            let start = open(self.out);
            unescape(text, self.out)?;
            let length = self.out.len() - start;
            close(start, BYTES, length, self.out);
        } else {
            put_string(text, self.out);
        }
        Some(())
    }

    /// Writes the bytes of a text in base64, or the text if it is no base64.
    fn bytes(&mut self) -> Option<()> {
        let at = self.at;
        let (text, _) = self.read_string()?;
        let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
        let length = (text.len() / 4 * 3).saturating_sub(padding);
        let before = self.out.len();
        put_head(TAG, BASE64, self.out);
        put_head(BYTES, length as u64, self.out);
        let start = self.out.len();
        self.out.resize(start + length, 0);
        if STANDARD.decode_slice(text, &mut self.out[start..]) == Ok(length) {
            return Some(());
        }
        self.out.truncate(before);
        self.at = at;
        self.string()
    }

    fn read_string(&mut self) -> Option<(&'a [u8], bool)> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, is_escaped) = string_end(self.text, start)?;
        self.at = end + 1;
        Some((&self.text[start..end], is_escaped))
    }

    fn keyword(&mut self, word: &[u8], item: u8) -> Option<()> {
        if !self.text[self.at..].starts_with(word) {
            return None;
        }
        self.at += word.len();
        self.out.push(item);
        Some(())
    }

    /// Writes an integer, or the floating-point number that any other number is in Go.
    fn number(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.iter().position(|byte| !is_part(byte));
        let number = &rest[..length.unwrap_or(rest.len())];
        // Parsing would accept a plus sign, which JSON does not have.
        if !matches!(number.first()?, b'0'..=b'9' | b'-') {
            return None;
        }
        self.at += number.len();
        let number = std::str::from_utf8(number).ok()?;
        match number.parse::<i64>() {
            Ok(value) if value < 0 => put_head(NEGATIVE, !value.cast_unsigned(), self.out),
            Ok(value) => put_head(UNSIGNED, value.cast_unsigned(), self.out),
            Err(_) => put_float(
                number.parse().ok().filter(|of: &f64| of.is_finite())?,
                self.out,
            ),
        }
        Some(())
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

fn fields_of(of: Option<TypeId>) -> Fields {
    match of.filter(|of| HOLDS_BYTES[of.index()]) {
        Some(of) => Fields::Of(of),
        None => Fields::Plain,
    }
}

fn fields_in(shape: Option<&'static Shape>) -> Fields {
    match shape {
        Some(Shape::Struct(of)) => fields_of(Some(*of)),
        Some(Shape::Map(inner)) => with_bytes(inner).map_or(Fields::Plain, Fields::Map),
        _ => Fields::Plain,
    }
}

/// Returns the shape if there may be bytes in it.
fn with_bytes(shape: &'static Shape) -> Option<&'static Shape> {
    has_bytes(shape, &HOLDS_BYTES).then_some(shape)
}

fn has_bytes(shape: &Shape, held: &[bool]) -> bool {
    match shape {
        Shape::Bytes => true,
        Shape::Struct(of) => held[of.index()],
        Shape::List(inner) | Shape::WrappedList(inner) | Shape::Map(inner) => {
            has_bytes(inner, held)
        }
        _ => false,
    }
}

fn holds_bytes() -> Vec<bool> {
    let all: Vec<&Type> = types().iter().map(|(_, of)| of).collect();
    let mut held = vec![false; all.len()];
    loop {
        let holds = |of: &&Type| {
            let mut fields = of.fields.iter();
            of.form == Form::Object && fields.any(|field| has_bytes(&field.shape, &held))
        };
        let next: Vec<bool> = all.iter().map(holds).collect();
        if next == held {
            return held;
        }
        held = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn item(of: Option<&str>, json: &str) -> String {
        let of = of.map(|name| types().find(name).unwrap());
        let mut out = vec![7];
        put_value(of, json.as_bytes(), &mut out);
        assert_eq!(out[0], 7);
        hex(&out[1..])
    }

    #[test]
    fn items_are_those_of_go() {
        for (json, bytes) in [
            ("null", "f6"),
            ("true", "f5"),
            ("false", "f4"),
            ("0", "00"),
            ("23", "17"),
            ("24", "1818"),
            ("1000000", "1a000f4240"),
            ("9223372036854775807", "1b7fffffffffffffff"),
            ("-1", "20"),
            ("-9223372036854775808", "3b7fffffffffffffff"),
            ("9223372036854775808", "fa5f000000"),
            ("1.5", "f93e00"),
            ("1.0", "f93c00"),
            ("1e3", "f963d0"),
            ("1.1", "fb3ff199999999999a"),
            ("-0.0", "f98000"),
            (r#""""#, "40"),
            (r#""a\n\u003c\"é""#, "46610a3c22c3a9"),
            ("[]", "80"),
            (r#"[1,"a",{}]"#, "8301416 1a0"),
            (r#"{"a":{"b":null}}"#, "a14161a14162f6"),
            (r#"{"a\"b":1}"#, "a14361226201"),
            (" {\"a\":1}\n", "a1416101"),
            // Rewritten, because the server writes neither space nor surrogates.
            (r#"{ "a": [1, 2] }"#, "a14161820102"),
            (r#""\ud83d\ude00""#, "44f09f9880"),
            ("{", "f6"),
        ] {
            assert_eq!(item(None, json), bytes.replace(' ', ""), "{json}");
        }
    }

    #[test]
    fn heads_of_long_items_have_their_length() {
        let list = format!("[{}0]", "0,".repeat(24));
        assert_eq!(item(None, &list), format!("9819{}", "00".repeat(25)));
        let members: Vec<String> = (10..40).map(|n| format!(r#""{n}":0"#)).collect();
        let map = item(None, &format!("{{{}}}", members.join(",")));
        assert!(map.starts_with("b81e42313000423131"), "{map}");
        let text = format!(r#""\n{}""#, "a".repeat(300));
        assert!(item(None, &text).starts_with("59012d0a6161"));
    }

    #[test]
    fn bytes_are_tagged_where_the_type_has_bytes() {
        let secret = Some("api.core.v1.Secret");
        let json = r#"{"data":{"k":"aGk=","e":"","n":null,"x":"~"},"stringData":{"s":"aGk="}}"#;
        let expected = "a24464617461a4416bd642686 94165d640416ef64178417e4a737472696e6744617461\
                        a141734461476b3d";
        assert_eq!(item(secret, json), expected.replace(' ', ""));
        assert_eq!(
            item(None, r#"{"data":{"k":"aGk="}}"#),
            "a14464617461a1416b4461476b3d"
        );
        let hooks = Some("api.admissionregistration.v1.ValidatingWebhookConfiguration");
        let json = r#"{"webhooks":[{"clientConfig":{"caBundle":"YQ=="}}]}"#;
        assert!(item(hooks, json).ends_with("d64161"));
    }

    #[test]
    fn few_types_have_bytes() {
        let held = |name: &str| HOLDS_BYTES[types().find(name).unwrap().index()];
        assert!(held("api.core.v1.ConfigMap") && held("api.core.v1.Secret"));
        assert!(!held("api.core.v1.Pod") && !held("apimachinery.pkg.apis.meta.v1.ObjectMeta"));
        let count = HOLDS_BYTES.iter().filter(|held| **held).count();
        assert!((10..60).contains(&count), "{count}");
    }

    #[test]
    fn parts_make_lists_metadata_and_events() {
        let mut out = Vec::new();
        put_list_head(br#"{"kind":"L","items":[]}"#, 2, &mut out);
        for item in [r#""a":1}"#, "}"] {
            put_members(None, item.as_bytes(), &mut out);
        }
        assert_eq!(hex(&out), "a2446b696e64414c456974656d7382a1416101a0");
        let mut out = Vec::new();
        put_metadata_head("meta.k8s.io/v1", &mut out);
        put_value(None, br#"{"name":"a"}"#, &mut out);
        let json = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}"#;
        assert_eq!(hex(&out), item(None, json));
        let mut out = Vec::new();
        put_event_head("ADDED", &mut out);
        assert_eq!(hex(&out), "d9d9f7a24474797065454144444544466f626a656374");
    }

    #[test]
    fn deep_items_have_heads_of_one_length() {
        let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let wide = "9a00000001".repeat(2);
        let expected = format!("{}{wide}01", "81".repeat(MAX_MOVED_DEPTH));
        assert_eq!(item(None, &deep(MAX_MOVED_DEPTH + 2)), expected);
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let long = "9a00000001".repeat(126 - MAX_MOVED_DEPTH);
        let expected = format!("{}{long}9a00000000", "81".repeat(MAX_MOVED_DEPTH));
        assert_eq!(item(None, &deep(127)), expected);
        assert_eq!(item(None, &deep(5000)), "f6");
    }
}
