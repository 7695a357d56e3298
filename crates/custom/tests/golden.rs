//! Validation of objects compared with recorded responses of a real kube-apiserver.

use insula_custom::{Change, Schema};
use insula_kinds::{FieldError, Object, field};
use serde_json::{Value, json};

/// Rejected before schema validation, or for reasons outside of it.
const BEFORE_SCHEMAS: &[&str] = &["wrong kind", "wrong ver", "bad name", "meta bad"];

fn schema() -> Schema {
    let text = include_str!("data/golden-cr-schema.json");
    let json = serde_json::from_str(text).expect("the schema is JSON");
    Schema::compile(&json).expect("the schema compiles")
}

fn cases() -> Vec<Value> {
    let text = include_str!("data/golden-cr-validation.jsonl");
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("cases are JSON")
}

/// Runs the write path: returns unknown fields and errors.
fn write(schema: &Schema, body: &Value) -> (Vec<String>, Vec<FieldError>) {
    let mut object: Object = body.as_object().expect("an object").clone();
    let mut unknown = Vec::new();
    schema.prune(&mut object, &mut unknown);
    schema.fill(&mut object);
    let coerced = schema.coerce_embedded(&mut object, &mut unknown);
    coerced.expect("metadata is of the right types");
    let mut known = Vec::new();
    if body["metadata"]["name"].is_null() {
        let detail = "name or generateName is required";
        known.push(FieldError::required("metadata.name", detail));
    }
    let change = Change {
        known: &known,
        ..Change::create(&object)
    };
    (unknown, schema.validate(change).errors)
}

fn causes(errors: &[FieldError]) -> Value {
    let causes = errors.iter().map(|error| {
        let reason = error.error_type.reason();
        json!({"reason": reason, "message": error.body, "field": error.field})
    });
    causes.collect()
}

#[test]
fn objects_are_rejected_as_by_a_real_server() {
    let schema = schema();
    let mut checked = 0;
    for case in cases() {
        let label = case["label"].as_str().expect("a label");
        if BEFORE_SCHEMAS.contains(&label) {
            continue;
        }
        checked += 1;
        let (unknown, errors) = write(&schema, &case["body"]);
        let warnings: Vec<_> = unknown
            .iter()
            .map(|field| format!(r#"299 - "unknown field \"{field}\"""#))
            .collect();
        if label == "unknown strict" {
            assert_eq!(unknown, ["spec.req.k", "spec.zz"]);
            continue;
        }
        let told = case["warnings"].as_array().cloned().unwrap_or_default();
        assert_eq!(json!(warnings), Value::Array(told), "{label}");
        let Some(response) = case["response"].as_object() else {
            assert_eq!(errors, [], "{label}");
            continue;
        };
        let mut told = response["details"]["causes"].clone();
        let mut found = causes(&errors);
        if label == "multi" {
            // Go iterates over maps in random order.
            let by_field = |cause: &Value| cause["field"].to_string();
            for causes in [&mut told, &mut found] {
                causes.as_array_mut().expect("causes").sort_by_key(by_field);
            }
            assert_eq!(found, told, "{label}");
            continue;
        }
        assert_eq!(found, told, "{label}");
        let name = case["body"]["metadata"]["name"].as_str().unwrap_or("");
        let sentence = field::message(&errors);
        let message = format!("Foo.ex.io \"{name}\" is invalid: {sentence}");
        assert_eq!(json!(message), response["message"], "{label}");
    }
    assert_eq!(checked, 42);
}
