//! Validation compared with recorded responses of a real kube-apiserver, word for word.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_admission::validate;
use insula_kinds::{Kind, Object, Value, defaults, kinds};
use serde_json::json;

#[test]
fn webhook_configurations_are_validated_as_in_kubernetes() {
    replay(include_str!("data/golden-webhookconfig.jsonl"), 15);
}

#[test]
fn policies_and_bindings_are_validated_as_in_kubernetes() {
    replay(include_str!("data/golden-vap.jsonl"), 22);
}

#[test]
fn variations_of_valid_configurations_are_validated_as_in_kubernetes() {
    let lines = |text: &'static str| {
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.collect::<Vec<_>>()
    };
    let bases = lines(include_str!("data/bases.jsonl"));
    for row in lines(include_str!("data/create.jsonl")) {
        let base = bases.iter().find(|base| base["name"] == row["of"]).unwrap();
        let mut changed = base["object"].clone();
        for (pointer, value) in row["set"].as_object().unwrap() {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let parent = changed.pointer_mut(parent).unwrap();
            match (parent, value) {
                (Value::Object(members), Value::Null) => drop(members.remove(name)),
                (Value::Array(list), value) => list[name.parse::<usize>().unwrap()] = value.clone(),
                (parent, value) => parent[name] = value.clone(),
            }
        }
        let object = changed.as_object().unwrap();
        let result = validate::create(kind_of(object), object);
        let said: Value = result.errors.iter().map(ToString::to_string).collect();
        assert_eq!(said, row["says"], "{} {}", row["of"], row["set"]);
    }
}

fn replay(golden: &str, cases: usize) {
    let mut seen = 0;
    for line in golden.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let label = case["label"].as_str().unwrap();
        seen += 1;
        let (code, response) = create(case["body"].as_object().unwrap());
        assert_eq!(code, case["code"], "{label}: {response:#}");
        assert_eq!(response, case["response"], "{label}");
        assert_eq!(case["warnings"], Value::Null, "{label}");
    }
    assert_eq!(seen, cases);
}

fn create(body: &Object) -> (u16, Value) {
    let kind = kind_of(body);
    let mut object = body.clone();
    defaults::apply(kind, &mut object);
    let result = validate::create(kind, &object);
    assert_eq!(result.warnings, Vec::<String>::new());
    if result.errors.is_empty() {
        return (201, Value::Null);
    }
    let name = object["metadata"]["name"].as_str().unwrap();
    let causes = result.errors.iter().map(|error| {
        json!({"reason": error.error_type.reason(), "message": error.body, "field": error.field})
    });
    let found = insula_kinds::field::message(&result.errors);
    let response = json!({
        "reason": "Invalid",
        "message": format!("{} \"{name}\" is invalid: {found}", kind.qualified_kind()),
        "details": {
            "name": name,
            "group": kind.group,
            "kind": kind.kind,
            "causes": causes.collect::<Vec<_>>(),
        },
    });
    (422, response)
}

fn kind_of(body: &Object) -> &'static Kind {
    let (group, version) = body["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap();
    let kind = body["kind"].as_str().unwrap();
    kinds().get(kinds().find_by_kind(group, version, kind).unwrap())
}
