use insula_admission::webhook::Webhooks;
use insula_admission::{
    EquivalentResources, Operation, Refusal, Target, UserInfo, VersionedObjects,
};
use insula_kinds::{Object, Value};
use serde_json::json;

use super::{SingleVersion, TwoVersions, hook, object, request, target};

fn config_maps() -> Target {
    target("", "v1", "configmaps", "ConfigMap")
}

/// Reports whether a webhook with this rule matches a request for the resource.
fn matched(rule: Value, resource: &str, subresource: &str) -> bool {
    let mut whole = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"], "operations": ["*"],
        "scope": "*",
    });
    for (member, value) in object(rule) {
        whole[member] = value;
    }
    let user = UserInfo::default();
    let asked = target("", "v1", resource, "K");
    let mut request = request(&user, Operation::Create, asked);
    request.subresource = subresource;
    if matches!(resource, "nodes") {
        request.namespace = "";
    }
    let hook = hook(json!({"rules": [whole]}));
    let found = hook.matches(&request, VersionedObjects::default(), None, &SingleVersion);
    found.unwrap().is_some()
}

#[test]
fn rule_matches_by_resource_operation_version_and_scope() {
    for (rule, resource, subresource, expected) in [
        (json!({"resources": ["*"]}), "pods", "", true),
        (json!({"resources": ["*"]}), "pods", "status", false),
        (json!({"resources": ["*/*"]}), "pods", "", true),
        (json!({"resources": ["*/*"]}), "pods", "status", true),
        (json!({"resources": ["pods/*"]}), "pods", "", true),
        (json!({"resources": ["pods/*"]}), "pods", "status", true),
        (
            json!({"resources": ["pods/*"]}),
            "services",
            "status",
            false,
        ),
        (json!({"resources": ["*/scale"]}), "pods", "scale", true),
        (json!({"resources": ["*/scale"]}), "pods", "", false),
        (json!({"resources": ["pods"]}), "pods", "status", false),
        (json!({"operations": ["CREATE"]}), "pods", "", true),
        (
            json!({"operations": ["UPDATE", "DELETE"]}),
            "pods",
            "",
            false,
        ),
        (json!({"apiGroups": ["apps"]}), "pods", "", false),
        (json!({"apiVersions": ["v2"]}), "pods", "", false),
        (json!({"scope": "Namespaced"}), "pods", "", true),
        (json!({"scope": "Namespaced"}), "nodes", "", false),
        (json!({"scope": "Namespaced"}), "namespaces", "", false),
        (json!({"scope": "Cluster"}), "pods", "", false),
        (json!({"scope": "Cluster"}), "nodes", "", true),
        (json!({"scope": "Cluster"}), "namespaces", "", true),
    ] {
        let said = rule.to_string();
        let found = matched(rule, resource, subresource);
        assert_eq!(found, expected, "{said} {resource}/{subresource}");
    }
}

fn labelled(labels: Value) -> Object {
    object(json!({"metadata": {"labels": labels}}))
}

#[test]
fn written_namespace_is_selected_by_its_new_labels() {
    let user = UserInfo::default();
    let hook = hook(json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}));
    let (yes, no) = (labelled(json!({"a": "b"})), labelled(json!({})));
    let namespaces = || target("", "v1", "namespaces", "Namespace");
    for (of, operation, object, namespace, expected) in [
        (config_maps(), Operation::Create, &no, &yes, true),
        (config_maps(), Operation::Create, &yes, &no, false),
        (namespaces(), Operation::Create, &yes, &no, true),
        (namespaces(), Operation::Update, &no, &yes, false),
        (namespaces(), Operation::Delete, &no, &yes, true),
    ] {
        let request = request(&user, operation, of.clone());
        let subject = VersionedObjects {
            object: Some(object),
            old: None,
        };
        let found = hook.matches(&request, subject, Some(namespace), &SingleVersion);
        assert_eq!(found.unwrap().is_some(), expected, "{of:?} {operation:?}");
    }
}

#[test]
fn cluster_scoped_objects_match_any_namespace_selector() {
    let user = UserInfo::default();
    let hook = hook(json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}));
    let mut request = request(&user, Operation::Create, target("", "v1", "nodes", "Node"));
    request.namespace = "";
    let found = hook.matches(&request, VersionedObjects::default(), None, &SingleVersion);
    assert!(found.unwrap().is_some());
}

#[test]
fn missing_namespace_is_an_error_only_if_the_rules_match() {
    let user = UserInfo::default();
    let selecting = json!({"matchLabels": {"a": "b"}});
    let asked = request(&user, Operation::Create, config_maps());
    let called = hook(json!({"namespaceSelector": selecting}));
    let refused = called.matches(&asked, VersionedObjects::default(), None, &SingleVersion);
    assert_eq!(refused, Err(Refusal::no_namespace("n1")));
    assert_eq!(refused.unwrap_err().message, "namespaces \"n1\" not found");
    let other = hook(json!({"namespaceSelector": selecting, "rules": []}));
    let passed = other.matches(&asked, VersionedObjects::default(), None, &SingleVersion);
    assert_eq!(passed, Ok(None));
}

#[test]
fn object_is_selected_by_its_old_or_new_labels() {
    let user = UserInfo::default();
    let hook = hook(json!({"objectSelector": {"matchExpressions": [
        {"key": "a", "operator": "In", "values": ["b", "c"]},
    ]}}));
    let (yes, no) = (labelled(json!({"a": "c"})), labelled(json!({})));
    let request = request(&user, Operation::Update, config_maps());
    for (object, old, expected) in [
        (Some(&yes), Some(&no), true),
        (Some(&no), Some(&yes), true),
        (Some(&no), Some(&no), false),
        (None, Some(&yes), true),
        (None, None, false),
    ] {
        let found = hook.matches(
            &request,
            VersionedObjects { object, old },
            None,
            &SingleVersion,
        );
        assert_eq!(found.unwrap().is_some(), expected);
    }
}

#[test]
fn rule_matches_equivalent_versions_unless_exact() {
    let user = UserInfo::default();
    let asked = target("autoscaling", "v1", "horizontalpodautoscalers", "HPA");
    let request = request(&user, Operation::Create, asked.clone());
    let rule = |version: &str| {
        json!([{
            "apiGroups": ["autoscaling"], "apiVersions": [version],
            "resources": ["horizontalpodautoscalers"], "operations": ["*"],
        }])
    };
    let find = |version: &str, policy: &str, equivalents: &dyn EquivalentResources| {
        let hook = hook(json!({"rules": rule(version), "matchPolicy": policy}));
        let found = hook.matches(&request, VersionedObjects::default(), None, equivalents);
        found.unwrap().map(|target| target.resource.version)
    };
    assert_eq!(
        find("v1", "Equivalent", &TwoVersions).as_deref(),
        Some("v1")
    );
    assert_eq!(
        find("v2", "Equivalent", &TwoVersions).as_deref(),
        Some("v2")
    );
    assert_eq!(find("v2", "Exact", &TwoVersions), None);
    assert_eq!(find("v2", "Equivalent", &SingleVersion), None);
    assert_eq!(find("v3", "Equivalent", &TwoVersions), None);
}

#[test]
fn webhooks_are_not_called_for_admission_configuration() {
    let user = UserInfo::default();
    let hook = hook(json!({}));
    for kind in [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        let of = target("admissionregistration.k8s.io", "v1", "x", kind);
        let asked = request(&user, Operation::Delete, of);
        let found = hook.matches(&asked, VersionedObjects::default(), None, &SingleVersion);
        assert_eq!(found, Ok(None), "{kind}");
    }
    let asked = request(&user, Operation::Delete, config_maps());
    let found = hook.matches(&asked, VersionedObjects::default(), None, &SingleVersion);
    assert_eq!(found, Ok(Some(config_maps())));
}

#[test]
fn webhooks_are_called_in_the_order_of_configuration_names() {
    let mut webhooks = Webhooks::default();
    for name in ["b", "a", "c"] {
        let hooks = json!([{"name": format!("z.{name}")}, {"name": format!("y.{name}")}]);
        webhooks.put(&object(
            json!({"metadata": {"name": name}, "webhooks": hooks}),
        ));
    }
    webhooks.remove("c");
    let names: Vec<_> = webhooks.iter().map(|hook| hook.name.as_str()).collect();
    assert_eq!(names, ["z.a", "y.a", "z.b", "y.b"]);
}
