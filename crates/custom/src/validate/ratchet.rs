//! Ratcheting: correlates new values with old ones, because violations of unchanged values are
//! tolerated.

use std::collections::HashMap;

use insula_kinds::Object;
use serde_json::{Number, Value};

use crate::structural::{ListKind, Node, Schema, Type};

/// Lists up to this length are searched linearly; longer ones are indexed.
const SHORT: usize = 8;

/// Reports whether two values are equal according to the schema: lists of type `map` in any
/// order. Values without a schema never are, as in Kubernetes.
pub(super) fn same(schema: &Schema, node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => same_members(schema, node, new, old),
        (Value::Array(new), Value::Array(_)) if node.list == ListKind::Map => {
            same_map(schema, node, new, old)
        }
        (new, old) => new == old,
    }
}

/// Reports whether two objects are equal according to the schema.
pub(super) fn same_members(schema: &Schema, node: &Node, new: &Object, old: &Object) -> bool {
    new.len() == old.len()
        && new
            .iter()
            .all(|(name, new)| match (node.member(name), old.get(name)) {
                (Some(id), Some(old)) => same(schema, schema.node(id), new, old),
                _ => false,
            })
}

fn same_map(schema: &Schema, node: &Node, new: &[Value], old: &Value) -> bool {
    if old.as_array().map(Vec::len) != Some(new.len()) {
        return false;
    }
    let before = Items::of(node, Some(old));
    new.iter().all(|new| match (before.find(new), node.items) {
        (Some(old), Some(id)) => same(schema, schema.node(id), new, old),
        _ => false,
    })
}

/// The items of the old list by key; empty if the list has no keys.
pub(super) struct Items<'a> {
    node: &'a Node,
    items: &'a [Value],
    index: Option<HashMap<Key<'a>, &'a Value>>,
}

impl<'a> Items<'a> {
    /// The items of an old list at a node.
    pub fn of(node: &'a Node, old: Option<&'a Value>) -> Self {
        let keyed =
            node.list == ListKind::Map && node.kind == Some(Type::Array) && !node.keys.is_empty();
        let old = old.filter(|_| keyed).and_then(Value::as_array);
        let items = old.map_or(&[][..], Vec::as_slice);
        let index = (items.len() > SHORT).then(|| {
            let mut index = HashMap::with_capacity(items.len());
            for item in items {
                if let Some(key) = Key::of(node, item) {
                    index.entry(key).or_insert(item);
                }
            }
            index
        });
        Self { node, items, index }
    }

    /// The first old item with the same key.
    pub fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        let key = Key::of(self.node, item)?;
        match &self.index {
            Some(index) => index.get(&key).copied(),
            None => self
                .items
                .iter()
                .find(|old| Key::of(self.node, old).as_ref() == Some(&key)),
        }
    }
}

/// The values of an item's list-map keys.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a>(Vec<Scalar<'a>>);

#[derive(PartialEq, Eq, Hash)]
enum Scalar<'a> {
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(&'a str),
}

impl<'a> Key<'a> {
    /// The key of an item; `None` if a part is missing or not a scalar.
    fn of(node: &Node, item: &'a Value) -> Option<Self> {
        let item = item.as_object()?;
        let parts = node.keys.iter().map(|key| Scalar::of(item.get(&**key)?));
        parts.collect::<Option<Vec<_>>>().map(Self)
    }
}

impl<'a> Scalar<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::of_number(number),
            Value::String(text) => Self::Text(text),
            _ => return None,
        })
    }

    fn of_number(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or_default().to_bits()),
        }
    }
}
