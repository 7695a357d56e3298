//! Partial objects: the server and other writers fill in the remaining fields.

use serde_json::Value;

/// Returns whether all desired fields are present. Fields that are not desired may have any
/// value; an array is compared element by element.
///
/// The desired value is the operator's own, so the recursion is bounded.
pub fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let found = found.get(key).unwrap_or(&Value::Null);
            covers(found, wanted) || is_nothing(found) && is_nothing(wanted)
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            let mut pairs = found.iter().zip(wanted);
            found.len() == wanted.len() && pairs.all(|(found, wanted)| covers(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}

/// Merges the desired fields into the value that was found.
pub fn merge(over: &Value, wanted: &Value) -> Value {
    match (over, wanted) {
        (Value::Object(over), Value::Object(wanted)) => {
            let mut merged = over.clone();
            for (key, wanted) in wanted {
                let under = over.get(key).unwrap_or(&Value::Null);
                merged.insert(key.clone(), merge(under, wanted));
            }
            Value::Object(merged)
        }
        (Value::Array(over), Value::Array(wanted)) if over.len() == wanted.len() => {
            let pairs = over.iter().zip(wanted);
            Value::Array(pairs.map(|(over, wanted)| merge(over, wanted)).collect())
        }
        (_, wanted) => wanted.clone(),
    }
}

/// Returns whether servers treat the value as absent.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_desired_fields_are_compared() {
        for (found, wanted, covered) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({"b": 2}), json!({"a": 1}), false),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), true),
            (json!([{"a": 1, "b": 2}]), json!([{"a": 1}]), true),
            (json!([1, 2]), json!([1]), false),
            (json!([]), json!([1]), false),
            (json!({"a": "1"}), json!({"a": 1}), false),
            (json!({}), json!({"a": {}}), true),
            (json!({"a": [1]}), json!({"a": []}), false),
        ] {
            assert_eq!(covers(&found, &wanted), covered, "{found} {wanted}");
        }
    }

    #[test]
    fn merge_sets_desired_fields_and_keeps_the_rest() {
        for (found, wanted, merged) in [
            (
                json!({"a": 1, "b": 2}),
                json!({"a": 3}),
                json!({"a": 3, "b": 2}),
            ),
            (
                json!([{"a": 1, "b": 2}]),
                json!([{"a": 3}]),
                json!([{"a": 3, "b": 2}]),
            ),
            (json!([1, 2]), json!([3]), json!([3])),
            (
                json!({"a": 1}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
            ),
            (json!(null), json!({"a": 1}), json!({"a": 1})),
        ] {
            let over = merge(&found, &wanted);
            assert_eq!(over, merged);
            assert!(covers(&over, &wanted));
        }
    }
}
