//! Uniqueness in lists of type `set` and `map`.

use std::collections::HashMap;

use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::path::{Path, Step, Style};
use super::print;
use crate::structural::{Additional, ListKind, Node, Schema};

/// Lists up to this length are compared pairwise.
const SHORT: usize = 16;

/// Finds duplicate items in the lists of an object.
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
    if !node.unique {
        return;
    }
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
    let identity = |index: usize| print(items.get(index));
    let same = |one: usize, other: usize| items.get(one) == items.get(other);
    for index in repeated(items.len(), same, identity) {
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
    let part = |index: usize, key: &str| items.get(index)?.get(key);
    let same = |one: usize, other: usize| {
        let mut keys = node.keys.iter();
        keys.all(|key| part(one, key) == part(other, key))
    };
    let identity = |index: usize| {
        let parts = node.keys.iter().map(|key| print(part(index, key)));
        parts.collect::<Vec<_>>().join("\0")
    };
    for index in repeated(items.len(), same, identity) {
        let place = path.child(Step::Index(index)).print(Style::Field);
        let parts = node.keys.iter();
        let parts = parts.filter_map(|key| Some((key.to_string(), part(index, key)?.clone())));
        let printed = print::json(&Value::Object(parts.collect()));
        errors.push(FieldError::duplicate_printed(place, &printed));
    }
}

/// The identity of a value, which may be missing.
fn print(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        // Go distinguishes integers from floats by type.
        Some(Value::Number(number)) if number.is_f64() => format!("f{number}"),
        Some(value) => print::json(value),
    }
}

/// The indexes of second occurrences, in order. Short lists are compared pairwise, which needs
/// no memory.
fn repeated(
    length: usize,
    same: impl Fn(usize, usize) -> bool,
    identity: impl Fn(usize) -> String,
) -> Vec<usize> {
    if length <= SHORT {
        let earlier = |index: usize| (0..index).filter(|other| same(*other, index)).count();
        return (1..length).filter(|index| earlier(*index) == 1).collect();
    }
    let mut seen = HashMap::with_capacity(length);
    let mut second = Vec::new();
    for index in 0..length {
        let times = seen.entry(identity(index)).or_insert(0);
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second
}
