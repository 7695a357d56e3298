//! JSON patches (RFC 6902) between two objects.

use serde_json::{Map, Value, json};

/// Returns the operations that turn `before` into `after`. Lists that differ are replaced whole.
pub(super) fn between(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    add_operations(before, after, String::new(), &mut operations);
    operations
}

fn add_operations(before: &Value, after: &Value, path: String, operations: &mut Vec<Value>) {
    match (before, after) {
        (before, after) if before == after => {}
        (Value::Object(before), Value::Object(after)) => {
            add_member_operations(before, after, &path, operations);
        }
        (_, after) => operations.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

fn add_member_operations(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &str,
    operations: &mut Vec<Value>,
) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        operations.push(json!({"op": "remove", "path": join(path, name)}));
    }
    for (name, value) in after {
        let path = join(path, name);
        match before.get(name) {
            Some(old) => add_operations(old, value, path, operations),
            None => operations.push(json!({"op": "add", "path": path, "value": value})),
        }
    }
}

fn join(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_lists_only_what_differs() {
        for (before, after, expected) in [
            (json!({"a": 1}), json!({"a": 1}), json!([])),
            (
                json!({"a": 1, "b": {"c": 1, "d": 2}}),
                json!({"b": {"c": 3, "d": 2, "e": null}}),
                json!([
                    {"op": "remove", "path": "/a"},
                    {"op": "replace", "path": "/b/c", "value": 3},
                    {"op": "add", "path": "/b/e", "value": null},
                ]),
            ),
            (
                json!({"labels": {"example.com/a~b": "1"}, "list": [1, 2]}),
                json!({"labels": {"example.com/a~b": "2"}, "list": [1]}),
                json!([
                    {"op": "replace", "path": "/labels/example.com~1a~0b", "value": "2"},
                    {"op": "replace", "path": "/list", "value": [1]},
                ]),
            ),
        ] {
            assert_eq!(json!(between(&before, &after)), expected);
        }
    }
}
