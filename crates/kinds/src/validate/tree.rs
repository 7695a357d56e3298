//! A value together with where it stands, so that every error names its place.

use std::fmt;
use std::rc::Rc;

use serde_json::Value;

use crate::{FieldError, Object};

/// What stands where nothing does.
static NULL: Value = Value::Null;

/// A place in an object and the value there, [`Value::Null`] if there is none.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The place.
    pub path: Path<'a>,
    value: NodeValue<'a>,
}

/// The object itself is no [`Value`], and copying it into one would cost too much.
#[derive(Clone, Copy, Debug)]
enum NodeValue<'a> {
    Object(&'a Object),
    Value(&'a Value),
}

/// The way from the root; shared by all that stands below.
#[derive(Clone, Debug, Default)]
pub struct Path<'a>(Option<Rc<Step<'a>>>);

#[derive(Debug)]
struct Step<'a> {
    parent: Path<'a>,
    name: Name<'a>,
}

#[derive(Debug)]
enum Name<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// `path.name`
    pub fn field(&self, name: &'a str) -> Self {
        self.step(Name::Field(name))
    }

    /// `path[index]`
    pub fn index(&self, index: usize) -> Self {
        self.step(Name::Index(index))
    }

    /// `path[key]`
    pub fn key(&self, key: &'a str) -> Self {
        self.step(Name::Key(key))
    }

    fn step(&self, name: Name<'a>) -> Self {
        let parent = self.clone();
        Self(Some(Rc::new(Step { parent, name })))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(step) = &self.0 else {
            return Ok(());
        };
        step.parent.fmt(f)?;
        match step.name {
            Name::Field(name) if step.parent.0.is_none() => f.write_str(name),
            Name::Field(name) => write!(f, ".{name}"),
            Name::Index(index) => write!(f, "[{index}]"),
            Name::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl<'a> Node<'a> {
    /// The whole object.
    pub fn root(object: &'a Object) -> Self {
        Self {
            path: Path::default(),
            value: NodeValue::Object(object),
        }
    }

    /// The same value under another name.
    pub fn at(&self, path: Path<'a>) -> Self {
        Self {
            path,
            value: self.value,
        }
    }

    /// The member, which may be missing.
    pub fn get(&self, name: &'a str) -> Self {
        Self {
            path: self.path.field(name),
            value: NodeValue::Value(self.object().and_then(|of| of.get(name)).unwrap_or(&NULL)),
        }
    }

    /// The value of a map's key, which may be missing.
    pub fn entry(&self, key: &'a str) -> Self {
        Self {
            path: self.path.key(key),
            ..self.get(key)
        }
    }

    /// The elements of a list.
    pub fn items(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let path = self.path.clone();
        let items = self.list().iter().enumerate();
        items.map(move |(index, value)| Node {
            path: path.index(index),
            value: NodeValue::Value(value),
        })
    }

    /// The keys and values of a map.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Node<'a>)> + use<'a> {
        let path = self.path.clone();
        let entries = self.object().into_iter().flatten();
        entries.map(move |(key, value)| {
            let node = Node {
                path: path.key(key),
                value: NodeValue::Value(value),
            };
            (key.as_str(), node)
        })
    }

    /// The members, if it is an object.
    pub fn object(&self) -> Option<&'a Object> {
        match self.value {
            NodeValue::Object(object) => Some(object),
            NodeValue::Value(value) => value.as_object(),
        }
    }

    /// The elements; none if it is no list.
    pub fn list(&self) -> &'a [Value] {
        self.value().as_array().map_or(&[], Vec::as_slice)
    }

    /// The text; empty if there is none.
    pub fn text(&self) -> &'a str {
        self.value().as_str().unwrap_or_default()
    }

    /// The integer, if there is one.
    pub fn int(&self) -> Option<i64> {
        self.value().as_i64()
    }

    /// Whether it is there and true.
    pub fn is_true(&self) -> bool {
        self.value().as_bool() == Some(true)
    }

    /// Whether anything is there.
    pub fn is_set(&self) -> bool {
        match self.value {
            NodeValue::Object(_) => true,
            NodeValue::Value(value) => !value.is_null(),
        }
    }

    /// Whether nothing is there, or text, a list or a map without content.
    pub fn is_empty(&self) -> bool {
        match self.value {
            NodeValue::Object(object) => object.is_empty(),
            NodeValue::Value(Value::Null) => true,
            NodeValue::Value(Value::String(text)) => text.is_empty(),
            NodeValue::Value(Value::Array(list)) => list.is_empty(),
            NodeValue::Value(Value::Object(map)) => map.is_empty(),
            NodeValue::Value(_) => false,
        }
    }

    /// The value; the root has none.
    pub fn value(&self) -> &'a Value {
        match self.value {
            NodeValue::Object(_) => &NULL,
            NodeValue::Value(value) => value,
        }
    }

    /// Whether both hold the same. Absent and empty lists or maps do not differ, because
    /// they do not in Go's semantic equality.
    pub fn same(&self, other: &Node<'_>) -> bool {
        same(self.value(), other.value())
    }

    /// It must be there.
    pub fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.to_string(), detail)
    }

    /// It must not be there, or not change.
    pub fn forbidden(&self, detail: &str) -> FieldError {
        FieldError::forbidden(self.path.to_string(), detail)
    }

    /// Its value is wrong.
    pub fn invalid(&self, detail: &str) -> FieldError {
        FieldError::invalid(self.path.to_string(), self.value(), detail)
    }

    /// Its text is wrong; none is printed as empty text.
    pub fn invalid_text(&self, detail: &str) -> FieldError {
        FieldError::invalid_text(self.path.to_string(), self.text(), detail)
    }

    /// Its integer is wrong; none is printed as zero.
    pub fn invalid_int(&self, detail: &str) -> FieldError {
        let value = Value::from(self.int().unwrap_or_default());
        FieldError::invalid(self.path.to_string(), &value, detail)
    }

    /// Another value belongs there than this one.
    pub fn invalid_as(&self, value: &Value, detail: &str) -> FieldError {
        FieldError::invalid(self.path.to_string(), value, detail)
    }

    /// Its text is none of these.
    pub fn not_supported(&self, supported: &[&str]) -> FieldError {
        let text = Value::from(self.text());
        FieldError::not_supported(self.path.to_string(), &text, supported)
    }

    /// It was there before.
    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.to_string(), self.value())
    }

    /// It names what does not exist.
    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path.to_string(), self.value())
    }

    /// It has too many bytes.
    pub fn too_long(&self, limit: usize) -> FieldError {
        FieldError::too_long(self.path.to_string(), limit)
    }

    /// It has too many items.
    pub fn too_many(&self, limit: usize) -> FieldError {
        FieldError::too_many(self.path.to_string(), self.list().len(), limit)
    }
}

/// Whether both are the same to Go's semantic equality.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let within = |a: &Object, b: &Object| {
                a.iter()
                    .all(|(key, value)| same(value, b.get(key).unwrap_or(&NULL)))
            };
            within(a, b)
                && b.iter()
                    .all(|(key, value)| a.contains_key(key) || is_blank(value))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Null, other) | (other, Value::Null) => is_blank(other),
        (a, b) => a == b,
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
