//! Discovery matches a real kube-apiserver, with the additions of `tenants` and the group
//! `access.insula.dev`.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_kinds::discovery::{Catalog, Document, Root, api_versions};
use insula_kinds::{Value, types};
use serde_json::json;

const RECORDED: &str = include_str!("data/discovery/aggregated.json");

fn all() -> Catalog {
    Catalog::of(&|_| true)
}

/// The catalog without the additions of Insula.
fn plain() -> Catalog {
    Catalog::of(&|kind| kind.resource != "tenants" && kind.group != "access.insula.dev")
}

fn text(document: &Document) -> &str {
    let text = std::str::from_utf8(document.json()).unwrap();
    text.strip_suffix('\n').unwrap()
}

fn resources(group: &str, version: &str) -> Vec<Value> {
    let document = all().api_resource_list(group, version).unwrap();
    let Value::Array(resources) = document.object()["resources"].clone() else {
        panic!("resources are a list");
    };
    resources
}

fn resource(group: &str, version: &str, name: &str) -> Value {
    let resources = resources(group, version);
    let mut found = resources.into_iter().filter(|entry| entry["name"] == name);
    found.next().unwrap()
}

#[test]
fn aggregated_discovery_matches_a_real_server() {
    let api = plain().aggregated(Root::Api);
    let apis = plain().aggregated(Root::Apis);
    let ours = format!(r#"{{"/api":{},"/apis":{}}}"#, text(&api), text(&apis));
    assert_eq!(ours, RECORDED.trim_end());
}

#[test]
fn tenants_and_the_group_of_credentials_are_the_only_additions() {
    let with = all().aggregated(Root::Api);
    let without = plain().aggregated(Root::Api);
    let (before, after) = text(&with).split_once(r#",{"resource":"tenants""#).unwrap();
    assert!(text(&without).starts_with(before));
    assert!(after.contains(r#""shortNames":["te"]"#));
    let (with, without) = [all(), plain()]
        .map(|catalog| catalog.aggregated(Root::Apis))
        .into();
    let (before, after) = text(&with)
        .split_once(r#",{"metadata":{"name":"access.insula.dev""#)
        .unwrap();
    assert!(text(&without).starts_with(before));
    assert_eq!(
        after.matches(r#""name":"#).count(),
        0,
        "it is the last group"
    );
}

#[test]
fn filtered_kinds_are_not_discovered() {
    let flow_control = "flowcontrol.apiserver.k8s.io";
    let some = Catalog::of(&|kind| !kind.system_only && kind.group != flow_control);
    for (name, there) in [
        ("tenants", false),
        ("nodes", true),
        ("componentstatuses", true),
    ] {
        let core = some.api_resource_list("", "v1").unwrap();
        let listed = text(&core).contains(&format!(r#""name":"{name}""#));
        assert_eq!(listed, there, "{name}");
        let core = some.aggregated(Root::Api);
        let listed = text(&core).contains(&format!(r#""resource":"{name}""#));
        assert_eq!(listed, there, "{name}");
    }
    assert!(some.api_group(flow_control).is_none());
    assert!(some.api_resource_list(flow_control, "v1").is_none());
}

#[test]
fn api_lists_versions_and_server_address() {
    let wanted = concat!(
        r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":"#,
        r#"[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:6443"}]}"#,
    );
    assert_eq!(text(&api_versions("10.0.0.1:6443")), wanted);
}

#[test]
fn first_version_of_a_group_is_preferred() {
    let wanted = concat!(
        r#"{"kind":"APIGroup","apiVersion":"v1","name":"autoscaling","versions":"#,
        r#"[{"groupVersion":"autoscaling/v2","version":"v2"},"#,
        r#"{"groupVersion":"autoscaling/v1","version":"v1"}],"#,
        r#""preferredVersion":{"groupVersion":"autoscaling/v2","version":"v2"}}"#,
    );
    assert_eq!(text(&all().api_group("autoscaling").unwrap()), wanted);
    assert!(all().api_group("").is_none());
    assert!(all().api_group("nope").is_none());
}

#[test]
fn group_list_entries_have_no_type_meta() {
    let list = all().api_group_list();
    let start = concat!(
        r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apiregistration.k8s.io","#,
        r#""versions":[{"groupVersion":"apiregistration.k8s.io/v1","version":"v1"}],"#,
        r#""preferredVersion":{"groupVersion":"apiregistration.k8s.io/v1","version":"v1"}},{"name":"apps","#,
    );
    assert!(text(&list).starts_with(start));
    assert_eq!(list.object()["groups"].as_array().unwrap().len(), 21);
}

#[test]
fn resource_list_members_are_in_order() {
    let list = all().api_resource_list("apps", "v1").unwrap();
    let wanted = concat!(
        r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":"#,
        r#"[{"name":"controllerrevisions","singularName":"controllerrevision","namespaced":true,"#,
        r#""kind":"ControllerRevision","verbs":["create","delete","deletecollection","get","#,
        r#""list","patch","update","watch"],"storageVersionHash":"85nkx63pcBU="},"#,
        r#"{"name":"daemonsets","singularName":"daemonset","namespaced":true,"kind":"DaemonSet","#,
        r#""verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"#,
        r#""shortNames":["ds"],"categories":["all"],"storageVersionHash":"dd7pWHUlMKQ="},"#,
        r#"{"name":"daemonsets/status","singularName":"","namespaced":true,"kind":"DaemonSet","#,
        r#""verbs":["get","patch","update"]},"#,
    );
    assert_eq!(text(&list)[..wanted.len()], *wanted);
}

#[test]
fn core_resource_list_has_no_api_version() {
    let list = all().api_resource_list("", "v1").unwrap();
    let start = concat!(
        r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","#,
        r#""singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]},"#,
    );
    assert!(text(&list).starts_with(start));
    assert_eq!(
        resource("", "v1", "configmaps")["storageVersionHash"],
        "qFsyl6wFWjQ="
    );
}

#[test]
fn subresources_of_another_kind_state_group_and_version() {
    let scale = resource("apps", "v1", "deployments/scale");
    let wanted = json!({
        "name": "deployments/scale", "singularName": "", "namespaced": true,
        "group": "autoscaling", "version": "v1", "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    });
    assert_eq!(scale, wanted);
    assert_eq!(resource("", "v1", "pods/eviction")["group"], "policy");
    assert_eq!(resource("", "v1", "pods/binding").get("group"), None);
}

#[test]
fn versions_share_one_storage_hash() {
    let hash = |group, version, name| resource(group, version, name)["storageVersionHash"].clone();
    assert_eq!(
        hash("", "v1", "events"),
        hash("events.k8s.io", "v1", "events")
    );
    let of_autoscaler = |version| hash("autoscaling", version, "horizontalpodautoscalers");
    assert_eq!(of_autoscaler("v1"), of_autoscaler("v2"));
}

#[test]
fn every_document_is_an_object_of_its_type() {
    let documents = [
        all().aggregated(Root::Apis),
        api_versions("a"),
        all().api_group_list(),
        all().api_group("apps").unwrap(),
        all().api_resource_list("apps", "v1").unwrap(),
    ];
    for document in documents {
        let object = document.object();
        assert_eq!(object["kind"], types().get(document.type_id()).kind());
        for member in object
            .keys()
            .filter(|name| !["kind", "apiVersion"].contains(&name.as_str()))
        {
            assert!(
                types().member(document.type_id(), member).is_some(),
                "{member}"
            );
        }
    }
}
