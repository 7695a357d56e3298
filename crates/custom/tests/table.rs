//! Tables of custom objects compared with a real kube-apiserver.
//!
//! `data/columns.jsonl` has an object in its first line, and in each other line a column and
//! the cell that Kubernetes 1.36.4 returns.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_custom::path::Path;
use insula_custom::table::{self, cells, columns, definitions};
use insula_kinds::print::decode_parts;
use insula_kinds::{Object, Value};
use serde_json::json;

const RECORDED: &str = include_str!("data/columns.jsonl");

/// The time of recording: 2026-11-16T06:30:00Z.
const NOW: i64 = 1_794_810_600;

fn object(value: Value) -> Object {
    serde_json::from_value(value).unwrap()
}

#[test]
fn every_cell_matches_a_real_server() {
    let mut lines = RECORDED.lines();
    let object: Object = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut checked = 0;
    for line in lines {
        let case: Value = serde_json::from_str(line).unwrap();
        let asked = json!([{"name": "C", "type": case["type"], "jsonPath": case["path"]}]);
        let columns = columns(&asked);
        if case["unreadable"] == true {
            assert!(columns.is_empty(), "{line}");
            assert!(Path::parse(case["path"].as_str().unwrap()).is_err());
        } else {
            let row = cells(&columns, &object, NOW);
            assert_eq!(row.len(), 2, "{line}");
            // The parts that the column names are enough for it.
            let text = Value::Object(object.clone()).to_string();
            let parts = decode_parts(text.as_bytes(), |name| table::row_part(&columns, name));
            assert_eq!(cells(&columns, &parts, NOW), row, "{line}");
            // Doubles may be formatted differently.
            let same = row[1] == case["cell"] || row[1].as_f64() == case["cell"].as_f64();
            assert!(
                same && row[1].is_null() == case["cell"].is_null(),
                "{line}: {}",
                row[1]
            );
        }
        checked += 1;
    }
    assert_eq!(checked, 215);
}

#[test]
fn default_column_is_the_age() {
    let foo =
        object(json!({"metadata": {"name": "a", "creationTimestamp": "2026-11-16T06:25:30Z"}}));
    for asked in [Value::Null, json!([])] {
        let columns = columns(&asked);
        let shown: Vec<_> = definitions(&columns)
            .into_iter()
            .map(|column| (column.name, column.kind, column.format))
            .collect();
        let shown: Vec<_> = shown
            .iter()
            .map(|(name, kind, format)| (name.as_str(), kind.as_str(), format.as_str()))
            .collect();
        assert_eq!(shown, [("Name", "string", "name"), ("Age", "date", "")]);
        assert_eq!(cells(&columns, &foo, NOW), [json!("a"), json!("4m30s")]);
    }
}

#[test]
fn requested_columns_replace_the_age() {
    let columns = columns(&json!([
        {"name": "Desired", "type": "integer", "jsonPath": ".spec.n", "priority": 1, "format": "int32"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "Where it is."},
    ]));
    let shown = definitions(&columns);
    assert_eq!(shown.len(), 3);
    assert_eq!(
        shown[1].description,
        "Custom resource definition column (in JSONPath format): .spec.n"
    );
    assert_eq!((shown[1].priority, shown[1].format.as_str()), (1, "int32"));
    assert_eq!(shown[2].description, "Where it is.");
    let foo = object(json!({"metadata": {"name": "a"}, "spec": {"n": 3}}));
    assert_eq!(
        cells(&columns, &foo, NOW),
        [json!("a"), json!(3), Value::Null]
    );
}

#[test]
fn invalid_path_ends_the_table() {
    let columns = columns(&json!([
        {"name": "A", "type": "string", "jsonPath": ".a"},
        {"name": "B", "type": "string", "jsonPath": ".b["},
        {"name": "C", "type": "string", "jsonPath": ".c"},
    ]));
    let names: Vec<_> = columns
        .iter()
        .map(|column| &column.definition.name)
        .collect();
    assert_eq!(names, ["A"]);
}

#[test]
fn scale_table_shows_desired_and_available_replicas() {
    let scale = object(json!({
        "metadata": {"name": "a", "creationTimestamp": "2026-11-16T06:30:00Z"},
        "spec": {"replicas": 3}, "status": {"replicas": 2},
    }));
    let columns = table::scale_columns();
    let names: Vec<_> = definitions(&columns)
        .into_iter()
        .map(|column| column.name)
        .collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(
        cells(&columns, &scale, NOW),
        [json!("a"), json!(3), json!(2), json!("0s")]
    );
}
