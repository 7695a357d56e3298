//! OpenAPI in protobuf, in the messages of gnostic. Older kubectls and some operators
//! read version 2 in no other format, and clients may request version 3 in it.

mod message;
mod v3;

use std::borrow::Borrow;

use super::descriptions::Descriptions;
use super::v2::{Document, document};
use crate::{Kind, Value};

pub(super) use message::Message;
use message::{items, members};
pub use v3::v3_protobuf;

/// Builds the version 2 document of all kinds that `filter` accepts, in protobuf.
pub fn v2_protobuf(filter: &dyn Fn(&Kind) -> bool) -> Vec<u8> {
    encode(document(filter))
}

/// The same document with descriptions.
pub fn v2_protobuf_described(
    filter: &dyn Fn(&Kind) -> bool,
    descriptions: &Descriptions,
) -> Vec<u8> {
    let mut document = document(filter);
    descriptions.describe_schemas(&mut document.definitions);
    encode(document)
}

fn encode(document: Document) -> Vec<u8> {
    let Document {
        swagger,
        info,
        paths,
        definitions,
        security_definitions,
        security,
    } = document;
    let mut out = Message::default();
    out.text(1, swagger);
    out.nested(2, |out| {
        out.member(1, &info["title"]);
        out.member(2, &info["version"]);
    });
    named_paths_and_definitions(&mut out, &paths, &definitions);
    for requirement in items(&security) {
        out.nested(12, |out| {
            out.named(1, members(requirement), |out, scopes| out.texts(1, scopes));
        });
    }
    out.nested(13, |out| {
        out.named(1, members(&security_definitions), |out, scheme| {
            out.nested(2, |out| {
                out.member(1, &scheme["type"]);
                out.member(2, &scheme["name"]);
                out.member(3, &scheme["in"]);
            });
        });
    });
    out.into_bytes()
}

/// Writes the paths and definitions of a document or of an addition to it.
pub(super) fn named_paths_and_definitions<'a, V: Borrow<Value>>(
    out: &mut Message,
    paths: impl IntoIterator<Item = (&'a String, V)>,
    definitions: impl IntoIterator<Item = (&'a String, V)>,
) {
    out.nested(8, |out| out.named(2, paths, path_item));
    out.nested(9, |out| out.named(1, definitions, schema));
}

fn path_item(out: &mut Message, item: &Value) {
    const METHODS: [(&str, u64); 7] = [
        ("get", 2),
        ("put", 3),
        ("post", 4),
        ("delete", 5),
        ("options", 6),
        ("head", 7),
        ("patch", 8),
    ];
    for (method, number) in METHODS {
        if let Some(found) = item.get(method) {
            out.nested(number, |out| operation(out, found));
        }
    }
    parameters(out, 9, item);
}

fn operation(out: &mut Message, operation: &Value) {
    out.texts(1, &operation["tags"]);
    out.member(5, &operation["operationId"]);
    out.texts(6, &operation["produces"]);
    out.texts(7, &operation["consumes"]);
    parameters(out, 8, operation);
    out.nested(9, |out| {
        out.named(1, members(&operation["responses"]), |out, found| {
            out.nested(1, |out| response(out, found));
        });
    });
    out.texts(10, &operation["schemes"]);
    extensions(out, 13, operation);
}

fn response(out: &mut Message, response: &Value) {
    out.member(1, &response["description"]);
    if let Some(found) = response.get("schema") {
        out.nested(2, |out| out.nested(1, |out| schema(out, found)));
    }
}

fn parameters(out: &mut Message, number: u64, of: &Value) {
    for found in items(&of["parameters"]) {
        // Field 1 is a parameter, not a reference to one.
        out.nested(number, |out| out.nested(1, |out| parameter(out, found)));
    }
}

fn parameter(out: &mut Message, parameter: &Value) {
    if parameter["in"] == "body" {
        return out.nested(1, |out| {
            out.member(2, &parameter["name"]);
            out.member(3, &parameter["in"]);
            out.flag(4, &parameter["required"]);
            out.nested(5, |out| schema(out, &parameter["schema"]));
        });
    }
    // Query and path parameters use different field numbers for the same properties.
    let (kind, kind_number, unique_number) = match parameter["in"] == "query" {
        true => (3, 6, 20),
        false => (4, 5, 19),
    };
    out.nested(2, |out| {
        out.nested(kind, |out| {
            out.flag(1, &parameter["required"]);
            out.member(2, &parameter["in"]);
            out.member(4, &parameter["name"]);
            out.member(kind_number, &parameter["type"]);
            out.flag(unique_number, &parameter["uniqueItems"]);
        });
    });
}

fn schema(out: &mut Message, of: &Value) {
    out.member(1, &of["$ref"]);
    out.member(2, &of["format"]);
    out.member(3, &of["title"]);
    out.member(4, &of["description"]);
    out.double(6, &of["multipleOf"]);
    out.double(7, &of["maximum"]);
    out.flag(8, &of["exclusiveMaximum"]);
    out.double(9, &of["minimum"]);
    out.flag(10, &of["exclusiveMinimum"]);
    out.integer(11, &of["maxLength"]);
    out.integer(12, &of["minLength"]);
    out.member(13, &of["pattern"]);
    out.integer(14, &of["maxItems"]);
    out.integer(15, &of["minItems"]);
    out.flag(16, &of["uniqueItems"]);
    out.integer(17, &of["maxProperties"]);
    out.integer(18, &of["minProperties"]);
    out.texts(19, &of["required"]);
    for value in items(&of["enum"]) {
        out.nested(20, |out| out.yaml(value));
    }
    match of.get("additionalProperties") {
        Some(Value::Bool(allowed)) => out.nested(21, |out| out.choice(2, *allowed)),
        Some(values) => out.nested(21, |out| out.nested(1, |out| schema(out, values))),
        None => {}
    }
    if let Some(kind) = of.get("type") {
        out.nested(22, |out| out.member(1, kind));
    }
    if let Some(items) = of.get("items") {
        out.nested(23, |out| out.nested(1, |out| schema(out, items)));
    }
    if let Some(properties) = of.get("properties") {
        out.nested(25, |out| out.named(1, members(properties), schema));
    }
    if let Some(docs) = of.get("externalDocs") {
        out.nested(29, |out| {
            out.member(1, &docs["description"]);
            out.member(2, &docs["url"]);
        });
    }
    if let Some(example) = of.get("example") {
        out.nested(30, |out| out.yaml(example));
    }
    extensions(out, 31, of);
}

/// Writes the `x-kubernetes-*` extensions.
fn extensions(out: &mut Message, number: u64, of: &Value) {
    let members = members(of);
    for (name, value) in members.filter(|(name, _)| name.starts_with("x-")) {
        out.nested(number, |out| {
            out.text(1, name);
            out.nested(2, |out| out.yaml(value));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_fields_are_written_as_gnostic_messages() {
        let mut out = Message::default();
        let properties = json!({"type": "object", "x-a": [1], "required": ["b"]});
        schema(&mut out, &properties);
        let wanted = [
            &[0x9a, 0x01, 1, b'b'][..],
            &[0xb2, 0x01, 8, 0x0a, 6],
            b"object",
            &[0xfa, 0x01, 13, 0x0a, 3],
            b"x-a",
            &[0x12, 6, 0x12, 4],
            b"- 1\n",
        ];
        assert_eq!(out.into_bytes(), wanted.concat());
    }
}
