//! Version 3 documents, converted from JSON.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{Message, items, members};
use crate::Value;

/// A document with members that are parsed one at a time: as a tree it takes twenty times its
/// size.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Document<'a> {
    openapi: Value,
    info: Value,
    #[serde(borrow)]
    paths: BTreeMap<String, &'a RawValue>,
    #[serde(borrow)]
    components: Components<'a>,
    security: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Components<'a> {
    #[serde(borrow)]
    schemas: Option<BTreeMap<String, &'a RawValue>>,
    security_schemes: Option<Value>,
}

/// Encodes a version 3 document in protobuf; an invalid document gives no bytes.
pub fn v3_protobuf(document: &[u8]) -> Vec<u8> {
    let document: Document<'_> = serde_json::from_slice(document).unwrap_or_default();
    let mut out = Message::default();
    out.member(1, &document.openapi);
    out.nested(2, |out| {
        out.member(1, &document.info["title"]);
        out.member(6, &document.info["version"]);
    });
    out.nested(4, |out| out.named(1, parsed(&document.paths), path_item));
    out.nested(5, |out| components(out, &document.components));
    for requirement in items(&document.security) {
        out.nested(6, |out| {
            out.named(1, members(requirement), |out, scopes| out.texts(1, scopes));
        });
    }
    out.into_bytes()
}

/// Parses members one at a time.
fn parsed<'a>(
    members: &'a BTreeMap<String, &RawValue>,
) -> impl Iterator<Item = (&'a String, Value)> {
    let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or_default();
    members.iter().map(move |(name, raw)| (name, value(raw)))
}

fn components(out: &mut Message, components: &Components<'_>) {
    if let Some(schemas) = &components.schemas {
        out.nested(1, |out| out.named(1, parsed(schemas), schema));
    }
    if let Some(schemes) = &components.security_schemes {
        out.nested(7, |out| {
            out.named(1, members(schemes), |out, scheme| {
                out.nested(1, |out| {
                    out.member(1, &scheme["type"]);
                    out.member(2, &scheme["description"]);
                    out.member(3, &scheme["name"]);
                    out.member(4, &scheme["in"]);
                });
            });
        });
    }
}

fn path_item(out: &mut Message, item: &Value) {
    const METHODS: [(&str, u64); 7] = [
        ("get", 4),
        ("put", 5),
        ("post", 6),
        ("delete", 7),
        ("options", 8),
        ("head", 9),
        ("patch", 10),
    ];
    for (method, number) in METHODS {
        if let Some(found) = item.get(method) {
            out.nested(number, |out| operation(out, found));
        }
    }
    parameters(out, 13, item);
}

fn operation(out: &mut Message, operation: &Value) {
    out.texts(1, &operation["tags"]);
    out.member(3, &operation["description"]);
    out.member(5, &operation["operationId"]);
    parameters(out, 6, operation);
    if let Some(body) = operation.get("requestBody") {
        // Field 1 is a body, not a reference to one.
        out.nested(7, |out| out.nested(1, |out| request_body(out, body)));
    }
    out.nested(8, |out| {
        out.named(2, members(&operation["responses"]), |out, found| {
            out.nested(1, |out| {
                out.member(1, &found["description"]);
                content(out, 3, found);
            });
        });
    });
    extensions(out, 13, operation);
}

fn request_body(out: &mut Message, body: &Value) {
    out.member(1, &body["description"]);
    content(out, 2, body);
    out.flag(3, &body["required"]);
}

fn content(out: &mut Message, number: u64, of: &Value) {
    if let Some(content) = of.get("content") {
        out.nested(number, |out| {
            out.named(1, members(content), |out, media| {
                out.nested(1, |out| schema(out, &media["schema"]));
            });
        });
    }
}

fn parameters(out: &mut Message, number: u64, of: &Value) {
    for found in items(&of["parameters"]) {
        out.nested(number, |out| out.nested(1, |out| parameter(out, found)));
    }
}

fn parameter(out: &mut Message, parameter: &Value) {
    out.member(1, &parameter["name"]);
    out.member(2, &parameter["in"]);
    out.member(3, &parameter["description"]);
    out.flag(4, &parameter["required"]);
    if let Some(found) = parameter.get("schema") {
        out.nested(10, |out| schema(out, found));
    }
}

/// Writes a schema or a reference to one.
fn schema(out: &mut Message, of: &Value) {
    if of.get("$ref").is_some() {
        return out.nested(2, |out| {
            out.member(1, &of["$ref"]);
            out.member(3, &of["description"]);
        });
    }
    out.nested(1, |out| whole_schema(out, of));
}

fn whole_schema(out: &mut Message, of: &Value) {
    out.flag(1, &of["nullable"]);
    if let Some(docs) = of.get("externalDocs") {
        out.nested(6, |out| {
            out.member(1, &docs["description"]);
            out.member(2, &docs["url"]);
        });
    }
    if let Some(example) = of.get("example") {
        out.nested(7, |out| out.yaml(example));
    }
    out.member(9, &of["title"]);
    bounds(out, of);
    out.texts(23, &of["required"]);
    for value in items(&of["enum"]) {
        out.nested(24, |out| out.yaml(value));
    }
    out.member(25, &of["type"]);
    for (name, number) in [("allOf", 26), ("oneOf", 27), ("anyOf", 28)] {
        for found in items(&of[name]) {
            out.nested(number, |out| schema(out, found));
        }
    }
    if let Some(found) = of.get("not") {
        out.nested(29, |out| whole_schema(out, found));
    }
    if let Some(items) = of.get("items") {
        out.nested(30, |out| out.nested(1, |out| schema(out, items)));
    }
    if let Some(properties) = of.get("properties") {
        out.nested(31, |out| out.named(1, members(properties), schema));
    }
    match of.get("additionalProperties") {
        Some(Value::Bool(allowed)) => out.nested(32, |out| out.choice(2, *allowed)),
        Some(values) => out.nested(32, |out| out.nested(1, |out| schema(out, values))),
        None => {}
    }
    if let Some(default) = of.get("default") {
        out.nested(33, |out| default_value(out, default));
    }
    out.member(34, &of["description"]);
    out.member(35, &of["format"]);
    extensions(out, 36, of);
}

fn bounds(out: &mut Message, of: &Value) {
    out.double(10, &of["multipleOf"]);
    out.double(11, &of["maximum"]);
    out.flag(12, &of["exclusiveMaximum"]);
    out.double(13, &of["minimum"]);
    out.flag(14, &of["exclusiveMinimum"]);
    out.integer(15, &of["maxLength"]);
    out.integer(16, &of["minLength"]);
    out.member(17, &of["pattern"]);
    out.integer(18, &of["maxItems"]);
    out.integer(19, &of["minItems"]);
    out.flag(20, &of["uniqueItems"]);
    out.integer(21, &of["maxProperties"]);
    out.integer(22, &of["minProperties"]);
}

/// Writes a default value. Gnostic has no message for objects and lists: these are left
/// empty.
fn default_value(out: &mut Message, default: &Value) {
    match default {
        Value::Number(number) => out.fixed(1, number.as_f64().unwrap_or_default()),
        Value::Bool(value) => out.choice(2, *value),
        Value::String(text) => out.text(3, text),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
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

    fn written(of: &Value) -> Vec<u8> {
        let mut out = Message::default();
        schema(&mut out, of);
        out.into_bytes()
    }

    #[test]
    fn references_are_written_as_references() {
        let found = written(&json!({"$ref": "#/a", "description": "d"}));
        assert_eq!(found, b"\x12\x08\x0a\x03#/a\x1a\x01d");
    }

    #[test]
    fn oneof_values_are_written_even_if_zero() {
        let found = written(&json!({"additionalProperties": false}));
        assert_eq!(found, [0x0a, 5, 0x82, 0x02, 2, 0x10, 0]);
        let found = written(&json!({"default": 0}));
        assert_eq!(
            found,
            [0x0a, 12, 0x8a, 0x02, 9, 0x09, 0, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn invalid_document_encodes_to_nothing() {
        for text in ["", "[]", "{\"paths\":3}", &"[".repeat(100_000)] {
            assert_eq!(v3_protobuf(text.as_bytes()), [0x12, 0, 0x22, 0, 0x2a, 0]);
        }
    }
}
