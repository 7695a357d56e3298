//! Laws of the engine, on realistic objects.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use insula_kinds::{Object, Value, types};
use insula_ownership::{Schema, Set, typed};
use serde_json::json;

fn built_in(name: &str) -> Schema {
    Schema::built_in(types().find(name).unwrap())
}

fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}

fn problem(schema: &Schema, value: Value) -> String {
    let result = typed::check(schema, &object(value), false);
    result.err().map_or(String::new(), |problem| problem.0)
}

#[test]
fn schema_problems_are_reported_in_kubernetes_words() {
    let deployment = built_in("api.apps.v1.Deployment");
    let config_map = built_in("api.core.v1.ConfigMap");
    let pod = built_in("api.core.v1.Pod");
    let container = |name: &str| json!({"name": name, "image": "i"});
    for (schema, value, want) in [
        (
            &config_map,
            json!({"bogus": 1}),
            ".bogus: field not declared in schema",
        ),
        (
            &config_map,
            json!({"data": {"k": 5}}),
            ".data.k: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            &config_map,
            json!({"data": {"k": {"a": [1, "x", null, true, 1.5]}}}),
            ".data.k: expected string, got &value.valueUnstructured{Value:map[string]interface {}\
             {\"a\":[]interface {}{1, \"x\", interface {}(nil), true, 1.5}}}",
        ),
        (
            &config_map,
            json!({"data": []}),
            ".data: expected map, got &{[]}",
        ),
        (&config_map, json!({"data": null, "metadata": null}), ""),
        (
            &config_map,
            json!({"immutable": "yes"}),
            ".immutable: expected boolean, got &{yes}",
        ),
        (
            &config_map,
            json!({"data": {"a": 1, "b": true}}),
            "errors:\n  .data.a: expected string, got &value.valueUnstructured{Value:1}\
             \n  .data.b: expected string, got &value.valueUnstructured{Value:true}",
        ),
        (
            &deployment,
            json!({"spec": {"template": {"spec": {"containers": [container("c"), container("c")]}}}}),
            ".spec.template.spec.containers: duplicate entries for key [name=\"c\"]",
        ),
        (
            &deployment,
            json!({"spec": {"replicas": "three"}}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            &deployment,
            json!({"spec": {"template": {"kind": "Pod"}}}),
            ".spec.template.kind: field not declared in schema",
        ),
        (
            &pod,
            json!({"spec": {"containers": [{"name": "c", "bogus": 1}]}}),
            ".spec.containers[name=\"c\"].bogus: field not declared in schema",
        ),
        (
            &pod,
            json!({"spec": {"containers": [null]}}),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            &pod,
            json!({"metadata": {"finalizers": ["a", "a"]}}),
            ".metadata.finalizers: duplicate entries for key [=\"a\"]",
        ),
        (
            &pod,
            json!({"spec": {"tolerations": [{}, {"key": 1}]}}),
            ".spec.tolerations[1].key: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            &pod,
            json!({"spec": {"containers": [{"ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]}}),
            ".spec.containers[name=\"\"].ports: duplicate entries for key \
             [containerPort=80,protocol=\"TCP\"]",
        ),
    ] {
        assert_eq!(problem(schema, value), want);
    }
}

#[test]
fn duplicates_are_accepted_only_if_allowed() {
    let pod = built_in("api.core.v1.Pod");
    let pods = object(json!({"metadata": {"finalizers": ["a", "a"]}}));
    assert_eq!(typed::check(&pod, &pods, true), Ok(()));
    let fields = typed::fields(&pod, &pods).unwrap();
    assert_eq!(
        fields.text(),
        r#"{"f:metadata":{"f:finalizers":{"v:\"a\"":{}}}}"#
    );
}

#[test]
fn applied_elements_have_the_order_of_the_configuration_and_others_keep_their_places() {
    let pod = built_in("api.core.v1.Pod");
    let list = |names: &str| {
        let names: Vec<_> = names.split(' ').filter(|name| !name.is_empty()).collect();
        object(json!({"metadata": {"finalizers": names}}))
    };
    for (live, config, want) in [
        ("a b c", "d b", "a d b c"),
        ("a d b c", "c a b", "d c a b"),
        ("d c a b", "a x b c", "d a x b c"),
        ("a b", "", "a b"),
        ("", "b a", "b a"),
        ("a b a", "b", "a b a"),
        ("a b a", "a", "a b"),
        ("a b c d", "d c b a", "d c b a"),
    ] {
        let merged = typed::merge(&pod, &list(live), &list(config)).unwrap();
        assert_eq!(merged, list(want), "{live} + {config}");
    }
}

#[test]
fn an_atomic_value_is_one_field() {
    let deployment = built_in("api.apps.v1.Deployment");
    let live = object(json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"spec": {
                "containers": [{"name": "c", "args": ["x"], "ports": [{"containerPort": 80}]}],
                "nodeSelector": {"a": "b"},
                "tolerations": [{"key": "k"}],
                "securityContext": {}
            }}
        }
    }));
    assert_eq!(
        typed::fields(&deployment, &live).unwrap().text(),
        concat!(
            r#"{"f:metadata":{"f:annotations":{},"f:labels":{"f:a":{}}},"#,
            r#""f:spec":{"f:selector":{},"f:template":{"f:spec":{"#,
            r#""f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:args":{},"f:name":{},"#,
            r#""f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}},"#,
            r#""f:nodeSelector":{},"f:securityContext":{},"f:tolerations":{}}}}}"#
        )
    );
}

#[test]
fn a_reference_may_be_granular_where_its_type_is_atomic() {
    let volume = built_in("api.core.v1.PersistentVolume");
    let live = object(json!({"spec": {"claimRef": {"name": "c"}}}));
    assert_eq!(
        typed::fields(&volume, &live).unwrap().text(),
        r#"{"f:spec":{"f:claimRef":{"f:name":{}}}}"#
    );
}

#[test]
fn a_field_that_became_atomic_is_owned_as_a_whole() {
    let schema = |kind: &str| {
        Schema::custom(Some(&json!({"type": "object", "properties": {"spec": {
            "type": "object", "x-kubernetes-map-type": kind,
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}}
        }}})))
    };
    let fields = Set::parse(r#"{"f:spec":{"f:a":{},"f:b":{}}}"#).unwrap();
    assert_eq!(typed::reconcile(&schema("granular"), &fields), None);
    let whole = typed::reconcile(&schema("atomic"), &fields).unwrap();
    assert_eq!(whole.text(), r#"{"f:spec":{}}"#);
    assert_eq!(typed::reconcile(&schema("atomic"), &whole), None);
}

#[test]
fn without_a_schema_objects_are_granular_and_lists_are_not() {
    let schema = Schema::custom(None);
    let live = object(json!({"spec": {"a": {"b": [1, {"c": 2}]}, "d": null, "e": {}}}));
    assert_eq!(typed::check(&schema, &live, false), Ok(()));
    assert_eq!(
        typed::fields(&schema, &live).unwrap().text(),
        r#"{"f:spec":{".":{},"f:a":{".":{},"f:b":{}},"f:d":{},"f:e":{}}}"#
    );
}

#[test]
fn comparing_with_the_merge_result_shows_the_applied_fields() {
    let deployment = built_in("api.apps.v1.Deployment");
    let live = object(json!({"spec": {"replicas": 1, "template": {"spec": {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    }}}}));
    let config = object(json!({"spec": {"template": {"spec": {
        "containers": [{"name": "c"}, {"name": "a", "image": "2"}]
    }}}}));
    let merged = typed::merge(&deployment, &live, &config).unwrap();
    let changes = typed::compare(&deployment, &live, &merged).unwrap();
    let below = |name: &str, fields: &str| {
        format!(
            r#"{{"f:spec":{{"f:template":{{"f:spec":{{"f:containers":{{"k:{{\"name\":\"{name}\"}}":{fields}}}}}}}}}}}"#
        )
    };
    assert_eq!(changes.added.text(), below("c", r#"{".":{},"f:name":{}}"#));
    assert_eq!(changes.modified.text(), below("a", r#"{"f:image":{}}"#));
    assert!(changes.removed.is_empty());
    let back = typed::remove(&deployment, &merged, &changes.added);
    let same = typed::compare(&deployment, &live, &back).unwrap();
    assert_eq!(same.modified, changes.modified);
    assert!(same.added.is_empty() && same.removed.is_empty());
}

#[test]
fn hostile_schemas_and_values_do_not_panic() {
    // Deeper than decoders accept, but shallow enough to be dropped.
    let mut schema = json!({"type": "string"});
    let mut value = json!("x");
    for _ in 0..500 {
        schema = json!({"type": "object", "properties": {"a": schema}});
        value = json!({"a": value});
    }
    let schema = Schema::custom(Some(&schema));
    let value = object(value);
    assert_eq!(typed::check(&schema, &value, false), Ok(()));
    let fields = typed::fields(&schema, &value).unwrap();
    assert_eq!(fields.len(), 1);
    let odd = json!({
        "type": 5, "properties": [], "items": 3, "additionalProperties": "x",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": "name"
    });
    let odd = Schema::custom(Some(&odd));
    let value = object(json!({"a": [{"b": 1}], "c": {"d": null}}));
    assert_eq!(typed::check(&odd, &value, false), Ok(()));
    assert_eq!(typed::merge(&odd, &value, &value), Ok(value));
}

#[test]
fn long_lists_take_subquadratic_time() {
    const LENGTH: usize = 100_000;
    let pod = built_in("api.core.v1.Pod");
    let names = |step: usize| -> Vec<_> {
        let name = |at: usize| format!("{:06}", (at * step) % LENGTH);
        (0..LENGTH).map(name).collect()
    };
    let list = |names: Vec<String>| object(json!({"metadata": {"finalizers": names}}));
    // Seven and eleven are coprime to the length, so that each name occurs once.
    let (live, config) = (list(names(7)), list(names(11)));
    let start = std::time::Instant::now();
    assert_eq!(typed::check(&pod, &config, false), Ok(()));
    let fields = typed::fields(&pod, &live).unwrap();
    assert_eq!(fields.len(), LENGTH);
    assert_eq!(typed::merge(&pod, &live, &config), Ok(config.clone()));
    let changes = typed::compare(&pod, &live, &config).unwrap();
    assert_eq!(changes, typed::Comparison::default());
    let numbers: Object = (0..LENGTH)
        .map(|at| (format!("v:{at}"), json!({})))
        .collect();
    let numbers = Set::read(&json!({"f:a": numbers})).unwrap();
    assert_eq!(numbers.len(), LENGTH);
    // A quadratic algorithm takes minutes.
    assert!(start.elapsed().as_secs() < 60);
    let same = list(vec!["a".to_owned(); LENGTH]);
    let problems = typed::check(&pod, &same, false).unwrap_err().0;
    assert_eq!(problems.lines().count(), 1_001);
}
