//! The values of expressions.
//!
//! Objects are not copied: lists and maps of JSON are read on access, so that binding an object is
//! free however large it is.

mod equal;
mod json;
mod list;
mod map;
mod number;
mod opaque;
mod order;
mod print;
mod schema;
mod shape;
mod text;
mod time;

use std::sync::Arc;

use crate::error::EvalError;

pub use list::List;
pub(crate) use map::unsupported;
pub use map::{Entries, Key, Map, Plain};
pub(crate) use number::{double_to_int, double_to_uint};
pub(crate) use opaque::Stage;
pub use opaque::{
    AuthorizationRequest, Authorizer, Caller, Decision, Format, Opaque, QuantityValue, Resource,
    Semver, Target,
};
pub use shape::{Listing, Property, Shape};
pub use text::Text;
pub(crate) use time::{
    Clock, civil_time, is_duration, is_timestamp, parse_duration, parse_timestamp,
};
pub use time::{Duration, Timestamp};

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(Text<'a>),
    /// `b'a'`
    Bytes(Arc<[u8]>),
    /// `[1]`
    List(List<'a>),
    /// `{'a': 1}`, or an object of a schema
    Map(Map<'a>),
    /// `int`
    Type(Text<'a>),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A duration.
    Duration(Duration),
    /// `optional.of(1)` or `optional.none()`
    Optional(Option<Arc<Value<'a>>>),
    /// `Object{field: 1}`
    Struct(Arc<Struct<'a>>),
    /// A value of a library type.
    Opaque(Opaque<'a>),
}

/// The value of an expression, or an error in its place.
pub(crate) type Outcome<'a> = Result<Value<'a>, EvalError>;

/// A value that an expression constructed with `Name{...}`.
#[derive(Clone, Debug)]
pub struct Struct<'a> {
    /// The name of the type.
    pub name: Arc<str>,
    /// The fields that were set.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

impl<'a> Value<'a> {
    /// Reads JSON with a shape. JSON that does not fit is an error on access, not before.
    pub fn of(json: &'a serde_json::Value, shape: &'a Shape) -> Result<Self, EvalError> {
        shape::read(json, shape)
    }

    /// Reads JSON without a schema: integers are `int`, objects are maps.
    pub fn dynamic(json: &'a serde_json::Value) -> Self {
        shape::read_dynamic(json)
    }

    /// Creates a string.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn text_type(name: &str) -> Value<'static> {
        Value::Type(Text::Shared(name.into()))
    }

    /// Creates an optional with a value.
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The empty optional.
    pub const NONE: Self = Self::Optional(None);

    /// Returns the name of the type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Optional(_) => "optional_type",
            Self::Struct(made) => &made.name,
            Self::Opaque(opaque) => opaque.type_name(),
        }
    }

    /// Returns the number of characters, bytes, elements or members.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.chars()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Returns whether this is the zero value of its type.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            // Collections with a schema are never zero; only those of expressions or of JSON
            // without a schema are.
            Self::List(list) => !list.is_typed() && list.is_empty(),
            Self::Map(map) => !map.is_typed() && map.is_empty(),
            Self::Timestamp(time) => time.is_zero(),
            Self::Duration(duration) => duration.nanos == 0,
            Self::Struct(made) => made.fields.is_empty(),
            Self::Type(_) | Self::Optional(_) | Self::Opaque(_) => false,
        }
    }

    /// Returns the string that a message expression evaluated to, or none for another type.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a `bool`, or none for another type.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(values: Vec<Value<'a>>) -> Self {
        Self::List(values.into())
    }
}
