//! Lists that are sets or maps: nothing in them twice.

use std::collections::HashMap;

use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::path::{Path, Step, Style};
use super::print;
use crate::structural::{Additional, ListKind, Node, Schema};

/// Lists up to this length are compared item by item.
const SHORT: usize = 16;

/// What is in lists of an object more often than it may be.
pub(super) fn duplicates(schema: &Schema, object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    members(schema, schema.root(), object, &Path::ROOT, &mut errors);
    errors
}

fn members(
    schema: &Schema,
    node: &Node,
    object: &Object,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Additional::Each(id) = node.additional {
        let each = schema.node(id);
        for (name, member) in object {
            value(schema, each, member, &path.child(Step::Key(name)), errors);
        }
    }
    for (name, member) in object {
        if let Some(id) = node.property(name) {
            let place = path.child(Step::Property(name));
            value(schema, schema.node(id), member, &place, errors);
        }
    }
}

fn value(
    schema: &Schema,
    node: &Node,
    value_: &Value,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value_ {
        Value::Object(object) => members(schema, node, object, path, errors),
        Value::Array(items) => {
            match node.list {
                ListKind::Atomic => {}
                ListKind::Set => set(items, path, errors),
                ListKind::Map => map(node, items, path, errors),
            }
            if let Some(id) = node.items {
                let each = schema.node(id);
                for (index, item) in items.iter().enumerate() {
                    value(schema, each, item, &path.child(Step::Index(index)), errors);
                }
            }
        }
        _ => {}
    }
}

fn set(items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let unique = |index: usize| Identity(vec![items.get(index)]);
    for index in repeated(items.len(), unique) {
        let place = path.child(Step::Index(index)).print(Style::Field);
        let printed = print::value(&items[index]);
        errors.push(FieldError::duplicate_printed(place, &printed));
    }
}

fn map(node: &Node, items: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let is_entry = |item: &Value| item.is_object() || item.is_null();
    if let Some(index) = items.iter().position(|item| !is_entry(item)) {
        let place = path.child(Step::Index(index)).print(Style::Field);
        let printed = print::value(&items[index]);
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid_printed(place, &printed, detail));
        return;
    }
    let key = |index: usize| {
        let keys = node.keys.iter();
        Identity(keys.map(|key| items.get(index)?.get(&**key)).collect())
    };
    for index in repeated(items.len(), key) {
        let place = path.child(Step::Index(index)).print(Style::Field);
        let parts = node.keys.iter().zip(key(index).0);
        let parts = parts.filter_map(|(key, part)| Some((key.to_string(), part?.clone())));
        let printed = print::json(&Value::Object(parts.collect()));
        errors.push(FieldError::duplicate_printed(place, &printed));
    }
}

/// What makes an item the same as another; parts may be missing.
#[derive(PartialEq)]
struct Identity<'a>(Vec<Option<&'a Value>>);

impl Identity<'_> {
    fn print(&self) -> String {
        let parts = self.0.iter().map(|part| match part {
            None => "-".to_owned(),
            // Go tells the integer from the float by its type.
            Some(Value::Number(number)) if number.is_f64() => format!("f{number}"),
            Some(part) => print::json(part),
        });
        parts.collect::<Vec<_>>().join("\0")
    }
}

/// Which items are the second of their kind, in order.
fn repeated<'a>(length: usize, identity: impl Fn(usize) -> Identity<'a>) -> Vec<usize> {
    if length <= 1 {
        return Vec::new();
    }
    if length <= SHORT {
        let same = |index: &usize| {
            let own = identity(*index);
            (0..*index).filter(|other| identity(*other) == own).count() == 1
        };
        return (0..length).filter(same).collect();
    }
    let mut seen = HashMap::with_capacity(length);
    let mut second = Vec::new();
    for index in 0..length {
        let times = seen.entry(identity(index).print()).or_insert(0);
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second
}
