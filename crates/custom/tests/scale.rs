//! The scale subresource compared with Kubernetes.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_custom::scale::{ScaleError, ScalePaths};
use insula_kinds::{Object, Value};
use serde_json::json;

fn paths() -> ScalePaths {
    ScalePaths::new(&json!({
        "specReplicasPath": ".spec.size.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }))
    .unwrap()
}

fn object(value: Value) -> Object {
    serde_json::from_value(value).unwrap()
}

fn scale(replicas: i64) -> Object {
    object(json!({"spec": {"replicas": replicas}}))
}

#[test]
fn scale_has_replicas_selector_and_metadata() {
    let metadata = json!({
        "name": "a", "namespace": "d", "uid": "u", "resourceVersion": "7",
        "creationTimestamp": "2026-11-16T06:25:30Z", "labels": {"x": "y"}, "generation": 3,
    });
    let full = object(json!({
        "apiVersion": "ex.io/v1", "kind": "Cv", "metadata": metadata,
        "spec": {"size": {"replicas": 3}}, "status": {"replicas": 2, "selector": "app=x"},
    }));
    let wanted = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {
            "name": "a", "namespace": "d", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2026-11-16T06:25:30Z",
        },
        "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "app=x"},
    });
    assert_eq!(Value::Object(paths().get(&full).unwrap()), wanted);
    let bare = object(json!({"metadata": {"name": "a"}, "spec": {"size": {"replicas": 0}}}));
    let shown = paths().get(&bare).unwrap();
    assert_eq!(shown["spec"], json!({"replicas": 0}));
    assert_eq!(shown["status"], json!({"replicas": 0}));
}

#[test]
fn unreadable_scale_is_reported_in_kubernetes_wording() {
    let cases = [
        (
            json!({}),
            "the spec replicas field \".spec.size.replicas\" does not exist",
        ),
        (
            json!({"spec": {"size": null}}),
            "the spec replicas field \".spec.size.replicas\" does not exist",
        ),
        (
            json!({"spec": {"size": {"replicas": "x"}}}),
            ".spec.size.replicas accessor error: x is of the type string, expected int64",
        ),
        (
            json!({"spec": {"size": {"replicas": null}}}),
            ".spec.size.replicas accessor error: <nil> is of the type <nil>, expected int64",
        ),
        (
            json!({"spec": {"size": {"replicas": 1.5}}}),
            ".spec.size.replicas accessor error: 1.5 is of the type float64, expected int64",
        ),
        (
            json!({"spec": {"size": [1, "a"]}}),
            ".spec.size.replicas accessor error: [1 a] is of the type []interface {}, expected map[string]interface{}",
        ),
        (
            json!({"spec": 5}),
            ".spec.size accessor error: 5 is of the type int64, expected map[string]interface{}",
        ),
        (
            json!({"spec": {"size": {"replicas": 1}}, "status": {"replicas": true}}),
            ".status.replicas accessor error: true is of the type bool, expected int64",
        ),
        (
            json!({"spec": {"size": {"replicas": 1}}, "status": {"selector": {"a": "b"}}}),
            ".status.selector accessor error: map[a:b] is of the type map[string]interface {}, expected string",
        ),
    ];
    for (value, wanted) in cases {
        assert_eq!(paths().get(&object(value)).unwrap_err().to_string(), wanted);
    }
}

#[test]
fn scale_is_written_to_the_configured_path() {
    let mut empty = object(json!({"metadata": {"name": "a"}}));
    paths().put(&mut empty, &scale(4)).unwrap();
    assert_eq!(empty["spec"], json!({"size": {"replicas": 4}}));
    let mut full = object(json!({"spec": {"size": {"replicas": 1, "other": true}}}));
    paths().put(&mut full, &scale(-5)).unwrap();
    assert_eq!(
        full["spec"],
        json!({"size": {"replicas": -5, "other": true}})
    );
    // A Scale without a number requests zero, which Go omits.
    paths()
        .put(&mut full, &object(json!({"spec": {}})))
        .unwrap();
    assert_eq!(full["spec"]["size"]["replicas"], 0);
    let mut blocked = object(json!({"spec": {"size": "large"}}));
    let refused = paths().put(&mut blocked, &scale(1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "value cannot be set because .spec.size is not a map[string]interface{}"
    );
}

#[test]
fn patch_without_replicas_is_rejected_if_unset() {
    let mut bare = object(json!({"metadata": {"name": "a"}}));
    let current = paths().current(&bare).unwrap();
    let refused = paths().put(&mut bare, &current).unwrap_err();
    let path = ".spec.size.replicas".to_owned();
    assert_eq!(refused, ScaleError::Empty { path });
    assert_eq!(
        refused.to_string(),
        "the spec replicas field \".spec.size.replicas\" cannot be empty"
    );
    let set = object(json!({"spec": {"size": {"replicas": 2}}}));
    assert_eq!(
        paths().current(&set).unwrap()["spec"],
        json!({"replicas": 2})
    );
}

#[test]
fn invalid_replica_counts_are_rejected_on_every_write() {
    let of = |replicas: Value| {
        object(
            json!({"spec": {"size": {"replicas": replicas}}, "status": {"replicas": replicas, "selector": 1}}),
        )
    };
    let wrong = |replicas: Value| {
        paths()
            .check_spec(&of(replicas))
            .map(|error| error.to_string())
    };
    assert_eq!(wrong(json!(0)), None);
    assert_eq!(wrong(json!(i32::MAX)), None);
    assert_eq!(
        wrong(json!(-5)).unwrap(),
        ".spec.size.replicas: Invalid value: -5: should be a non-negative integer"
    );
    assert_eq!(
        wrong(json!(2_147_483_648_i64)).unwrap(),
        ".spec.size.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"
    );
    assert_eq!(
        wrong(json!("a")).unwrap(),
        ".spec.size.replicas: Invalid value: 0: .spec.size.replicas accessor error: a is of the type string, expected int64"
    );
    assert_eq!(paths().check_spec(&Object::new()), None);
    let status: Vec<_> = paths()
        .check_status(&of(json!(-1)))
        .iter()
        .map(ToString::to_string)
        .collect();
    let wanted = [
        ".status.replicas: Invalid value: -1: should be a non-negative integer",
        ".status.selector: Invalid value: \"\": .status.selector accessor error: 1 is of the type int64, expected string",
    ];
    assert_eq!(status, wanted);
}
