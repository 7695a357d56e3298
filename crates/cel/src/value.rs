//! The values that expressions compute with.
//!
//! What comes from an object stays where it is: a list or a map of JSON is read when it is
//! asked for, so binding an object costs nothing however large it is.

mod equal;
mod json;
mod list;
mod map;
mod number;
mod order;
mod print;
mod schema;
mod shape;
mod text;
mod time;

use std::net::IpAddr;
use std::sync::Arc;

use insula_gotext::url::Url;
use ipnet::IpNet;

use crate::evaluate::EvalError;
use crate::library::{Amount, Authorization, Format, Semver};

pub use list::List;
pub(crate) use map::unsupported;
pub use map::{Entries, Key, Map, Plain};
pub(crate) use number::{double_to_int, double_to_uint};
pub use shape::{Listing, Property, Shape};
pub use text::Text;
pub(crate) use time::{Clock, civil, is_duration, is_timestamp, parse_duration, parse_timestamp};
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
    /// `{'a': 1}`, and what a schema calls an object
    Map(Map<'a>),
    /// `int`
    Type(Text<'a>),
    /// A moment.
    Timestamp(Timestamp),
    /// A length of time.
    Duration(Duration),
    /// `optional.of(1)`, or nothing
    Optional(Option<Arc<Value<'a>>>),
    /// `Object{field: 1}`
    Struct(Arc<Struct<'a>>),
    /// What a library made.
    Opaque(Opaque<'a>),
}

/// What an expression made with `Name{...}`.
#[derive(Clone, Debug)]
pub struct Struct<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// The fields that were given.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

/// A value with functions of its own and nothing else.
#[derive(Clone, Debug)]
pub enum Opaque<'a> {
    /// An amount of something.
    Quantity(Arc<Amount>),
    /// An absolute address.
    Url(Arc<Url>),
    /// An address of a network.
    Ip(IpAddr),
    /// A range of addresses.
    Cidr(IpNet),
    /// A version.
    Semver(Arc<Semver>),
    /// A form of text that has a name.
    Format(&'static Format),
    /// A question about permissions, or its answer.
    Authorization(Arc<Authorization<'a>>),
}

impl<'a> Value<'a> {
    /// The JSON, read as the shape says. JSON that cannot be read so is an error when it is
    /// looked at, not before.
    pub fn of(json: &'a serde_json::Value, shape: &'a Shape) -> Result<Self, EvalError> {
        shape::read(json, shape)
    }

    /// The JSON as it stands: whole numbers are `int`s, objects are maps.
    pub fn dynamic(json: &'a serde_json::Value) -> Self {
        shape::read_dynamic(json)
    }

    /// A text.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn text_type(name: &str) -> Value<'static> {
        Value::Type(Text::Shared(name.into()))
    }

    /// An optional that holds the value.
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// An optional that holds nothing.
    pub const NONE: Self = Self::Optional(None);

    /// The name of its type.
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

    /// How much of it there is: characters, bytes, elements or members.
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::String(text) => Some(text.chars()),
            Self::Bytes(bytes) => Some(bytes.len()),
            Self::List(list) => Some(list.len()),
            Self::Map(map) => Some(map.len()),
            _ => None,
        }
    }

    /// Whether it is the value that stands for nothing in its type.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            // What a schema types is never taken for nothing, only what an expression or
            // untyped JSON made.
            Self::List(list) => !list.is_typed() && list.is_empty(),
            Self::Map(map) => !map.is_typed() && map.is_empty(),
            Self::Timestamp(time) => time.is_zero(),
            Self::Duration(duration) => duration.nanos == 0,
            Self::Struct(made) => made.fields.is_empty(),
            Self::Type(_) | Self::Optional(_) | Self::Opaque(_) => false,
        }
    }

    /// The text that a message expression computed; none if it computed something else.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `true`; none if it is no `bool`.
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

impl Opaque<'_> {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorization(about) => about.type_name(),
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
