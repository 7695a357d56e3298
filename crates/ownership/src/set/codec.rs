//! Sets as `fieldsV1`.

use std::fmt;

use insula_kinds::go::{self, Printed};
use insula_kinds::{Object, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::{Element, Node, Set};

/// The maximum nesting of objects, and so of sets. Deeper sets are refused.
const MAX_DEPTH: usize = 256;

/// The error of an invalid set.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct NotASet(pub String);

impl Set {
    /// Parses the text of `fieldsV1`.
    pub fn parse(text: &str) -> Result<Self, NotASet> {
        let value = serde_json::from_str(text).map_err(|error| NotASet(error.to_string()))?;
        Self::read(&value)
    }

    /// Reads the value of a `fieldsV1` member.
    pub fn read(fields: &Value) -> Result<Self, NotASet> {
        read(fields, 0).map(|(set, _)| set)
    }

    /// Reads the text of `fieldsV1` without a tree of values. `None` if [`parse`](Self::parse)
    /// refuses it.
    pub(crate) fn read_text(text: &str) -> Option<Self> {
        let mut from = serde_json::Deserializer::from_str(text);
        let (set, _) = Members.deserialize(&mut from).ok()?;
        from.end().ok()?;
        Some(set)
    }

    /// Returns the value of a `fieldsV1` member. Its members are sorted by name, which is not
    /// always the order of Kubernetes; [`Set::text`] has that.
    pub fn write(&self) -> Value {
        Value::Object(write(self))
    }

    /// Returns the text of `fieldsV1`, byte for byte.
    pub fn text(&self) -> String {
        let mut out = String::from("{");
        append(self, &mut out);
        out.push('}');
        out
    }
}

/// Reads the members below a node, and whether it is a member itself. The depth is limited by
/// serde.
struct Members;

/// The name of a member.
struct MemberName;

/// What a member stands for.
enum Member {
    /// The node itself.
    Node,
    Element(Element),
    Unknown,
}

impl<'de> DeserializeSeed<'de> for Members {
    type Value = (Set, bool);

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = (Set, bool);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok((Set::default(), true))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut nodes = Vec::new();
        let mut member = false;
        while let Some(name) = map.next_key_seed(MemberName)? {
            match name {
                Member::Element(element) => {
                    let (below, member) = map.next_value_seed(Self)?;
                    nodes.push(Node {
                        element,
                        member,
                        below,
                    });
                }
                Member::Node => {
                    member = true;
                    map.next_value::<IgnoredAny>()?;
                }
                Member::Unknown => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let set = Set::sorted(nodes);
        member |= set.is_empty();
        Ok((set, member))
    }
}

impl<'de> DeserializeSeed<'de> for MemberName {
    type Value = Member;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Member, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for MemberName {
    type Value = Member;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Member, E> {
        if name == "." {
            return Ok(Member::Node);
        }
        let element = element(name).map_err(|NotASet(why)| E::custom(why))?;
        Ok(element.map_or(Member::Unknown, Member::Element))
    }
}

/// Reads the members below a node, and whether it is a member itself.
fn read(fields: &Value, depth: usize) -> Result<(Set, bool), NotASet> {
    let none = Object::new();
    let members = match fields {
        Value::Object(members) => members,
        Value::Null => &none,
        other => {
            let other = go::json(other);
            return Err(NotASet(format!("expect {{ or n, but found {other}")));
        }
    };
    if depth > MAX_DEPTH {
        return Err(NotASet("exceeded max depth".to_owned()));
    }
    let mut nodes = Vec::with_capacity(members.len());
    let mut member = false;
    for (name, fields) in members {
        if name == "." {
            member = true;
            continue;
        }
        if let Some(element) = element(name)? {
            let (below, member) = read(fields, depth + 1)?;
            nodes.push(Node {
                element,
                member,
                below,
            });
        }
    }
    let set = Set::sorted(nodes);
    member |= set.is_empty();
    Ok((set, member))
}

/// Parses an element; `None` for an unknown type, which a later version may have.
fn element(name: &str) -> Result<Option<Element>, NotASet> {
    let wrong = |text: String| Err(NotASet(format!("parsing key as path element: {text}")));
    if name.len() < 2 {
        return wrong("key must be 2 characters long:".to_owned());
    }
    if name.as_bytes()[1] != b':' {
        return wrong(format!("missing colon: {name}"));
    }
    let text = name.get(2..).unwrap_or_default();
    let element = match name.as_bytes()[0] {
        b'f' => Element::Field(text.into()),
        b'v' => match serde_json::from_str(text) {
            Ok(value) => Element::Value(as_double(value)),
            Err(error) => return wrong(error.to_string()),
        },
        b'k' => match serde_json::from_str::<Option<Object>>(text) {
            Ok(members) => Element::Key(key(members.unwrap_or_default())),
            Err(error) => return wrong(error.to_string()),
        },
        b'i' => match text.parse() {
            Ok(index) => Element::Index(index),
            Err(_) => return wrong(format!("parsing {text:?}: invalid syntax")),
        },
        _ => return Ok(None),
    };
    Ok(Some(element))
}

fn key(members: Object) -> Box<[(Box<str>, Value)]> {
    let member = |(name, value): (String, Value)| (name.into(), as_double(value));
    members.into_iter().map(member).collect()
}

/// Converts a number to a double, as which Kubernetes reads all numbers in names. Integers that a
/// double represents exactly compare and print the same.
fn as_double(value: Value) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(double) if double.trunc() == double && double.abs() < EXACT => {
                Value::from(double as i64)
            }
            Some(double) => Value::from(double),
            None => Value::Number(number),
        },
        Value::Array(list) => list.into_iter().map(as_double).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(name, value)| (name, as_double(value)))
            .collect(),
        other => other,
    }
}

fn write(set: &Set) -> Object {
    let write = |node: &Node| {
        let mut below = write(&node.below);
        if node.member && !below.is_empty() {
            below.insert(".".to_owned(), Value::Object(Object::new()));
        }
        (name(&node.element), Value::Object(below))
    };
    set.nodes.iter().map(write).collect()
}

fn append(set: &Set, out: &mut String) {
    for (at, node) in set.nodes.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match &node.element {
            Element::Field(name) if is_plain(name) => {
                out.push_str("\"f:");
                out.push_str(name);
                out.push('"');
            }
            // The name is quoted as it is; values in it were already escaped for HTML.
            element => quote(&name(element), out),
        }
        out.push_str(match node.member && !node.below.is_empty() {
            true => ":{\".\":{},",
            false => ":{",
        });
        append(&node.below, out);
        out.push('}');
    }
}

/// Returns whether a string needs no escapes.
fn is_plain(text: &str) -> bool {
    let plain = |byte: &u8| *byte >= b' ' && *byte != b'"' && *byte != b'\\';
    text.as_bytes().iter().all(plain)
}

fn name(element: &Element) -> String {
    match element {
        Element::Field(name) => {
            let mut text = String::with_capacity(2 + name.len());
            text.push_str("f:");
            text.push_str(name);
            text
        }
        Element::Key(members) => {
            let mut text = "k:{".to_owned();
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                quote(name, &mut text);
                text.push(':');
                json(value, &mut text);
            }
            text.push('}');
            text
        }
        Element::Value(value) => {
            let mut text = "v:".to_owned();
            json(value, &mut text);
            text
        }
        Element::Index(index) => format!("i:{index}"),
    }
}

/// Quotes a string with as few escapes as JSON allows, as Kubernetes does here.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    match is_plain(text) {
        true => out.push_str(text),
        false => text.chars().for_each(|letter| escape(letter, out)),
    }
    out.push('"');
}

/// Quotes a string with the escapes of Go's JSON encoder, which are safe in HTML.
fn quote_for_html(text: &str, out: &mut String) {
    let unsafe_in_html = |letter| matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    if !text.contains(unsafe_in_html) {
        return quote(text, out);
    }
    out.push('"');
    for letter in text.chars() {
        match unsafe_in_html(letter) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            false => escape(letter, out),
        }
    }
    out.push('"');
}

fn escape(letter: char, out: &mut String) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        letter if letter < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
        letter => out.push(letter),
    }
}

/// Writes a value in a name. Exponents have at least two digits; everything else is ordinary JSON.
fn json(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let double = number.as_f64().unwrap_or_default();
            out.push_str(&match double.abs() {
                0.0 | 1e-6..1e21 => double.to_string(),
                _ => Printed(value).to_string(),
            });
        }
        Value::Array(list) => {
            out.push('[');
            for (at, element) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                json(element, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (at, (name, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                quote(name, out);
                out.push(':');
                json(value, out);
            }
            out.push('}');
        }
        Value::String(text) => quote_for_html(text, out),
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_it_was_read() {
        for text in [
            r#"{}"#,
            r#"{"f:a":{}}"#,
            r#"{"f:a":{".":{},"f:b":{}}}"#,
            r#"{"f:a":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:x":{}},"k:{\"port\":443,\"protocol\":\"TCP\"}":{}}}"#,
            r#"{"f:a":{"v:9":{},"v:10":{},"v:\"9\"":{},"v:true":{},"i:2":{},"i:10":{}}}"#,
            r#"{"f:<a>":{"v:\"\\u003ca\\u003e\"":{}}}"#,
            r#"{"f:a":{"v:1e-07":{},"v:1.5":{},"v:1000000.5":{},"v:1e+21":{},"v:null":{}}}"#,
        ] {
            let set = Set::parse(text).unwrap();
            assert_eq!(set.text(), text);
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(set.write(), value);
            assert_eq!(Set::read_text(text), Some(set));
        }
    }

    #[test]
    fn sets_are_normalized_when_read() {
        for (text, regular) in [
            (r#"{".":{},"f:a":{".":{}}}"#, r#"{"f:a":{}}"#),
            (r#"{"f:b":{},"f:a":null}"#, r#"{"f:a":{},"f:b":{}}"#),
            (r#"{"f:a":{"z:later":{"f:b":{}}}}"#, r#"{"f:a":{}}"#),
            (r#"{"f:a":{"v:1.0":{}}}"#, r#"{"f:a":{"v:1":{}}}"#),
            (
                r#"{"k:{\"b\":2,\"a\":9007199254740993}":{}}"#,
                r#"{"k:{\"a\":9007199254740992,\"b\":2}":{}}"#,
            ),
            ("null", "{}"),
        ] {
            let set = Set::parse(text).unwrap();
            assert_eq!(set.text(), regular, "{text}");
            assert_eq!(Set::read_text(text), Some(set), "{text}");
        }
    }

    #[test]
    fn invalid_sets_are_refused() {
        let deep = format!("{}{}", r#"{"f:a":"#.repeat(5000), "}".repeat(5000));
        for (text, why) in [
            ("[]", "expect { or n, but found []"),
            (r#"{"f:a":5}"#, "expect { or n, but found 5"),
            (
                r#"{"f":{}}"#,
                "parsing key as path element: key must be 2 characters long:",
            ),
            (
                r#"{"fa":{}}"#,
                "parsing key as path element: missing colon: fa",
            ),
            (
                r#"{"éa":{}}"#,
                "parsing key as path element: missing colon: éa",
            ),
            (
                r#"{"i:x":{}}"#,
                "parsing key as path element: parsing \"x\": invalid syntax",
            ),
            (
                r#"{"v:":{}}"#,
                "parsing key as path element: EOF while parsing a value at line 1 column 0",
            ),
            (
                r#"{"k:[]":{}}"#,
                "parsing key as path element: invalid type: sequence, expected a map at line 1 column 0",
            ),
            (&deep, "recursion limit exceeded at line 1 column 890"),
        ] {
            assert_eq!(Set::parse(text), Err(NotASet(why.to_owned())), "{why}");
            assert_eq!(Set::read_text(text), None, "{why}");
        }
    }
}
