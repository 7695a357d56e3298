//! The shapes of the values of a structural schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map as Members, Value as Json};

use super::shape::{Listing, Property, Shape};
use crate::identifier::escape;
use crate::schema::{flag, has_meta, with_meta};

impl Shape {
    /// Returns the shape at a node of a structural schema, given as the JSON of its OpenAPI schema.
    #[must_use]
    pub fn of(schema: &Json) -> Self {
        shape(schema, flag(schema, "x-kubernetes-embedded-resource"))
    }

    /// Returns the shape of a resource, which has `apiVersion`, `kind`, `metadata.name` and
    /// `metadata.generateName` whether or not the schema declares them.
    #[must_use]
    pub fn root(schema: &Json) -> Self {
        shape(schema, true)
    }
}

fn shape(schema: &Json, resource: bool) -> Shape {
    let shape = plain(schema, resource);
    if flag(schema, "nullable") {
        Shape::Nullable(Arc::new(shape))
    } else {
        shape
    }
}

fn plain(schema: &Json, resource: bool) -> Shape {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Shape::IntOrString;
    }
    let word = |name: &str| schema.get(name).and_then(Json::as_str).unwrap_or_default();
    match (word("type"), word("format")) {
        ("object", _) => object(schema, resource),
        ("array", _) => list(schema, word("x-kubernetes-list-type")),
        ("string", "byte") => Shape::Bytes,
        ("string", "date") => Shape::Date,
        ("string", "date-time") => Shape::DateTime,
        ("string", "duration") => Shape::Duration,
        ("string", _) => Shape::String,
        ("boolean", _) => Shape::Bool,
        ("integer", _) => Shape::Int,
        ("number", _) => Shape::Double,
        _ => Shape::Any,
    }
}

fn list(schema: &Json, kind: &str) -> Shape {
    let items = schema.get("items").map_or(Shape::Any, Shape::of);
    let keys = || {
        let keys = schema.get("x-kubernetes-list-map-keys");
        let keys = keys.and_then(Json::as_array).into_iter().flatten();
        keys.filter_map(|key| key.as_str().map(str::to_owned))
            .collect()
    };
    Shape::List(Arc::new(match kind {
        "set" => Listing::Set(items),
        "map" => Listing::Keyed(items, keys()),
        _ => Listing::Atomic(items),
    }))
}

fn object(schema: &Json, resource: bool) -> Shape {
    if let Some(values @ Json::Object(_)) = schema.get("additionalProperties") {
        return Shape::Map(Arc::new(Shape::of(values)));
    }
    let none = Members::new();
    let given = schema
        .get("properties")
        .and_then(Json::as_object)
        .unwrap_or(&none);
    let whole = (resource && !has_meta(given)).then(|| with_meta(given));
    let mut fields = BTreeMap::new();
    for (name, schema) in whole.as_ref().unwrap_or(given) {
        if let Some(escaped) = escape(name) {
            let property = Property {
                name: name.clone(),
                shape: Shape::of(schema),
            };
            fields.insert(escaped, property);
        }
    }
    Shape::Object(Arc::new(fields))
}
