//! The nodes of a schema.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::Value;

use super::rules::Rules;
use crate::format::Format;
use crate::pattern::Pattern;

/// The ID of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(NonZeroU32);

/// The schema of one value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub kind: Option<Type>,
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    pub list: ListKind,
    /// Whether this node or one below has effective CEL rules.
    pub ruled: bool,
    /// Whether this node or one below is an embedded resource.
    pub embeds: bool,
    /// Whether this node or one below is a list of type `set` or `map`.
    pub unique: bool,
    /// Sorted by name.
    pub properties: Box<[(Arc<str>, NodeId)]>,
    pub additional: Additional,
    pub items: Option<NodeId>,
    pub default: Option<Box<Value>>,
    /// `x-kubernetes-list-map-keys`
    pub keys: Box<[Arc<str>]>,
    pub checks: Option<Arc<Checks>>,
    pub junctors: Option<Box<Junctors>>,
    pub rules: Option<Box<Rules>>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

/// `x-kubernetes-list-type`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map,
}

/// `additionalProperties`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Additional {
    #[default]
    Unset,
    Allowed,
    Forbidden,
    Each(NodeId),
}

/// The constraints of a value.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub format: Option<Format>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Arc<Pattern>>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub allowed: Box<[Value]>,
    pub required: Box<[Arc<str>]>,
}

/// The schemas in `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Debug, Default)]
pub(crate) struct Junctors {
    pub all: Box<[NodeId]>,
    pub any: Box<[NodeId]>,
    pub one: Box<[NodeId]>,
    pub not: Option<NodeId>,
}

impl NodeId {
    /// The root is always the first node.
    pub const ROOT: Self = Self(NonZeroU32::MIN);

    /// The ID of the node at this index.
    pub fn at(index: usize) -> Option<Self> {
        let number = u32::try_from(index).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }

    /// The index in the list of nodes.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Node {
    /// The schema of a specified property.
    pub fn property(&self, name: &str) -> Option<NodeId> {
        let found = self
            .properties
            .binary_search_by(|(known, _)| (**known).cmp(name));
        found.ok().map(|index| self.properties[index].1)
    }

    /// The schema of a field, specified or additional.
    pub fn member(&self, name: &str) -> Option<NodeId> {
        self.property(name).or(match self.additional {
            Additional::Each(id) => Some(id),
            _ => None,
        })
    }

    /// Reports whether values of this type are specified.
    pub fn has_type(&self, kind: Type) -> bool {
        if self.int_or_string {
            return matches!(kind, Type::Integer | Type::String);
        }
        self.kind == Some(kind)
    }

    /// Reports whether a type is specified.
    pub fn is_typed(&self) -> bool {
        self.int_or_string || self.kind.is_some()
    }

    /// The types as shown in errors.
    pub fn types(&self) -> &'static str {
        if self.int_or_string {
            return "integer,string";
        }
        self.kind.map_or("", Type::name)
    }

    /// Estimated memory use in bytes, without the node itself.
    pub(super) fn size(&self) -> usize {
        // Shared parts are attributed in equal shares.
        let checks = self
            .checks
            .as_ref()
            .map_or(0, |checks| checks.size() / Arc::strong_count(checks));
        let junctors = self.junctors.as_deref().map_or(0, |junctors| {
            let branches = junctors.all.len() + junctors.any.len() + junctors.one.len();
            size_of::<Junctors>() + branches * size_of::<NodeId>()
        });
        let default = self.default.as_deref().map_or(0, value_size);
        size_of_val(&*self.properties)
            + size_of_val(&*self.keys)
            + self.rules.as_deref().map_or(0, Rules::size)
            + checks
            + junctors
            + default
    }
}

impl Checks {
    fn size(&self) -> usize {
        let allowed: usize = self.allowed.iter().map(value_size).sum();
        size_of::<Self>() + size_of_val(&*self.required) + allowed
    }
}

impl Type {
    /// Parses the name of a type.
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// The name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// Estimated memory use of a value, in bytes.
pub(crate) fn value_size(value: &Value) -> usize {
    let below = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| name.len() + 40 + value_size(member))
            .sum(),
        _ => 0,
    };
    size_of::<Value>() + below
}
