//! Selectors parse, match and fail as in Kubernetes. The tables are in `data/selector`.

use insula_kinds::selector::{FieldOperator, FieldSelector, LabelSelector, field_value};
use insula_kinds::{Kind, Object, kinds};
use proptest::prelude::*;
use serde_json::{Value, json};

fn kind(path: &str) -> &'static Kind {
    let parts: Vec<_> = path.split('/').collect();
    let found = match parts.as_slice() {
        [version, resource] => kinds().find("", version, resource),
        [group, version, resource] => kinds().find(group, version, resource),
        _ => None,
    };
    kinds().get(found.unwrap_or_else(|| panic!("no kind {path}")))
}

fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

fn object(value: Value) -> Object {
    value.as_object().expect("the test wrote an object").clone()
}

#[test]
fn invalid_label_selectors_are_rejected_in_kubernetes_words() {
    for row in rows(include_str!("data/selector/label-errors.txt")) {
        let (selector, wanted) = row.split_once(" => ").unwrap();
        let refused = LabelSelector::parse(selector).unwrap_err();
        assert_eq!(refused, wanted, "{selector}");
    }
}

#[test]
fn label_selectors_match_and_print() {
    for row in rows(include_str!("data/selector/label-matches.txt")) {
        let [selector, labels, wanted, printed] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let labels: Vec<_> = labels
            .split(';')
            .filter_map(|label| label.split_once('='))
            .collect();
        let parsed = LabelSelector::parse(selector).unwrap();
        let matches = parsed.matches(|key| {
            labels
                .iter()
                .find(|label| label.0 == key)
                .map(|label| label.1)
        });
        assert_eq!(matches, wanted == "yes", "{row}");
        assert_eq!(parsed.to_string(), printed, "{row}");
        assert_eq!(parsed.is_everything(), selector.is_empty());
    }
}

#[test]
fn label_selectors_in_objects_match_like_text() {
    let selector = object(json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    }));
    let selector = LabelSelector::from_object(&selector).unwrap();
    assert_eq!(selector.to_string(), "app=web,!old,tier notin (a,b)");
    assert!(selector.matches_labels(Some(&object(json!({"app": "web"})))));
    assert!(!selector.matches_labels(Some(&object(json!({"app": "web", "tier": "a"})))));
    assert!(!selector.matches_labels(None));
    assert!(
        LabelSelector::from_object(&Object::new())
            .unwrap()
            .is_everything()
    );
    let labels = object(json!({"b": "2", "a": "1"}));
    assert_eq!(LabelSelector::from_labels(&labels).to_string(), "a=1,b=2");
    let bad = object(json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}));
    let refused = LabelSelector::from_object(&bad).unwrap_err();
    assert_eq!(refused, r#""Is" is not a valid label selector operator"#);
    let bad = object(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}));
    let refused = LabelSelector::from_object(&bad).unwrap_err();
    let wanted =
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty";
    assert_eq!(refused, wanted);
}

#[test]
fn field_selectors_accept_fields_of_their_kind() {
    for row in rows(include_str!("data/selector/fields.txt")) {
        let [path, selector, wanted] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let found = match FieldSelector::parse(kind(path), selector) {
            Err(sentence) => format!("!{sentence}"),
            Ok(parsed) => {
                let requirements = parsed.requirements().iter().map(|requirement| {
                    let operator = match requirement.operator {
                        FieldOperator::Equals => "=",
                        FieldOperator::NotEquals => "!=",
                    };
                    format!("{} {operator} {}", requirement.field, requirement.value)
                });
                requirements.collect::<Vec<_>>().join("; ")
            }
        };
        assert_eq!(found, wanted, "{row}");
    }
}

#[test]
fn field_selector_yields_exact_name_and_namespace() {
    let pods = kind("v1/pods");
    let selector = FieldSelector::parse(pods, "metadata.name=a,metadata.namespace=b").unwrap();
    assert_eq!(
        (selector.name(), selector.namespace()),
        (Some("a"), Some("b"))
    );
    let selector = FieldSelector::parse(pods, "metadata.name!=a").unwrap();
    assert_eq!(selector.name(), None);
}

#[test]
fn selectable_fields_have_their_value_or_upstream_default() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "tenant": "t"},
        "spec": {"nodeName": "one", "hostNetwork": true},
        "status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd::1"}], "podIP": "10.0.0.1"},
    });
    let event =
        json!({"source": {}, "reportingComponent": "kubelet", "involvedObject": {"kind": "Pod"}});
    let sourced = json!({"source": {"component": "s"}, "reportingComponent": "kubelet"});
    let modern = json!({"regarding": {"kind": "Node"}, "reportingController": "c", "deprecatedSource": {"component": "d"}});
    let cases = [
        ("v1/pods", &pod, "metadata.tenant", "t"),
        ("v1/pods", &pod, "spec.nodeName", "one"),
        ("v1/pods", &pod, "spec.hostNetwork", "true"),
        ("v1/pods", &json!({}), "spec.hostNetwork", "false"),
        ("v1/pods", &pod, "status.podIP", "10.0.0.1"),
        ("v1/pods", &pod, "status.podIPs", ""),
        ("v1/pods", &pod, "status.nominatedNodeName", ""),
        ("v1/nodes", &json!({}), "spec.unschedulable", "false"),
        (
            "v1/nodes",
            &json!({"spec": {"unschedulable": true}}),
            "spec.unschedulable",
            "true",
        ),
        (
            "v1/replicationcontrollers",
            &json!({}),
            "status.replicas",
            "0",
        ),
        (
            "v1/replicationcontrollers",
            &json!({"status": {"replicas": 3}}),
            "status.replicas",
            "3",
        ),
        ("batch/v1/jobs", &json!({}), "status.successful", "0"),
        (
            "batch/v1/jobs",
            &json!({"status": {"succeeded": 2}}),
            "status.successful",
            "2",
        ),
        ("v1/secrets", &json!({"type": "Opaque"}), "type", "Opaque"),
        ("v1/events", &event, "source", "kubelet"),
        ("v1/events", &sourced, "source", "s"),
        ("v1/events", &event, "reportingComponent", "kubelet"),
        ("v1/events", &event, "involvedObject.kind", "Pod"),
        (
            "events.k8s.io/v1/events",
            &modern,
            "involvedObject.kind",
            "Node",
        ),
        (
            "events.k8s.io/v1/events",
            &modern,
            "reportingComponent",
            "c",
        ),
        ("events.k8s.io/v1/events", &modern, "source", "d"),
        (
            "v1/tenants",
            &json!({"metadata": {"name": "x"}}),
            "name",
            "x",
        ),
    ];
    for (path, value, field, wanted) in cases {
        let found = field_value(kind(path), &object(value.clone()), field);
        assert_eq!(found, wanted, "{path} {field}");
    }
    let selector =
        FieldSelector::parse(kind("v1/pods"), "spec.host=one,status.phase!=Failed").unwrap();
    assert!(selector.matches_object(kind("v1/pods"), &object(pod)));
}

proptest! {
    #[test]
    fn label_selector_parsing_never_panics(text in r"[a-z!=<>(), /.0-9\\\x00é-]{0,24}|\PC*") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            // A parsed selector roundtrips through its printed form.
            let again = LabelSelector::parse(&selector.to_string()).unwrap();
            prop_assert_eq!(selector, again);
        }
    }

    #[test]
    fn field_selector_parsing_never_panics(text in r"(metadata\.name|[a-z!=,\\é.]){0,24}|\PC*") {
        if let Ok(selector) = FieldSelector::parse(kind("v1/pods"), &text) {
            selector.matches(|_| "".into());
        }
    }
}
