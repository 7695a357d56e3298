//! Merge patches (RFC 7386).

use serde_json::Value;

use super::{PatchError, json_type};
use crate::Object;
use crate::decode::document::{Document, read};

/// Applies a merge patch. Returns warnings about duplicate members.
///
/// # Errors
///
/// If the patch is not a JSON object.
pub fn merge(document: &mut Value, patch: &[u8]) -> Result<Vec<String>, PatchError> {
    let bad = |why| PatchError::BadRequest(format!("error decoding patch: {why}"));
    let Document { value, problems } = read(patch).map_err(bad)?;
    let patch = match value {
        Value::Object(patch) => patch,
        Value::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => {
            let found = json_type(&other);
            let wanted = "map[string]interface {}";
            return Err(bad(format!(
                "json: cannot unmarshal {found} into Go value of type {wanted}"
            )));
        }
    };
    match document {
        Value::Object(document) => merge_members(document, patch),
        other => *other = pruned(Value::Object(patch)),
    }
    Ok(problems)
}

fn merge_members(document: &mut Object, patch: Object) {
    for (name, value) in patch {
        match (document.get_mut(&name), value) {
            (_, Value::Null) => {
                document.remove(&name);
            }
            (Some(Value::Object(inner)), Value::Object(patch)) => merge_members(inner, patch),
            // A value that replaces an object is taken verbatim.
            (Some(slot @ Value::Object(_)), value) => *slot = value,
            (_, value) => {
                document.insert(name, pruned(value));
            }
        }
    }
}

/// Returns the value without null members, also inside lists, as there is nothing for
/// them to delete.
fn pruned(mut value: Value) -> Value {
    prune(&mut value);
    value
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(prune);
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}
