//! Removal of fields from objects.

use insula_kinds::{Object, Value};

use super::item::Item;
use crate::schema::{Handling, List, ListRelation, Map, Ref};
use crate::set::Element;
use crate::{Schema, Set};

/// Removes fields from an object.
///
/// As in Kubernetes, a part that becomes empty remains as null, and so does an atomic part if a
/// field below it is named.
pub fn remove(schema: &Schema, object: &Object, fields: &Set) -> Object {
    let left = match schema.root().atom().map {
        Some(map) => remove_members(&map, object, fields),
        None => None,
    };
    left.unwrap_or_default()
}

fn remove_below(of: Ref<'_>, value: &Value, fields: &Set) -> Value {
    let left = match (of.handling(value), value) {
        (Handling::Scalar(_), value) => Some(value.clone()),
        (Handling::Map(map), Value::Object(object)) => {
            remove_members(&map, object, fields).map(Value::Object)
        }
        (Handling::List(list), Value::Array(values)) => remove_elements(&list, values, fields),
        _ => None,
    };
    left.unwrap_or_default()
}

fn remove_members(map: &Map<'_>, object: &Object, fields: &Set) -> Option<Object> {
    if map.atomic {
        return None;
    }
    let mut left = Object::new();
    for (name, value) in object {
        let found = fields.at(|element| match element {
            Element::Field(other) => other.as_str().cmp(name.as_str()),
            _ => std::cmp::Ordering::Greater,
        });
        let value = match found {
            Some((true, _)) => continue,
            Some((false, below)) => remove_below(map.member(name), value, below),
            None => value.clone(),
        };
        left.insert(name.clone(), value);
    }
    (!left.is_empty()).then_some(left)
}

fn remove_elements(list: &List<'_>, values: &[Value], fields: &Set) -> Option<Value> {
    if matches!(list.relation, ListRelation::Atomic) {
        return None;
    }
    let mut left = Vec::with_capacity(values.len());
    for value in values {
        let item = Item::of(list, value).ok();
        let found = item.and_then(|item| fields.at(|element| item.cmp_element(element).reverse()));
        left.push(match found {
            Some((true, _)) => continue,
            Some((false, below)) => remove_below(list.element, value, below),
            None => value.clone(),
        });
    }
    (!left.is_empty()).then_some(Value::Array(left))
}
