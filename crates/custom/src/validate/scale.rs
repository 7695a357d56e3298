//! What a scale shows must be a number that it can show.

use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::print;
use crate::validate::Scale;

/// What is wrong with how many are wanted.
pub(super) fn spec(scale: &Scale<'_>, object: &Object, errors: &mut Vec<FieldError>) {
    replicas(scale.spec, object, errors);
}

/// What is wrong with how many there are, and which.
pub(super) fn status(scale: &Scale<'_>, object: &Object, errors: &mut Vec<FieldError>) {
    replicas(scale.status, object, errors);
    if let Some(path) = scale.selector
        && let Err(fault) = find(path, object).and_then(|found| match found {
            None | Some(Value::String(_)) => Ok(()),
            Some(other) => Err(mismatch(path, other, "string")),
        })
    {
        errors.push(FieldError::invalid_text(path, "", &fault));
    }
}

fn replicas(path: &str, object: &Object, errors: &mut Vec<FieldError>) {
    let number = find(path, object).and_then(|found| match found {
        None => Ok(0),
        Some(value) => value.as_i64().ok_or_else(|| mismatch(path, value, "int64")),
    });
    let (number, fault) = match number {
        Err(fault) => (0, fault),
        Ok(number) if number < 0 => (number, "should be a non-negative integer".to_owned()),
        Ok(number) if number > i64::from(i32::MAX) => {
            let fault = format!("should be less than or equal to {}", i32::MAX);
            (number, fault)
        }
        Ok(_) => return,
    };
    errors.push(FieldError::invalid(path, &Value::from(number), &fault));
}

/// The value at a path; none if there is none.
fn find<'a>(path: &str, object: &'a Object) -> Result<Option<&'a Value>, String> {
    let names: Vec<_> = path.trim_start_matches('.').split('.').collect();
    let Some((last, above)) = names.split_last() else {
        return Ok(None);
    };
    let mut members = object;
    for (index, name) in above.iter().enumerate() {
        members = match members.get(*name) {
            None => return Ok(None),
            Some(Value::Object(members)) => members,
            Some(other) => {
                let path = format!(".{}", names[..=index].join("."));
                return Err(mismatch(&path, other, "map[string]interface {}"));
            }
        };
    }
    Ok(members.get(*last))
}

fn mismatch(path: &str, found: &Value, wanted: &str) -> String {
    let path = path.trim_start_matches('.');
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = match found {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => print::value(other),
    };
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}
