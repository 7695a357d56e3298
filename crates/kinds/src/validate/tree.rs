//! A value and its path, so that every error names its field.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use serde_json::Value;

use crate::{FieldError, Object, quantity};

/// The changed fields that an error names.
const MAX_NAMED: usize = 10;

/// The value of absent fields.
static NULL: Value = Value::Null;

/// A path in an object and the value there, [`Value::Null`] if there is none.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The path.
    pub path: Path<'a>,
    value: NodeValue<'a>,
}

/// The root is not a [`Value`], and copying it into one would be costly.
#[derive(Clone, Copy, Debug)]
enum NodeValue<'a> {
    Object(&'a Object),
    Value(&'a Value),
}

/// A path from the root. Validation asks for many members and needs few of their paths, so a path
/// of the usual length allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Path<'a> {
    /// The steps before these, if the path is long: shared by all paths that continue it.
    prefix: Option<Rc<Path<'a>>>,
    steps: [Step<'a>; INLINE_STEPS],
    length: usize,
}

/// The steps that need no allocation: those to an item of a list in the metadata or in the spec.
const INLINE_STEPS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl Default for Step<'_> {
    fn default() -> Self {
        Self::Index(0)
    }
}

impl<'a> Path<'a> {
    /// Returns `path.name`.
    pub fn field(&self, name: &'a str) -> Self {
        self.step(Step::Field(name))
    }

    /// Returns `path[index]`.
    pub fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    /// Returns `path[key]`.
    pub fn key(&self, key: &'a str) -> Self {
        self.step(Step::Key(key))
    }

    /// Whether quantities are written here: amounts of resources, sizes and divisors.
    fn is_quantity(&self) -> bool {
        let last = self.steps[..self.length].last();
        let before = match self.length {
            0 | 1 => self
                .prefix
                .as_ref()
                .and_then(|of| of.steps[..of.length].last()),
            length => self.steps.get(length - 2),
        };
        let named = |step: Option<&Step<'_>>, names: &[&str]| match step {
            Some(Step::Field(name)) => names.contains(name),
            _ => false,
        };
        named(last, &["sizeLimit", "divisor"]) || named(before, &["limits", "requests", "overhead"])
    }

    fn step(&self, step: Step<'a>) -> Self {
        let mut path = match self.length < INLINE_STEPS {
            true => self.clone(),
            false => Self {
                prefix: Some(Rc::new(self.clone())),
                ..Self::default()
            },
        };
        path.steps[path.length] = step;
        path.length += 1;
        path
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(prefix) = &self.prefix {
            prefix.fmt(f)?;
        }
        for (at, step) in self.steps[..self.length].iter().enumerate() {
            match step {
                Step::Field(name) if at == 0 && self.prefix.is_none() => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

impl<'a> Node<'a> {
    /// Returns the root node of an object.
    pub fn root(object: &'a Object) -> Self {
        Self {
            path: Path::default(),
            value: NodeValue::Object(object),
        }
    }

    /// Returns the same value at another path.
    pub fn at(&self, path: Path<'a>) -> Self {
        Self {
            path,
            value: self.value,
        }
    }

    /// Returns a member, which may be missing.
    pub fn get(&self, name: &'a str) -> Self {
        Self {
            path: self.path.field(name),
            value: NodeValue::Value(self.object().and_then(|of| of.get(name)).unwrap_or(&NULL)),
        }
    }

    /// Returns the value of a map key, which may be missing.
    pub fn entry(&self, key: &'a str) -> Self {
        Self {
            path: self.path.key(key),
            ..self.get(key)
        }
    }

    /// Iterates over the elements of a list.
    pub fn items(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let path = self.path.clone();
        let items = self.list().iter().enumerate();
        items.map(move |(index, value)| Node {
            path: path.index(index),
            value: NodeValue::Value(value),
        })
    }

    /// Iterates over the entries of a map.
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

    /// Returns the members, if the value is an object.
    pub fn object(&self) -> Option<&'a Object> {
        match self.value {
            NodeValue::Object(object) => Some(object),
            NodeValue::Value(value) => value.as_object(),
        }
    }

    /// Returns the elements; none if the value is not a list.
    pub fn list(&self) -> &'a [Value] {
        self.value().as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the string; empty if there is none.
    pub fn text(&self) -> &'a str {
        self.value().as_str().unwrap_or_default()
    }

    /// Returns the integer, if there is one.
    pub fn int(&self) -> Option<i64> {
        self.value().as_i64()
    }

    /// Whether the value is true.
    pub fn is_true(&self) -> bool {
        self.value().as_bool() == Some(true)
    }

    /// Whether the value is present.
    pub fn is_set(&self) -> bool {
        match self.value {
            NodeValue::Object(_) => true,
            NodeValue::Value(value) => !value.is_null(),
        }
    }

    /// Whether the value is absent, or an empty string, list or map.
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

    /// Returns the value; null for the root.
    pub fn value(&self) -> &'a Value {
        match self.value {
            NodeValue::Object(_) => &NULL,
            NodeValue::Value(value) => value,
        }
    }

    /// Whether both values are equal. Absent and empty lists or maps are equal, as in
    /// Go's semantic equality.
    pub fn same(&self, other: &Node<'_>) -> bool {
        same(self.value(), other.value())
    }

    /// Returns the error of a missing field.
    pub fn required(&self, detail: &str) -> FieldError {
        FieldError::required(self.path.to_string(), detail)
    }

    /// Returns the error of a field that must not be set or changed.
    pub fn forbidden(&self, detail: &str) -> FieldError {
        FieldError::forbidden(self.path.to_string(), detail)
    }

    /// Returns the error of a spec whose fields are immutable, but for some. Kubernetes appends a
    /// diff of Go's internal objects to the detail; here the changed fields are named.
    pub fn immutable(&self, detail: &str, changed: &[String]) -> FieldError {
        let named = changed.iter().take(MAX_NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match changed.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.forbidden(&format!("{detail}\nchanged: {named}{more}"))
    }

    /// Returns the error of an invalid value.
    pub fn invalid(&self, detail: &str) -> FieldError {
        FieldError::invalid(self.path.to_string(), self.value(), detail)
    }

    /// Returns the error of an invalid string; a missing one is printed as empty.
    pub fn invalid_text(&self, detail: &str) -> FieldError {
        FieldError::invalid_text(self.path.to_string(), self.text(), detail)
    }

    /// Returns the error of an invalid integer; a missing one is printed as zero.
    pub(super) fn invalid_int(&self, detail: &str) -> FieldError {
        let value = Value::from(self.int().unwrap_or_default());
        FieldError::invalid(self.path.to_string(), &value, detail)
    }

    /// Returns the error of an invalid value that is printed as `value`.
    pub fn invalid_as(&self, value: &Value, detail: &str) -> FieldError {
        FieldError::invalid(self.path.to_string(), value, detail)
    }

    /// Returns the error of an unsupported string.
    pub fn not_supported(&self, supported: &[&str]) -> FieldError {
        let text = Value::from(self.text());
        FieldError::not_supported(self.path.to_string(), &text, supported)
    }

    /// Returns the error of a duplicate value.
    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path.to_string(), self.value())
    }

    /// Returns the error of a reference to something that does not exist.
    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path.to_string(), self.value())
    }

    /// Returns the error of a value with too many bytes.
    pub fn too_long(&self, limit: usize) -> FieldError {
        FieldError::too_long(self.path.to_string(), limit)
    }

    /// Returns the error of a list with too many items.
    pub fn too_many(&self, limit: usize) -> FieldError {
        FieldError::too_many(self.path.to_string(), self.list().len(), limit)
    }
}

/// Whether two values are equal by Go's semantic equality.
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

/// Returns the paths of the fields in which two specs differ, in the order of their names. A
/// quantity in another notation is no difference.
pub fn differences(old: &Object, new: &Object) -> Vec<String> {
    let mut found = Vec::new();
    compare_members(&Path::default().field("spec"), old, new, &mut found);
    found
}

fn compare_members<'a>(path: &Path<'a>, old: &'a Object, new: &'a Object, found: &mut Vec<String>) {
    let names: BTreeSet<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
    for name in names {
        let of = |object: &'a Object| object.get(name).unwrap_or(&NULL);
        compare(&path.field(name), of(old), of(new), found);
    }
}

fn compare<'a>(path: &Path<'a>, old: &'a Value, new: &'a Value, found: &mut Vec<String>) {
    match (old, new) {
        _ if same(old, new) => {}
        (Value::Object(old), Value::Object(new)) => compare_members(path, old, new, found),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&path.index(index), old, new, found);
            }
        }
        _ if path.is_quantity() && quantity::is_same(Some(old), Some(new)) => {}
        _ => found.push(path.to_string()),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_fields_whose_values_differ() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let pod = |memory: &str, image: &str, more: Value| {
            let mut spec = object(json!({
                "containers": [{
                    "image": image,
                    "resources": {"requests": {"memory": memory}},
                    "env": [{"name": "1Gi"}],
                }],
                "overhead": {"memory": memory},
            }));
            spec.extend(object(more));
            spec
        };
        let old = pod("1Gi", "a", json!({"tolerations": []}));
        for (new, wanted) in [
            (pod("1073741824", "a", json!({})), vec![]),
            (
                pod("2Gi", "b", json!({})),
                vec![
                    "spec.containers[0].image",
                    "spec.containers[0].resources.requests.memory",
                    "spec.overhead.memory",
                ],
            ),
            (
                pod("1Gi", "a", json!({"nodeName": "n", "containers": []})),
                vec!["spec.containers", "spec.nodeName"],
            ),
        ] {
            assert_eq!(differences(&old, &new), wanted);
        }
        // Only quantities have notations.
        let mut new = old.clone();
        new["containers"][0]["env"][0]["name"] = "1073741824".into();
        assert_eq!(differences(&old, &new), ["spec.containers[0].env[0].name"]);
    }

    #[test]
    fn paths_of_any_length_are_written_as_kubernetes_writes_them() {
        let labels = Path::default().field("metadata").field("labels");
        assert_eq!(labels.key("a/b").to_string(), "metadata.labels[a/b]");
        let ports = Path::default()
            .field("spec")
            .field("containers")
            .index(0)
            .field("ports");
        let text = "spec.containers[0].ports";
        assert_eq!(ports.to_string(), text);
        let port = ports.index(2).field("protocol");
        assert_eq!(port.to_string(), format!("{text}[2].protocol"));
        let long = ["a", "b", "c", "d"]
            .iter()
            .fold(port, |path, name| path.field(name));
        assert_eq!(long.to_string(), format!("{text}[2].protocol.a.b.c.d"));
        assert_eq!(Path::default().to_string(), "");
    }
}
