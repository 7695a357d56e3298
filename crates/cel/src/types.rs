//! Types of values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Any type, checked during evaluation.
    Dyn,
    /// The type after an error that was already reported.
    Error,
    /// `null_type`
    Null,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `uint`
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<Type>, Arc<Type>),
    /// `optional_type(T)`
    Optional(Arc<Type>),
    /// The type of a type.
    Meta(Arc<Type>),
    /// A type with declared fields, such as that of a schema node.
    Object(Arc<ObjectType>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(Arc<str>),
    /// A parameter of a generic function.
    Param(Arc<str>),
}

/// A type with fields. Two are equal if their names are.
#[derive(Debug)]
pub struct ObjectType {
    /// The name in messages.
    pub name: String,
    /// The fields, by their escaped names in expressions.
    pub fields: BTreeMap<String, Field>,
}

/// A field of a type.
#[derive(Clone, Debug)]
pub struct Field {
    /// The type of the field.
    pub of: Type,
    /// The name in JSON.
    pub name: String,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    /// Creates the type of a list.
    #[must_use]
    pub fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    /// Creates the type of a map.
    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// Creates an optional type.
    #[must_use]
    pub fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Returns the name of the type as a value.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "*error*",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Optional(_) => "optional_type",
            Self::Meta(_) => "type",
            Self::Object(of) => &of.name,
            Self::Opaque(name) | Self::Param(name) => name,
        }
    }

    /// Parses a type as the function table has it: `list(<A>)`, `map(string, dyn)`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (read, rest) = read(text.trim())?;
        rest.trim().is_empty().then_some(read)
    }
}

/// Displays a type as in messages.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Meta(of) => write!(f, "type({of})"),
            simple => f.write_str(simple.name()),
        }
    }
}

fn read(text: &str) -> Option<(Type, &str)> {
    if let Some(rest) = text.strip_prefix('<') {
        let (name, rest) = rest.split_once('>')?;
        return Some((Type::Param(name.into()), rest));
    }
    let end = text.find(['(', ')', ',']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let one = |rest: &'_ str| -> Option<(Arc<Type>, usize)> {
        let (of, left) = read(rest.strip_prefix('(')?)?;
        Some((Arc::new(of), rest.len() - left.strip_prefix(')')?.len()))
    };
    Some(match name {
        "list" => one(rest).map(|(of, used)| (Type::List(of), &rest[used..]))?,
        "optional_type" => one(rest).map(|(of, used)| (Type::Optional(of), &rest[used..]))?,
        "type" if rest.starts_with('(') => {
            one(rest).map(|(of, used)| (Type::Meta(of), &rest[used..]))?
        }
        "map" => {
            let (key, left) = read(rest.strip_prefix('(')?)?;
            let (value, left) = read(left.strip_prefix(',')?.trim_start())?;
            (Type::map(key, value), left.strip_prefix(')')?)
        }
        name => (plain(name), rest),
    })
}

fn plain(name: &str) -> Type {
    match name {
        "dyn" => Type::Dyn,
        "null_type" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        name => Type::Opaque(name.into()),
    }
}
