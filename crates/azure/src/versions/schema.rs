//! Schemas of versions, reduced to what a conversion needs.
//!
//! The definitions of Azure Service Operator have megabytes of schemas, most of them alike in all
//! versions of a kind. Equal parts are held once.

use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::bag;

/// The schema of a value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Schema {
    /// Any value.
    Any,
    /// A text, with its legal values if they are listed.
    Text(Vec<String>),
    /// A number.
    Number,
    /// A truth value.
    Bool,
    /// A list.
    List(Shared),
    /// An object with any keys.
    Map(Shared),
    /// An object with these fields.
    Object(BTreeMap<String, Shared>),
}

/// A schema of a [`Pool`]. Equal schemas of a pool are the same one.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Schema>);

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Deref for Shared {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.0
    }
}

/// The distinct schemas.
#[derive(Debug, Default)]
pub(super) struct Pool(HashSet<Arc<Schema>>);

impl Schema {
    /// Returns whether a value has the type of this schema.
    pub fn fits(&self, value: &Value) -> bool {
        // Null has every type: whether it is legal is for the API server to say.
        if value.is_null() {
            return true;
        }
        match self {
            Self::Any => true,
            Self::Text(_) => value.is_string(),
            Self::Number => value.is_number(),
            Self::Bool => value.is_boolean(),
            Self::List(_) => value.is_array(),
            Self::Map(_) | Self::Object(_) => value.is_object(),
        }
    }

    /// Returns the schema of a field.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match self {
            Self::Object(fields) => fields.get(name).map(Deref::deref),
            Self::Map(values) => Some(values),
            _ => None,
        }
    }

    /// Returns whether objects may have a property bag.
    pub fn has_bag(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Object(fields) => fields.contains_key(bag::FIELD),
            _ => false,
        }
    }
}

impl Pool {
    /// Reads an OpenAPI schema.
    pub fn read(&mut self, schema: &Value) -> Shared {
        let read = match schema["type"].as_str().unwrap_or_default() {
            "string" => Schema::Text(texts(&schema["enum"])),
            "integer" | "number" => Schema::Number,
            "boolean" => Schema::Bool,
            "array" => Schema::List(self.read(&schema["items"])),
            "object" => self.read_object(schema),
            _ => Schema::Any,
        };
        self.share(read)
    }

    fn read_object(&mut self, schema: &Value) -> Schema {
        if let Some(fields) = schema["properties"].as_object() {
            let fields = fields.iter();
            return Schema::Object(
                fields
                    .map(|(name, it)| (name.clone(), self.read(it)))
                    .collect(),
            );
        }
        match &schema["additionalProperties"] {
            values @ Value::Object(_) => Schema::Map(self.read(values)),
            Value::Bool(true) => Schema::Any,
            _ if schema["x-kubernetes-preserve-unknown-fields"] == true => Schema::Any,
            _ => Schema::Object(BTreeMap::new()),
        }
    }

    /// Returns a schema with a property bag in each object, as storage versions have it.
    pub fn with_bags(&mut self, schema: &Schema) -> Shared {
        let with_bags = match schema {
            Schema::Any => Schema::Any,
            Schema::Text(_) => Schema::Text(Vec::new()),
            Schema::Number => Schema::Number,
            Schema::Bool => Schema::Bool,
            Schema::List(item) => Schema::List(self.with_bags(item)),
            Schema::Map(values) => Schema::Map(self.with_bags(values)),
            Schema::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, it)| (name.clone(), self.with_bags(it)));
                let mut fields: BTreeMap<_, _> = fields.collect();
                let text = self.share(Schema::Text(Vec::new()));
                let bag = self.share(Schema::Map(text));
                fields.insert(bag::FIELD.to_owned(), bag);
                Schema::Object(fields)
            }
        };
        self.share(with_bags)
    }

    /// Returns a schema of objects with these fields.
    pub fn object<const N: usize>(&mut self, fields: [(&str, Shared); N]) -> Shared {
        let fields = fields.map(|(name, schema)| (name.to_owned(), schema));
        self.share(Schema::Object(BTreeMap::from(fields)))
    }

    fn share(&mut self, schema: Schema) -> Shared {
        if let Some(shared) = self.0.get(&schema) {
            return Shared(Arc::clone(shared));
        }
        let shared = Arc::new(schema);
        self.0.insert(Arc::clone(&shared));
        Shared(shared)
    }

    /// Drops the schemas that are in no definition any more.
    pub fn shrink(&mut self) {
        // A schema that is dropped may have been the last one that held its parts.
        loop {
            let before = self.0.len();
            self.0.retain(|schema| Arc::strong_count(schema) > 1);
            if self.0.len() == before {
                return;
            }
        }
    }
}

fn texts(values: &Value) -> Vec<String> {
    let values = values.as_array().into_iter().flatten();
    values
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
