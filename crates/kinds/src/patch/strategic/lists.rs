//! Merging of list elements.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::order::{ElementKey, Order, element_key, ordered};
use super::{
    ListSchema, PATCH, SET_ELEMENT_ORDER, Schema, internal, merge_map, no_merge_key,
    unknown_directive, without_directives, wrong_type,
};
use crate::Object;
use crate::go::{PrintedList, type_name};
use crate::patch::PatchError;

const LIST: &str = "[]interface {}";
const MAP: &str = "map[string]interface {}";

/// Merges the lists with a `$setElementOrder` directive and removes both from the patch.
pub(super) fn merge_ordered(
    document: &mut Object,
    patch: &mut Object,
    schema: Schema,
) -> Result<(), PatchError> {
    let directives: Vec<_> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(wrong_type(LIST, &other.unwrap_or_default())),
        };
        let Some((SET_ELEMENT_ORDER, name)) = directive.split_once('/') else {
            return Err(PatchError::BadRequest(
                "invalid patch format of setElementOrder list".to_owned(),
            ));
        };
        let live = document.remove(name).map(list).transpose()?;
        let patched = patch.remove(name).map(list).transpose()?;
        if let Some(merged) = set_order(live, patched, order, schema.of_list_in(name)?)? {
            document.insert(name.to_owned(), Value::Array(merged));
        }
    }
    Ok(())
}

fn set_order(
    live: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: Vec<Value>,
    of: ListSchema,
) -> Result<Option<Vec<Value>>, PatchError> {
    let patch_list = patch.as_deref().unwrap_or_default();
    let live_list = live.as_deref().unwrap_or_default();
    in_order(patch_list, &order, of.key)?;
    if live.is_none() && patch.is_none() {
        return Ok(None);
    }
    let maps = elements_are_maps(live_list, patch_list)?;
    if of.key.is_some() && !maps {
        let first = live_list.first().or(patch_list.first());
        return Err(wrong_type(MAP, first.unwrap_or(&Value::Null)));
    }
    if let (None, Some(first)) = (of.key, live_list.first().or(patch_list.first()))
        && let Value::Object(first) = first
    {
        return Err(no_merge_key(first, ""));
    }
    let key = of.key;
    let live_order = match (of.merge && live.is_some(), key) {
        (true, Some(key)) => order_after_deletions(live_list, patch_list, key)?,
        _ => Order::of(live_list, key)?,
    };
    let merged = match (live, patch) {
        (Some(mut live), Some(patch)) if of.merge => {
            merge(&mut live, patch, of, false)?;
            live
        }
        (Some(_), Some(patch)) => patch,
        (Some(live), None) => live,
        (None, patch) => {
            let patch = patch.unwrap_or_default();
            patch.into_iter().filter_map(without_directives).collect()
        }
    };
    let order = Order::of(&order, key)?;
    ordered(merged, &order, &live_order, key).map(Some)
}

/// Returns the order of the live list after the merge. Kubernetes puts new elements at
/// the positions of deleted ones as long as there are any, and only those count as
/// elements of the live list.
fn order_after_deletions(
    live: &[Value],
    patch: &[Value],
    key: &'static str,
) -> Result<Order, PatchError> {
    let deleted = deletions(patch, key)?;
    let mut order = Order::of_all_except(live, Some(key), &deleted)?;
    let places = live
        .iter()
        .filter(|element| is_among(element, key, &deleted));
    let places = if replaces(patch) { 0 } else { places.count() };
    let new = patch.iter().filter(|element| element.get(PATCH).is_none());
    order.append(new, key, places)?;
    Ok(order)
}

/// Merges a patch into a list; with `delete`, removes the values of the patch from it.
pub(super) fn merge(
    live: &mut Vec<Value>,
    patch: Vec<Value>,
    of: ListSchema,
    delete: bool,
) -> Result<(), PatchError> {
    if live.is_empty() && patch.is_empty() {
        return Ok(());
    }
    if !elements_are_maps(live, &patch)? {
        return merge_scalars(live, patch, of, delete);
    }
    let Some(key) = of.key else {
        let kind = of.element_kind;
        return Err(internal(format!(
            "cannot merge lists without merge key for {kind}"
        )));
    };
    merge_maps(live, patch, key, of.element)
}

fn merge_scalars(
    live: &mut Vec<Value>,
    patch: Vec<Value>,
    of: ListSchema,
    delete: bool,
) -> Result<(), PatchError> {
    if delete {
        let gone: HashSet<_> = patch.iter().map(element_key).collect();
        live.retain(|value| !gone.contains(&element_key(value)));
        return Ok(());
    }
    if of.key.is_some() {
        let first = live.first().or(patch.first()).unwrap_or(&Value::Null);
        return Err(wrong_type(MAP, first));
    }
    let patch_order = Order::of(&patch, None)?;
    let live_order = Order::of(live, None)?;
    let mut seen = HashSet::new();
    let both = std::mem::take(live).into_iter().chain(patch);
    let merged = both
        .filter(|value| seen.insert(element_key(value)))
        .collect();
    *live = ordered(merged, &patch_order, &live_order, None)?;
    Ok(())
}

fn merge_maps(
    live: &mut Vec<Value>,
    patch: Vec<Value>,
    key: &'static str,
    element: Schema,
) -> Result<(), PatchError> {
    let deleted = deletions(&patch, key)?;
    let replace = replaces(&patch);
    let patch: Vec<_> = patch
        .into_iter()
        .filter(|element| element.get(PATCH).is_none())
        .collect();
    let (merged, patch_order, live_order) = if replace {
        let live_order = Order::of(&patch, Some(key))?;
        (patch, Order::default(), live_order)
    } else {
        live.retain(|element| !is_among(element, key, &deleted));
        let patch_order = Order::of(&patch, Some(key))?;
        let live_order = Order::of(live, Some(key))?;
        (
            merge_by_key(std::mem::take(live), patch, key, element)?,
            patch_order,
            live_order,
        )
    };
    *live = ordered(merged, &patch_order, &live_order, Some(key))?;
    Ok(())
}

fn merge_by_key(
    mut live: Vec<Value>,
    patch: Vec<Value>,
    key: &'static str,
    schema: Schema,
) -> Result<Vec<Value>, PatchError> {
    let mut places = HashMap::new();
    for (at, element) in live.iter().enumerate() {
        if let Some(value) = element.get(key) {
            places.entry(element_key(value)).or_insert(at);
        }
    }
    for element in patch {
        let Value::Object(element) = element else {
            continue;
        };
        let value = element
            .get(key)
            .ok_or_else(|| no_merge_key(&element, key))?;
        match places.entry(element_key(value)) {
            Entry::Occupied(place) => {
                if let Value::Object(live) = &mut live[*place.get()] {
                    merge_map(live, element, schema)?;
                }
            }
            Entry::Vacant(place) => {
                place.insert(live.len());
                live.push(Value::Object(element));
            }
        }
    }
    Ok(live)
}

/// Whether the patch replaces the whole list.
fn replaces(patch: &[Value]) -> bool {
    let directive = |element: &Value| element.get(PATCH).and_then(Value::as_str) == Some("replace");
    patch.iter().any(directive)
}

fn is_among(element: &Value, key: &str, keys: &HashSet<ElementKey>) -> bool {
    let key = element.get(key);
    key.is_some_and(|key| keys.contains(&element_key(key)))
}

/// Returns the keys of the elements that the patch deletes.
fn deletions(patch: &[Value], key: &str) -> Result<HashSet<ElementKey>, PatchError> {
    let mut deleted = HashSet::new();
    for element in patch.iter().filter_map(Value::as_object) {
        match element.get(PATCH) {
            None => {}
            Some(Value::String(directive)) if directive == "replace" => {}
            Some(Value::String(directive)) if directive == "delete" => {
                let value = element.get(key);
                deleted.insert(element_key(
                    value.ok_or_else(|| no_merge_key(element, key))?,
                ));
            }
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(internal(
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            Some(directive) => return Err(unknown_directive(directive, element)),
        }
    }
    Ok(deleted)
}

/// Checks that all elements of the patch occur in the stated order. Elements with a
/// directive need not occur in it, as long as the order continues after the preceding
/// element.
fn in_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    let mut elements = patch
        .iter()
        .filter(|element| !is_deletion(element))
        .peekable();
    let mut places = order;
    while let (Some(element), Some(place)) = (elements.peek(), places.first()) {
        if element.get(PATCH).is_some() {
            elements.next();
            continue;
        }
        if same(element, place, key)? {
            elements.next();
        }
        places = &places[1..];
    }
    if order.is_empty() || elements.peek().is_none() {
        return Ok(());
    }
    let (patch, order) = (PrintedList(patch), PrintedList(order));
    Err(internal(format!(
        "The order in patch list:\n{patch}\n doesn't match {SET_ELEMENT_ORDER} list:\n{order}\n"
    )))
}

fn is_deletion(element: &Value) -> bool {
    element.get(PATCH).and_then(Value::as_str) == Some("delete")
}

fn same(left: &Value, right: &Value, key: Option<&str>) -> Result<bool, PatchError> {
    let Some(key) = key else {
        return Ok(left == right);
    };
    Ok(key_of(left, key)? == key_of(right, key)?)
}

/// Returns the merge key of an element.
pub(super) fn key_of<'a>(element: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    let Value::Object(map) = element else {
        return Err(wrong_type(MAP, element));
    };
    map.get(key).ok_or_else(|| no_merge_key(map, key))
}

/// Whether the elements are maps; all must be of the same type.
fn elements_are_maps(live: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut elements = live.iter().chain(patch);
    let Some(first) = elements.next() else {
        return Err(internal("no elements in any of the given slices"));
    };
    if first.is_array() {
        // Lists of lists are not supported.
        return Err(PatchError::Unprocessable);
    }
    if first.is_null() || elements.any(|element| type_name(element) != type_name(first)) {
        let (live, patch) = (PrintedList(live), PrintedList(patch));
        return Err(internal(format!(
            "list element types are not identical: [{live} {patch}]"
        )));
    }
    Ok(first.is_object())
}

fn list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(list) => Ok(list),
        other => Err(wrong_type(LIST, &other)),
    }
}
