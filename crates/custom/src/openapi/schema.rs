//! The published form of a definition's schema.

use insula_kinds::{Object, Value};
use serde_json::json;

/// Maximum nesting of published schemas. Decoded JSON cannot be deeper.
const MAX_DEPTH: usize = 256;

/// The OpenAPI version of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

/// The context of a schema, which determines its keywords.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It specifies the structure of a value.
    Structure,
    /// It only constrains the value, in `allOf` and similar.
    Condition,
}

/// Keywords that are published as they are, unless empty.
const PLAIN: [&str; 25] = [
    "type",
    "description",
    "title",
    "nullable",
    "externalDocs",
    "format",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "enum",
    "maxProperties",
    "minProperties",
    "required",
    PRESERVE,
    EMBEDDED,
    INT_OR_STRING,
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];
const NUMBERS: [&str; 3] = ["maximum", "minimum", "multipleOf"];
/// Values that are meaningful even if empty.
const VALUES: [&str; 2] = ["default", "example"];
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

impl Dialect {
    /// A reference to the schema of this name.
    pub(super) fn reference(self, name: &str) -> Value {
        let place = match self {
            Self::V2 => "definitions",
            Self::V3 => "components/schemas",
        };
        json!({"$ref": format!("#/{place}/{name}")})
    }
}

/// The schema of whole objects: as written, with apiVersion, kind and metadata added.
pub(super) fn published(schema: &Value, dialect: Dialect) -> Object {
    let mut object = Object::new();
    object.insert("type".to_owned(), "object".into());
    let Value::Object(written) = schema else {
        return object;
    };
    // For such an object nothing can be published, not even metadata: kubectl would treat that
    // as complete.
    if dialect == Dialect::V2 && is_true(written, PRESERVE) {
        return object;
    }
    let mut object = read(written, Place::Structure, 0);
    if dialect == Dialect::V2 {
        reduce(&mut object);
    }
    embed(&mut object, dialect);
    name(&mut object, dialect);
    object
}

/// A reference to the metadata of objects or lists.
pub(super) fn metadata(name: &str, dialect: Dialect) -> Value {
    let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
    match dialect {
        Dialect::V2 => dialect.reference(&name),
        // In version 3, a reference cannot have sibling keywords.
        Dialect::V3 => json!({"allOf": [dialect.reference(&name)]}),
    }
}

/// Adds the fields of every object.
fn name(object: &mut Object, dialect: Dialect) {
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    properties["apiVersion"] = json!({"type": "string"});
    properties["kind"] = json!({"type": "string"});
    properties["metadata"] = metadata("ObjectMeta", dialect);
}

fn is_true(schema: &Object, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Keeps the meaningful keywords, here and below.
fn read(written: &Object, place: Place, depth: usize) -> Object {
    let mut schema = Object::new();
    for (name, value) in written {
        let value = match name.as_str() {
            name if PLAIN.contains(&name) => meaningful(name, value),
            name if NUMBERS.contains(&name) => number(value),
            name if VALUES.contains(&name) => (!value.is_null()).then(|| value.clone()),
            _ if depth >= MAX_DEPTH => None,
            name if JUNCTORS.contains(&name) => all(value, depth + 1),
            "not" => one(value, Place::Condition, depth + 1),
            "items" => one(value, place, depth + 1),
            "properties" => properties(value, place, depth + 1),
            "additionalProperties" if place == Place::Structure => match value {
                Value::Bool(_) => Some(value.clone()),
                values => one(values, place, depth + 1),
            },
            _ => None,
        };
        if let Some(value) = value {
            schema.insert(name.clone(), value);
        }
    }
    if place == Place::Structure && is_true(&schema, INT_OR_STRING) {
        unfold(&mut schema);
    }
    schema
}

fn one(written: &Value, place: Place, depth: usize) -> Option<Value> {
    let written = written.as_object()?;
    Some(Value::Object(read(written, place, depth)))
}

fn all(written: &Value, depth: usize) -> Option<Value> {
    let written = written.as_array().filter(|all| !all.is_empty())?;
    let read = written
        .iter()
        .filter_map(|it| one(it, Place::Condition, depth));
    Some(read.collect())
}

fn properties(written: &Value, place: Place, depth: usize) -> Option<Value> {
    let written = written.as_object().filter(|all| !all.is_empty())?;
    let read = written
        .iter()
        .filter_map(|(name, it)| Some((name.clone(), one(it, place, depth)?)));
    Some(Value::Object(read.collect()))
}

/// The value of a keyword, unless it is empty.
fn meaningful(name: &str, value: &Value) -> Option<Value> {
    let empty = match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    };
    match (empty, name) {
        (true, _) => None,
        (false, "x-kubernetes-validations") => Some(rules(value)),
        (false, _) => Some(value.clone()),
    }
}

/// The rules without empty fields.
fn rules(value: &Value) -> Value {
    let mut rules = value.clone();
    for rule in rules.as_array_mut().into_iter().flatten() {
        if let Value::Object(rule) = rule {
            rule.retain(|_, value| !value.is_null() && value != "");
        }
    }
    rules
}

/// Formats a number as Go does, without a fraction if it is integral.
fn number(value: &Value) -> Option<Value> {
    /// Below this, every integral double is exactly an integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64()? {
        whole if whole.fract() == 0.0 && whole.abs() < EXACT => Some((whole as i64).into()),
        _ => Some(value.clone()),
    }
}

/// Expresses int-or-string in standard keywords, for clients that ignore the extension.
fn unfold(schema: &mut Object) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = schema.get("allOf").and_then(|all| all.get(0)?.get("anyOf"));
    if schema.get("anyOf") == Some(&either) || first == Some(&either) {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), either);
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.insert(0, json!({"anyOf": either}));
    }
}

/// Reduces a schema to version 2.
fn reduce(schema: &mut Object) {
    for name in JUNCTORS.iter().chain(&["not", "default"]) {
        schema.remove(*name);
    }
    let nullable = schema.remove("nullable").is_some();
    let preserve = is_true(schema, PRESERVE);
    if nullable || preserve {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str);
    let untyped = match kind {
        Some("array") => !schema.contains_key("items"),
        Some("object") => preserve,
        _ => false,
    };
    if nullable || untyped {
        schema.remove("type");
    }
    let nullables = nullables(schema);
    if nullables.values {
        schema.remove("required");
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        let optional = |name: &Value| nullables.names.iter().any(|known| name == known);
        required.retain(|name| !optional(name));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    for part in parts(schema) {
        reduce(part);
    }
}

/// Nullable fields, which cannot be required by clients without support for nulls.
struct Nullables {
    names: Vec<String>,
    values: bool,
}

fn nullables(schema: &Object) -> Nullables {
    let nullable = |part: &Value| part.get("nullable") == Some(&Value::Bool(true));
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    Nullables {
        names: properties
            .filter(|(_, part)| nullable(part))
            .map(|(name, _)| name.clone())
            .collect(),
        values: schema.get("additionalProperties").is_some_and(nullable),
    }
}

/// The schemas of the parts of a value.
fn parts(schema: &mut Object) -> Vec<&mut Object> {
    let mut parts = Vec::new();
    for (name, value) in schema.iter_mut() {
        match (name.as_str(), value) {
            ("items" | "additionalProperties", Value::Object(part)) => parts.push(part),
            ("properties", Value::Object(properties)) => {
                parts.extend(properties.values_mut().filter_map(Value::as_object_mut));
            }
            _ => {}
        }
    }
    parts
}

/// Adds the fields of every object to embedded resources.
fn embed(schema: &mut Object, dialect: Dialect) {
    for part in parts(schema) {
        embed(part, dialect);
    }
    if !is_true(schema, EMBEDDED) || dialect == Dialect::V2 && is_true(schema, PRESERVE) {
        return;
    }
    name(schema, dialect);
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}
