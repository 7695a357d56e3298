//! Access to the fields of an object with the semantics of Go: an absent field is zero.

use serde_json::Value;

use crate::Object;

/// Whether the value is Go's zero value: null, false, 0 or empty.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whether the field is unset. Zero counts as set if Go holds a pointer.
pub(crate) fn is_unset(object: &Object, json: &str, pointer: bool) -> bool {
    match object.get(json) {
        None | Some(Value::Null) => true,
        Some(value) => !pointer && is_zero(value),
    }
}

/// Whether the field is absent or zero.
pub(crate) fn is_empty(object: &Object, json: &str) -> bool {
    object.get(json).is_none_or(is_zero)
}

/// Whether the field is present, even if it is zero.
pub(crate) fn is_present(object: &Object, json: &str) -> bool {
    !is_unset(object, json, true)
}

/// Sets a field that is absent.
pub(crate) fn fill(object: &mut Object, json: &str, value: impl Into<Value>) {
    if !is_present(object, json) {
        object.insert(json.to_owned(), value.into());
    }
}

/// Sets a field that is absent or zero.
pub(crate) fn fill_empty(object: &mut Object, json: &str, value: impl Into<Value>) {
    if is_empty(object, json) {
        object.insert(json.to_owned(), value.into());
    }
}

/// Returns the string in a field, empty if there is none.
pub(crate) fn text<'a>(object: &'a Object, json: &str) -> &'a str {
    object.get(json).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the integer in a field, 0 if there is none.
pub(crate) fn number(object: &Object, json: &str) -> i64 {
    object.get(json).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the boolean in a field, false if there is none.
pub(crate) fn boolean(object: &Object, json: &str) -> bool {
    object
        .get(json)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

/// Returns the object in a field.
pub(crate) fn child<'a>(object: &'a Object, json: &str) -> Option<&'a Object> {
    object.get(json).and_then(Value::as_object)
}

/// Returns the object in a field; creates it if there is none.
pub(crate) fn child_mut<'a>(object: &'a mut Object, json: &str) -> &'a mut Object {
    // The entry of a map needs a name of its own, which nearly always is there already.
    if !object.get(json).is_some_and(Value::is_object) {
        object.insert(json.to_owned(), Value::Object(Object::new()));
    }
    match object.get_mut(json) {
        Some(Value::Object(child)) => child,
        _ => unreachable!("the object was inserted"),
    }
}

/// Returns the object in a field mutably, if there is one.
pub(crate) fn existing_mut<'a>(object: &'a mut Object, json: &str) -> Option<&'a mut Object> {
    object.get_mut(json).and_then(Value::as_object_mut)
}

/// Returns the elements of a list.
pub(crate) fn list<'a>(object: &'a Object, json: &str) -> &'a [Value] {
    object
        .get(json)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Iterates over the objects in a list.
pub(crate) fn items<'a>(object: &'a Object, json: &str) -> impl Iterator<Item = &'a Object> {
    list(object, json).iter().filter_map(Value::as_object)
}

/// Iterates mutably over the objects in a list.
pub(crate) fn items_mut<'a>(
    object: &'a mut Object,
    json: &str,
) -> impl Iterator<Item = &'a mut Object> {
    let items = object.get_mut(json).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Copies a field from one object to another, or removes it if it is absent.
pub(crate) fn copy(from: &Object, to: &mut Object, json: &str) {
    match (from.get(json), to.get_mut(json)) {
        (Some(value), Some(copy)) if value == copy => {}
        (Some(value), Some(copy)) => *copy = value.clone(),
        (Some(value), None) => {
            to.insert(json.to_owned(), value.clone());
        }
        (None, _) => {
            to.remove(json);
        }
    }
}

/// Appends a string to a list unless the list contains it.
pub(crate) fn push_unique(object: &mut Object, json: &str, text: &str) {
    let value = object.entry(json).or_insert(Value::Null);
    match value {
        Value::Array(items) if items.iter().any(|item| item == text) => {}
        Value::Array(items) => items.push(Value::from(text)),
        other => *other = Value::from(vec![text]),
    }
}

/// Copies one field to another unless it is zero.
pub(crate) fn copy_if_set(object: &mut Object, from: &str, to: &str) {
    if let Some(value) = object.get(from).filter(|value| !is_zero(value)).cloned() {
        object.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zero_counts_as_set_only_for_pointers() {
        let object = json!({"a": 0, "b": null});
        let object = object.as_object().unwrap();
        assert!(!is_unset(object, "a", true));
        assert!(is_unset(object, "a", false));
        assert!(is_unset(object, "b", true) && is_unset(object, "c", true));
    }
}
