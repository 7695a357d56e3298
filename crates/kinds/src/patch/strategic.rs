//! Strategic merge patches: merge patches that identify list elements by a merge key and
//! may carry directives.
//!
//! Directives that kubectl sends: `$patch` states what to do with the map or element that
//! contains it, `$retainKeys` which members to keep, `$setElementOrder/x` the order of
//! the elements of `x`, `$deleteFromPrimitiveList/x` the values to remove from `x`.

mod lists;
mod order;

use std::collections::HashSet;

use serde_json::Value;

use super::{PatchError, json_type};
use crate::Object;
use crate::decode::document::{Document, read};
use crate::go::{PrintedMap, as_text, type_name};
use crate::types::{Field, Shape, TypeId, types};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of the type. Returns warnings about
/// duplicate members.
///
/// # Errors
///
/// If the patch is malformed or does not fit the type.
pub fn strategic(
    of: TypeId,
    document: &mut Object,
    patch: &[u8],
) -> Result<Vec<String>, PatchError> {
    let Document { value, problems } = read(patch).map_err(PatchError::BadRequest)?;
    let patch = match value {
        Value::Object(patch) => patch,
        Value::Null => Object::new(),
        other => {
            let found = json_type(&other);
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
    };
    merge_map(document, patch, Schema::Struct(of))?;
    Ok(problems)
}

/// The schema of a map.
#[derive(Clone, Copy)]
enum Schema {
    /// A struct.
    Struct(TypeId),
    /// A map or any JSON: lists in it are replaced.
    Any,
}

/// The schema of a list.
#[derive(Clone, Copy)]
struct ListSchema {
    merge: bool,
    key: Option<&'static str>,
    element: Schema,
    /// The Go kind of its elements.
    element_kind: &'static str,
}

impl Schema {
    fn of_struct_in(self, name: &str) -> Result<Self, PatchError> {
        Ok(match self.field(name)?.map(|field| &field.shape) {
            Some(Shape::Struct(id)) => Self::Struct(*id),
            _ => Self::Any,
        })
    }

    fn of_list_in(self, name: &str) -> Result<ListSchema, PatchError> {
        let Some(field) = self.field(name)? else {
            return Ok(ListSchema {
                merge: false,
                key: None,
                element: Self::Any,
                element_kind: "interface",
            });
        };
        let (Shape::List(shape) | Shape::WrappedList(shape)) = &field.shape else {
            return Err(internal("expected slice or array type, but got: struct"));
        };
        let (element, element_kind) = match &**shape {
            Shape::Struct(id) => (Self::Struct(*id), "struct"),
            Shape::String => (Self::Any, "string"),
            _ => (Self::Any, "struct"),
        };
        Ok(ListSchema {
            merge: field.merge,
            key: field.merge_key,
            element,
            element_kind,
        })
    }

    fn field(self, name: &str) -> Result<Option<&'static Field>, PatchError> {
        let Self::Struct(id) = self else {
            return Ok(None);
        };
        let field = types().member(id, name).map(Some);
        field.ok_or_else(|| {
            let of = types().get(id).kind();
            internal(format!(
                "unable to find api field in struct {of} for the json field \"{name}\""
            ))
        })
    }
}

fn merge_map(document: &mut Object, mut patch: Object, schema: Schema) -> Result<(), PatchError> {
    if let Some(directive) = patch.get(PATCH) {
        *document = replacement(directive.clone(), patch)?;
        return Ok(());
    }
    retain_keys(document, &mut patch)?;
    lists::merge_ordered(document, &mut patch, schema)?;
    for (name, value) in patch {
        match list_to_delete_from(&name)? {
            Some(list) => merge_member(document, list, value, schema, true)?,
            None => merge_member(document, &name, value, schema, false)?,
        }
    }
    Ok(())
}

/// Returns the replacement of a map by a patch with a `$patch` directive.
fn replacement(directive: Value, mut patch: Object) -> Result<Object, PatchError> {
    match directive.as_str() {
        Some("replace") => {
            patch.remove(PATCH);
            Ok(patch)
        }
        Some("delete") => Ok(Object::new()),
        _ => Err(unknown_directive(&directive, &patch)),
    }
}

fn merge_member(
    document: &mut Object,
    name: &str,
    value: Value,
    schema: Schema,
    delete: bool,
) -> Result<(), PatchError> {
    match (document.get_mut(name), value) {
        (_, Value::Null) => {
            document.remove(name);
        }
        (Some(Value::Object(inner)), Value::Object(patch)) => {
            merge_map(inner, patch, schema.of_struct_in(name)?)?;
        }
        (Some(Value::Array(list)), Value::Array(patch)) => {
            let of = schema.of_list_in(name)?;
            if of.merge || delete {
                lists::merge(list, patch, of, delete)?;
            } else {
                *list = patch;
            }
        }
        (_, _) if delete => {}
        (_, mut value) => {
            // The member is absent, so null and directives have nothing to act on.
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => document.insert(name.to_owned(), value),
                None => document.remove(name),
            };
        }
    }
    Ok(())
}

/// Removes members that are not in `$retainKeys`.
fn retain_keys(document: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let keys = keys.as_array().ok_or_else(bad)?;
    let keys: HashSet<_> = keys.iter().filter_map(Value::as_str).collect();
    let listed = |(name, value): (&String, &Value)| {
        value.is_null()
            || name.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            || name.starts_with(SET_ELEMENT_ORDER)
            || keys.contains(name.as_str())
    };
    if !patch.iter().all(listed) {
        return Err(bad());
    }
    document.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

fn list_to_delete_from(name: &str) -> Result<Option<&str>, PatchError> {
    if !name.starts_with(DELETE_FROM_PRIMITIVE_LIST) {
        return Ok(None);
    }
    match name.split_once('/') {
        Some((DELETE_FROM_PRIMITIVE_LIST, list)) => Ok(Some(list)),
        _ => Err(PatchError::BadRequest(
            "invalid patch format of primitive list".to_owned(),
        )),
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(discard_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Returns the value without maps that have a directive; none if the value itself has
/// one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(PATCH) => None,
        Value::Object(object) => Some(Value::Object(
            object
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)))
                .collect(),
        )),
        Value::Array(list) => Some(Value::Array(
            list.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

fn unknown_directive(directive: &Value, patch: &Object) -> PatchError {
    let (directive, patch) = (as_text(directive), PrintedMap(patch));
    internal(format!("unknown patch type: {directive} in map: {patch}"))
}

fn no_merge_key(element: &Object, key: &str) -> PatchError {
    let element = PrintedMap(element);
    internal(format!(
        "map: {element} does not contain declared merge key: {key}"
    ))
}

fn wrong_type(wanted: &str, found: &Value) -> PatchError {
    let found = type_name(found);
    internal(format!("expected a {wanted}, but received a {found}"))
}

fn internal(message: impl Into<String>) -> PatchError {
    PatchError::Internal(message.into())
}
