//! Objects are judged as Kubernetes judges them. The tables are in `data/validate`.

use insula_kinds::{Kind, Object, kinds, validate};
use serde_json::Value;

fn kind_of(object: &Object) -> &'static Kind {
    let text = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let found = kinds().of_kind(group, version, text("kind"));
    kinds().get(found.unwrap_or_else(|| panic!("no kind {}", text("kind"))))
}

fn lines(table: &str) -> impl Iterator<Item = Value> {
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

fn object(value: &Value) -> Object {
    value.as_object().expect("the table holds objects").clone()
}

#[test]
fn what_kubernetes_accepted_is_accepted() {
    for row in lines(include_str!("data/validate/stored.jsonl")) {
        let stored = object(&row["object"]);
        let errors = validate::create(kind_of(&stored), &stored);
        assert_eq!(errors, [], "{}", row["name"]);
        let errors = validate::update(kind_of(&stored), None, &stored, &stored);
        assert_eq!(errors, [], "{}", row["name"]);
    }
}
