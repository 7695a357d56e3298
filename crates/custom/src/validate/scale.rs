//! Validation of the fields behind the scale subresource.

use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::print;
use crate::validate::Scale;

/// Validates the desired replicas.
pub(super) fn spec(scale: &Scale<'_>, object: &Object, errors: &mut Vec<FieldError>) {
    replicas(scale.spec, object, errors);
}

/// Validates the observed replicas and the label selector.
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

/// The value at a path, if any.
fn find<'a>(path: &str, object: &'a Object) -> Result<Option<&'a Value>, String> {
    let names: Vec<_> = path.strip_prefix('.').unwrap_or(path).split('.').collect();
    let mut members = object;
    for (index, name) in names.iter().enumerate() {
        let Some(found) = members.get(*name) else {
            return Ok(None);
        };
        if index + 1 == names.len() {
            return Ok(Some(found));
        }
        members = match found {
            Value::Object(members) => members,
            Value::Null => return Ok(None),
            other => {
                let path = names[..index + 2].join(".");
                return Err(mismatch(&path, other, "map[string]interface{}"));
            }
        };
    }
    Ok(None)
}

fn mismatch(path: &str, found: &Value, wanted: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let shown = print::loosely(found);
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replicas_must_be_valid_for_a_scale() {
        let scale = Scale {
            spec: ".spec.replicas",
            status: ".status.replicas",
            selector: Some(".status.selector"),
        };
        for (object, expected) in [
            (json!({}), vec![]),
            (
                json!({"spec": {"replicas": 3}, "status": {"replicas": 0, "selector": "a"}}),
                vec![],
            ),
            (json!({"spec": null, "status": {}}), vec![]),
            (
                json!({"spec": {"replicas": -5}}),
                vec![".spec.replicas: Invalid value: -5: should be a non-negative integer"],
            ),
            (
                json!({"status": {"replicas": 2_147_483_648_u32}}),
                vec![
                    ".status.replicas: Invalid value: 2147483648: should be less than or equal \
                     to 2147483647",
                ],
            ),
            (
                json!({"spec": {"replicas": "x"}}),
                vec![
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of \
                     the type string, expected int64",
                ],
            ),
            (
                json!({"spec": [1, {"a": true}]}),
                vec![
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: \
                     [1 map[a:true]] is of the type []interface {}, expected \
                     map[string]interface{}",
                ],
            ),
            (
                json!({"status": {"selector": 5}}),
                vec![
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: 5 \
                     is of the type int64, expected string",
                ],
            ),
        ] {
            let object = object.as_object().expect("an object");
            let mut errors = Vec::new();
            spec(&scale, object, &mut errors);
            status(&scale, object, &mut errors);
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected);
        }
    }
}
