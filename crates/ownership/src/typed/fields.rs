//! The fields of an object.

use insula_kinds::{Object, Value};

use super::NotOfType;
use super::item::Item;
use crate::schema::{Handling, List, ListRelation, Map, Ref};
use crate::{Element, Schema, Set};

/// Returns the fields of an object.
pub fn fields(schema: &Schema, object: &Object) -> Result<Set, NotOfType> {
    match schema.root().atom().map {
        Some(map) if !map.atomic => Ok(of_map(&map, object)),
        _ => Ok(Set::default()),
    }
}

/// Adds every declared field that has some of the fields below it, so that removing all of them
/// removes it.
pub fn ensure_named(schema: &Schema, fields: &Set) -> Set {
    ensure(schema.root(), fields)
}

/// Returns whether a value is a field itself, and the fields below it.
fn of_value(of: Ref<'_>, value: &Value) -> (bool, Set) {
    match of.handling(value) {
        Handling::Scalar(_) => (true, Set::default()),
        Handling::Map(map) => match value {
            _ if map.atomic => (true, Set::default()),
            Value::Object(object) => (false, of_map(&map, object)),
            _ => (false, Set::default()),
        },
        Handling::List(list) => match (list.relation, value) {
            (ListRelation::Atomic, _) => (true, Set::default()),
            (_, Value::Array(values)) => (false, of_list(&list, values)),
            _ => (false, Set::default()),
        },
        Handling::Nothing => (false, Set::default()),
    }
}

fn of_map(map: &Map<'_>, object: &Object) -> Set {
    let mut set = Set::with_capacity(object.len());
    for (name, value) in object {
        let declared = map.declared(name);
        let (member, below) = of_value(declared.unwrap_or(map.element), value);
        let empty = match value {
            Value::Null => true,
            Value::Object(object) => object.is_empty(),
            _ => false,
        };
        let member = member || empty || declared.is_none();
        set.push(|| Element::Field(name.as_str().into()), member, below);
    }
    set
}

fn of_list(list: &List<'_>, values: &[Value]) -> Set {
    let item = |value| Some((Item::of(list, value).ok()?, value));
    let mut items: Vec<_> = values.iter().filter_map(item).collect();
    items.sort_by(|(one, _), (two, _)| one.cmp(two));
    let mut set = Set::with_capacity(items.len());
    for same in items.chunk_by(|(one, _), (two, _)| one.cmp(two).is_eq()) {
        let below = match same {
            [(_, value)] => of_value(list.element, value).1,
            // A path below is ambiguous between duplicates.
            _ => Set::default(),
        };
        set.push(|| same[0].0.element(), true, below);
    }
    set
}

fn ensure(of: Ref<'_>, fields: &Set) -> Set {
    let atom = of.atom();
    let mut set = Set::with_capacity(fields.entries().len());
    for (element, member, below) in fields.entries() {
        let declared = match (element, &atom.map) {
            (Element::Field(name), Some(map)) => map.declared(name),
            _ => None,
        };
        let of = match (element, &atom.map, &atom.list) {
            (Element::Field(_), Some(map), _) => declared.unwrap_or(map.element),
            (Element::Key(_), _, Some(list)) => list.element,
            _ => Ref::Nothing,
        };
        let below = match below.is_empty() {
            true => Set::default(),
            false => ensure(of, below),
        };
        let member = member || declared.is_some();
        set.push(|| element.clone(), member, below);
    }
    set
}
