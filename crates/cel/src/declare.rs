//! The types and maximum sizes of the values of a structural schema.
//!
//! Expressions can access only declared parts: fields without a property and nodes without a type
//! do not exist for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::estimate::{Extent, Format};
use crate::identifier::escape;
use crate::schema::{flag, has_meta, limit, with_meta};
use crate::types::{Field, ObjectType, Type};

/// The declaration of the values at a schema node.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The type of the values.
    pub of: Type,
    /// The maximum size of the values.
    pub extent: Extent,
}

/// Declares a node of a structural schema, given as the JSON of its OpenAPI schema. Returns none if
/// expressions cannot access its values. `name` is the name of its type in messages, and the prefix
/// of the types of nested objects; Kubernetes has `selfType` with a number that differs each time.
#[must_use]
pub fn of(schema: &Value, name: &str) -> Option<Declaration> {
    declare(schema, name, flag(schema, "x-kubernetes-embedded-resource"))
}

/// Declares the root of a resource, where `apiVersion`, `kind`, `metadata.name` and
/// `metadata.generateName` can be accessed whether or not the schema declares them.
#[must_use]
pub fn root(schema: &Value, name: &str) -> Option<Declaration> {
    declare(schema, name, true)
}

fn declare(schema: &Value, name: &str, resource: bool) -> Option<Declaration> {
    if flag(schema, "x-kubernetes-int-or-string") {
        let extent = Extent::int_or_string(limit(schema, "maxLength"));
        return Some(Declaration {
            of: Type::Dyn,
            extent,
        });
    }
    let (of, extent) = match schema.get("type").and_then(Value::as_str)? {
        "array" => return list(schema, name),
        "object" => return object(schema, name, resource),
        "string" => string(schema),
        "boolean" => (Type::Bool, Extent::bool()),
        "number" => (Type::Double, Extent::number()),
        "integer" => (Type::Int, Extent::number()),
        _ => return None,
    };
    Some(Declaration { of, extent })
}

fn list(schema: &Value, name: &str) -> Option<Declaration> {
    let items = of(schema.get("items")?, &format!("{name}.@idx"))?;
    let extent = Extent::list(items.extent, limit(schema, "maxItems"));
    Some(Declaration {
        of: Type::list(items.of),
        extent,
    })
}

fn object(schema: &Value, name: &str, resource: bool) -> Option<Declaration> {
    if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
        let values = of(values, &format!("{name}.@elem"))?;
        let extent = Extent::map(values.extent, limit(schema, "maxProperties"));
        return Some(Declaration {
            of: Type::map(Type::String, values.of),
            extent,
        });
    }
    let none = Map::new();
    let given = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    let with_meta = (resource && !has_meta(given)).then(|| with_meta(given));
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let mut fields = BTreeMap::new();
    let mut extents = BTreeMap::new();
    let mut bytes = 0;
    for (property, schema) in with_meta.as_ref().unwrap_or(given) {
        let escaped = escape(property);
        let inner = format!("{name}.{}", escaped.as_deref().unwrap_or_default());
        let Some(Declaration { of, extent }) = of(schema, &inner) else {
            continue;
        };
        let defaulted = schema
            .get("default")
            .is_some_and(|default| !default.is_null());
        if is_required(property) && !defaulted {
            bytes += property.len() as u64 + extent.min_bytes + 4;
        }
        if let Some(escaped) = escaped {
            fields.insert(
                escaped.clone(),
                Field {
                    of,
                    name: property.clone(),
                },
            );
            extents.insert(escaped, extent);
        }
    }
    let object = ObjectType {
        name: name.to_owned(),
        fields,
    };
    let extent = Extent::object(extents, bytes);
    Some(Declaration {
        of: Type::Object(Arc::new(object)),
        extent,
    })
}

fn string(schema: &Value) -> (Type, Extent) {
    let max_length = limit(schema, "maxLength");
    match schema.get("format").and_then(Value::as_str) {
        Some("byte") => (Type::Bytes, Extent::bytes(max_length)),
        Some("duration") => (Type::Duration, Extent::formatted(Format::Duration)),
        Some("date") => (Type::Timestamp, Extent::formatted(Format::Date)),
        Some("date-time") => (Type::Timestamp, Extent::formatted(Format::DateTime)),
        _ => {
            let allowed = schema.get("enum").and_then(Value::as_array);
            // Values of other types count as the empty string.
            let allowed: Vec<&str> = allowed
                .into_iter()
                .flatten()
                .map(|value| value.as_str().unwrap_or_default())
                .collect();
            (Type::String, Extent::string(max_length, &allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_fields_that_cannot_be_escaped_count_towards_the_minimum_size() {
        let schema = serde_json::json!({
            "type": "object",
            "required": ["1x", "b", "c"],
            "properties": {
                "1x": {"type": "string"},
                "b": {"type": "boolean"},
                "c": {"type": "boolean", "default": true},
                "d": {"x-kubernetes-preserve-unknown-fields": true},
            },
        });
        let Declaration { of, extent } = of(&schema, "self").expect("an object");
        assert_eq!(extent.min_bytes, 2 + (2 + 2 + 4) + (1 + 4 + 4));
        let Type::Object(object) = of else {
            panic!("an object")
        };
        assert_eq!(object.fields.keys().collect::<Vec<_>>(), ["b", "c"]);
    }
}
