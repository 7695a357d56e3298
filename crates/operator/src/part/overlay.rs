//! Objects of which we set a part: the server fills in the rest, and others may add to it.

use serde_json::Value;

/// Whether everything that is wanted is there. What is not mentioned may be anything; an
/// array is mentioned as a whole, and what its elements do not mention may be anything.
///
/// What is wanted is ours, so it is no deeper than we wrote it.
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

/// What was found, with everything that is wanted.
pub fn lay(over: &Value, wanted: &Value) -> Value {
    match (over, wanted) {
        (Value::Object(over), Value::Object(wanted)) => {
            let mut laid = over.clone();
            for (key, wanted) in wanted {
                let under = over.get(key).unwrap_or(&Value::Null);
                laid.insert(key.clone(), lay(under, wanted));
            }
            Value::Object(laid)
        }
        (Value::Array(over), Value::Array(wanted)) if over.len() == wanted.len() => {
            let pairs = over.iter().zip(wanted);
            Value::Array(pairs.map(|(over, wanted)| lay(over, wanted)).collect())
        }
        (_, wanted) => wanted.clone(),
    }
}

/// What servers do not tell from absence.
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
    fn only_what_is_mentioned_is_judged() {
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
    fn what_is_laid_over_covers_and_keeps_the_rest() {
        for (found, wanted, laid) in [
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
            let over = lay(&found, &wanted);
            assert_eq!(over, laid);
            assert!(covers(&over, &wanted));
        }
    }
}
