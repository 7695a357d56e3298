//! Reads the nodes of a structural schema, given as the JSON of its OpenAPI schema.

use serde_json::{Map, Value};

/// Returns whether the schema itself declares the fields that every resource has.
pub(crate) fn has_meta(properties: &Map<String, Value>) -> bool {
    let is = |schema: Option<&Value>, of: &str| {
        schema
            .and_then(|schema| schema.get("type"))
            .is_some_and(|found| found == of)
    };
    let metadata = properties.get("metadata");
    let inside = |name| {
        metadata
            .and_then(|of| of.get("properties"))
            .and_then(|of| of.get(name))
    };
    is(properties.get("kind"), "string")
        && is(properties.get("apiVersion"), "string")
        && is(metadata, "object")
        && is(inside("name"), "string")
        && is(inside("generateName"), "string")
}

pub(crate) fn with_meta(properties: &Map<String, Value>) -> Map<String, Value> {
    let string = serde_json::json!({"type": "string"});
    let metadata = serde_json::json!({
        "type": "object",
        "properties": {"name": string, "generateName": string},
    });
    let mut all = properties.clone();
    all.insert("kind".to_owned(), string.clone());
    all.insert("apiVersion".to_owned(), string);
    all.insert("metadata".to_owned(), metadata);
    all
}

pub(crate) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

pub(crate) fn limit(schema: &Value, name: &str) -> Option<i64> {
    schema.get(name).and_then(Value::as_i64)
}
