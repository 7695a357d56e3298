//! Admission policies and their bindings.

use super::row::Row;
use super::selector;
use crate::Value;

const UNSET: &str = "<unset>";

/// Prints a policy with its rules at the path.
pub(super) fn policy(row: &Row<'_>, rules: &str) -> Vec<Value> {
    let kind = row.at("spec.paramKind").if_exists();
    let kind = kind.map_or(UNSET.to_owned(), |kind| {
        let version = kind.get("apiVersion").text();
        format!("{version}/{}", kind.get("kind").text())
    });
    vec![row.name(), row.count(rules), Value::from(kind), row.age()]
}

pub(super) fn binding(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("spec.policyName"),
        Value::from(parameters(row)),
        row.age(),
    ]
}

fn parameters(row: &Row<'_>) -> String {
    let reference = row.at("spec.paramRef");
    let namespace = reference.get("namespace").text_or("*");
    match reference.get("name").text() {
        "" => {
            let selector = reference.get("selector").if_exists();
            selector.map_or(UNSET.to_owned(), selector::as_go)
        }
        name => format!("{namespace}/{name}"),
    }
}
