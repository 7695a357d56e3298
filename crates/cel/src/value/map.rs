//! Maps: of JSON or computed. Objects with a schema are maps of its fields only.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::number::{double_to_int, double_to_uint};
use super::shape::{Property, Shape, read, read_dynamic};
use super::{Text, Value};
use crate::error::EvalError;

/// The members of a JSON object.
type Members = serde_json::Map<String, Json>;

/// A map.
#[derive(Clone)]
pub enum Map<'a> {
    /// JSON without a schema.
    Dynamic(&'a Members),
    /// JSON with values of one shape.
    Typed(&'a Members, &'a Shape),
    /// JSON with declared fields.
    Object(&'a Members, &'a BTreeMap<String, Property>),
    /// Computed members.
    Made(Arc<Entries<'a>>),
}

/// Computed members. Strings are stored apart from other keys, so that they can be looked up with a
/// shorter lifetime.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    named: BTreeMap<Text<'a>, Value<'a>>,
    others: BTreeMap<Plain, Value<'a>>,
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key<'a> {
    /// A number or a boolean.
    Plain(Plain),
    /// A string.
    Name(Text<'a>),
}

/// A key other than a string.
#[derive(Clone, Copy, Debug)]
pub enum Plain {
    /// `true`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`, which a map can hold but no literal can have.
    Double(f64),
}

impl<'a> Map<'a> {
    /// Returns the number of members.
    pub fn len(&self) -> usize {
        match self {
            Self::Dynamic(members) | Self::Typed(members, _) | Self::Object(members, _) => {
                members.len()
            }
            Self::Made(entries) => entries.len(),
        }
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_typed(&self) -> bool {
        matches!(self, Self::Typed(..) | Self::Object(..))
    }

    /// Returns the value of a string key.
    pub fn field(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Dynamic(members) => members.get(name).map(|json| Ok(read_dynamic(json))),
            Self::Typed(members, shape) => members.get(name).map(|json| read(json, shape)),
            Self::Object(members, fields) => {
                let property = fields.get(name)?;
                let json = members.get(&property.name)?;
                // A field that is null counts as absent.
                (!json.is_null()).then(|| read(json, &property.shape))
            }
            Self::Made(entries) => entries.named.get(name).cloned().map(Ok),
        }
    }

    /// Returns the value of a key. With a schema, a key of the wrong type is an error.
    pub fn find(&self, key: &Value<'_>) -> Option<Result<Value<'a>, EvalError>> {
        match (self, key) {
            (_, Value::String(name)) => self.field(name),
            (Self::Made(entries), _) => entries.find(key).cloned().map(Ok),
            (Self::Dynamic(_), _) => None,
            _ => Some(Err(EvalError::no_such_overload())),
        }
    }

    /// Returns the keys in a stable order.
    pub fn keys(&self) -> Vec<Value<'a>> {
        let names = |members: &'a Members| members.keys().map(|name| Value::from(&**name));
        match self {
            Self::Dynamic(members) | Self::Typed(members, _) => names(members).collect(),
            Self::Object(members, fields) => fields
                .iter()
                .filter(|(_, property)| members.contains_key(&property.name))
                .map(|(escaped, _)| Value::from(&**escaped))
                .collect(),
            Self::Made(entries) => entries.iter().map(|(key, _)| key.into()).collect(),
        }
    }

    /// Inserts a member.
    pub(crate) fn insert(mut self, key: Value<'a>, value: Value<'a>) -> Result<Self, EvalError> {
        if self.find(&key).is_some() {
            let text = format!("insert failed: key {key} already exists");
            return Err(EvalError::new(text));
        }
        let made = Key::of(&key).ok_or_else(|| unsupported(&key))?;
        if let Self::Made(entries) = &mut self
            && let Some(entries) = Arc::get_mut(entries)
        {
            entries.insert(made, value);
            return Ok(self);
        }
        let mut entries = Entries::default();
        for key in self.keys() {
            if let (Some(value), Some(key)) = (self.find(&key), Key::of(&key)) {
                entries.insert(key, value?);
            }
        }
        entries.insert(made, value);
        Ok(Self::Made(Arc::new(entries)))
    }
}

impl<'a> Entries<'a> {
    /// Inserts a member, or replaces its value.
    pub fn insert(&mut self, key: Key<'a>, value: Value<'a>) {
        match key {
            Key::Name(name) => self.named.insert(name, value),
            Key::Plain(key) => self.others.insert(key, value),
        };
    }

    /// Removes a member.
    pub fn remove(&mut self, key: &Key<'_>) {
        match key {
            Key::Name(name) => self.named.remove(&**name),
            Key::Plain(key) => self.others.remove(key),
        };
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.named.len() + self.others.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the members.
    pub fn iter(&self) -> impl Iterator<Item = (Key<'a>, &Value<'a>)> {
        let others = self
            .others
            .iter()
            .map(|(key, value)| (Key::Plain(*key), value));
        let named = self
            .named
            .iter()
            .map(|(name, value)| (Key::Name(name.clone()), value));
        others.chain(named)
    }

    /// Finds a value. Numbers of all types find each other if the conversion is exact.
    fn find(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        let get = |key| self.others.get(&key);
        match *key {
            Value::String(ref name) => self.named.get(&**name),
            Value::Bool(value) => get(Plain::Bool(value)),
            Value::Int(value) => {
                get(Plain::Int(value)).or_else(|| get(Plain::Uint(u64::try_from(value).ok()?)))
            }
            Value::Uint(value) => {
                get(Plain::Uint(value)).or_else(|| get(Plain::Int(i64::try_from(value).ok()?)))
            }
            Value::Double(value) => {
                let int = double_to_int(value).filter(|int| *int as f64 == value);
                let uint = double_to_uint(value).filter(|uint| *uint as f64 == value);
                get(Plain::Double(value))
                    .or_else(|| get(Plain::Int(int?)))
                    .or_else(|| get(Plain::Uint(uint?)))
            }
            _ => None,
        }
    }
}

impl<'a> Key<'a> {
    /// Returns the key of a value, or none if its type cannot be a key.
    pub fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Plain(Plain::Bool(*value)),
            Value::Int(value) => Self::Plain(Plain::Int(*value)),
            Value::Uint(value) => Self::Plain(Plain::Uint(*value)),
            Value::Double(value) => Self::Plain(Plain::Double(*value)),
            Value::String(text) => Self::Name(text.clone()),
            _ => return None,
        })
    }

    /// Returns the key by which a set identifies an element.
    pub(super) fn native(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Timestamp(_) | Value::Duration(_) | Value::Bytes(_) => {
                Some(Self::Name(value.to_string().into()))
            }
            _ => Self::of(value),
        }
    }
}

impl<'a> From<Key<'a>> for Value<'a> {
    fn from(key: Key<'a>) -> Self {
        match key {
            Key::Plain(Plain::Bool(value)) => Self::Bool(value),
            Key::Plain(Plain::Int(value)) => Self::Int(value),
            Key::Plain(Plain::Uint(value)) => Self::Uint(value),
            Key::Plain(Plain::Double(value)) => Self::Double(value),
            Key::Name(text) => Self::String(text),
        }
    }
}

impl Ord for Plain {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(one), Self::Bool(two)) => one.cmp(two),
            (Self::Int(one), Self::Int(two)) => one.cmp(two),
            (Self::Uint(one), Self::Uint(two)) => one.cmp(two),
            (Self::Double(one), Self::Double(two)) => one.total_cmp(two),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Plain {
    fn rank(self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) => 1,
            Self::Uint(_) => 2,
            Self::Double(_) => 3,
        }
    }
}

impl PartialOrd for Plain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Plain {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Plain {}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dynamic(members) | Self::Typed(members, _) | Self::Object(members, _) => {
                members.fmt(f)
            }
            Self::Made(entries) => entries.fmt(f),
        }
    }
}

impl<'a> From<Entries<'a>> for Map<'a> {
    fn from(entries: Entries<'a>) -> Self {
        Self::Made(Arc::new(entries))
    }
}

/// The error for a value that cannot be a key.
pub(crate) fn unsupported(key: &Value<'_>) -> EvalError {
    EvalError::new(format!("unsupported key type: {}", key.type_name()))
}
