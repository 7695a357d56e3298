//! Compiled definitions, and their discovery documents.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_custom::Definition;
use insula_custom::kind::{CompileError, Conversion};
use insula_kinds::discovery::{Catalog, Custom, Root};
use insula_kinds::selector::FieldSelector;
use insula_kinds::{Kind, Object, Scope, Value, kinds, print};
use serde_json::json;

fn widgets() -> Definition {
    compiled(include_str!("data/openapi/widgets.json"))
}

fn zones() -> Definition {
    compiled(include_str!("data/openapi/zones.json"))
}

fn compiled(crd: &str) -> Definition {
    let crd: Value = serde_json::from_str(crd).unwrap();
    Definition::compile(&crd["spec"], &crd["status"]["acceptedNames"]).unwrap()
}

/// A definition with these versions; the first is the storage version.
fn simple(group: &str, plural: &str, kind: &str, versions: &[&str]) -> Definition {
    let names = json!({
        "plural": plural, "singular": kind.to_lowercase(), "kind": kind,
        "listKind": format!("{kind}List"),
    });
    let versions: Value = versions
        .iter()
        .enumerate()
        .map(|(at, name)| json!({"name": name, "served": true, "storage": at == 0}))
        .collect();
    let spec = json!({"group": group, "scope": "Namespaced", "versions": versions});
    Definition::compile(&spec, &names).unwrap()
}

fn customs<'a>(definitions: impl IntoIterator<Item = &'a Definition>) -> Vec<Custom<'a>> {
    let versions = definitions.into_iter().flat_map(Definition::served);
    versions
        .map(|version| Custom {
            kind: &version.kind,
            terminating: false,
        })
        .collect()
}

fn tenant() -> Catalog {
    Catalog::of(&|kind| !kind.system_only)
}

fn object(value: Value) -> Object {
    serde_json::from_value(value).unwrap()
}

#[test]
fn versions_are_ordered_by_preference() {
    let widgets = widgets();
    assert_eq!(
        (widgets.group.as_str(), widgets.scope),
        ("apps.example.com", Scope::Namespaced)
    );
    let versions: Vec<_> = widgets
        .versions
        .iter()
        .map(|version| {
            (
                version.kind.version.as_str(),
                version.served,
                version.storage,
            )
        })
        .collect();
    let wanted = [
        ("v1", true, true),
        ("v1beta1", true, false),
        ("v2alpha1", false, false),
    ];
    assert_eq!(versions, wanted);
    assert_eq!(widgets.storage().unwrap().kind.version, "v1");
    assert_eq!(widgets.served().count(), 2);
    assert!(widgets.version("v2").is_none());
    let Conversion::Webhook {
        client_config,
        review_versions,
    } = &widgets.conversion
    else {
        panic!("expected a webhook");
    };
    assert_eq!(client_config["service"]["name"], "conv");
    assert_eq!(review_versions, &["v1"]);
    assert_eq!(zones().conversion, Conversion::None);
}

#[test]
fn kind_is_served_like_custom_resources_of_kubernetes() {
    let widgets = widgets();
    let kind = &widgets.version("v1").unwrap().kind;
    assert!(kind.is_custom() && kind.generation);
    assert!(!kind.unconditional_update && !kind.create_on_update && !kind.delete_returns_object);
    assert_eq!(kind.api_version(), "apps.example.com/v1");
    assert_eq!(kind.list_kind(), "WidgetList");
    assert_eq!(kind.qualified_resource(), "widgets.apps.example.com");
    let verbs = [
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ];
    assert_eq!(kind.verbs, verbs);
    let below: Vec<_> = kind
        .subresources
        .iter()
        .map(|sub| sub.name.as_str())
        .collect();
    assert_eq!(below, ["status", "scale"]);
    assert_eq!(kind.subresource("scale").unwrap().kind, "Scale");
    assert_eq!(kind.reset_fields["main"], ["status"]);
    assert_eq!(kind.reset_fields["status"], ["metadata", "spec"]);
    let selectors = [
        "metadata.name",
        "metadata.namespace",
        "spec.color",
        "spec.paused",
    ];
    assert_eq!(kind.field_selectors, selectors);
    let old = &widgets.version("v1beta1").unwrap().kind;
    assert!(old.subresources.is_empty() && old.reset_fields.is_empty());
    assert_eq!(zones().versions[0].kind.list_kind(), "Zones");
    assert_eq!(zones().versions[0].kind.field_selectors, ["metadata.name"]);
}

#[test]
fn deprecation_warning_recommends_a_better_version() {
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    let warnings = |versions: Value| -> Vec<Option<String>> {
        let spec = json!({"group": "ex.io", "scope": "Cluster", "versions": versions});
        let definition = Definition::compile(&spec, &names).unwrap();
        definition
            .versions
            .into_iter()
            .map(|version| version.warning)
            .collect()
    };
    let found = warnings(json!([
        {"name": "v1alpha1", "served": true, "deprecated": true},
        {"name": "v1beta1", "served": true, "storage": true},
        {"name": "v1", "served": false},
        {"name": "v1beta2", "served": true},
        {"name": "v2", "served": true, "deprecated": true},
        {"name": "v3", "served": true, "deprecated": true, "deprecationWarning": "go away"},
    ]));
    let wanted = [
        Some("go away"),
        Some("ex.io/v2 A is deprecated"),
        None,
        None,
        None,
        Some("ex.io/v1alpha1 A is deprecated; use ex.io/v1beta2 A"),
    ];
    let found: Vec<_> = found.iter().map(Option::as_deref).collect();
    assert_eq!(found, wanted);
}

#[test]
fn definition_without_accepted_names_does_not_compile() {
    let spec = json!({"group": "ex.io", "scope": "Cluster", "versions": [{"name": "v1", "storage": true}]});
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    let without = |name: &str| {
        let mut names = names.clone();
        names[name] = "".into();
        Definition::compile(&spec, &names).unwrap_err()
    };
    assert_eq!(
        without("plural"),
        CompileError::Missing("status.acceptedNames.plural")
    );
    assert_eq!(
        without("listKind"),
        CompileError::Missing("status.acceptedNames.listKind")
    );
    let mut none = spec.clone();
    none["versions"][0]["storage"] = false.into();
    assert_eq!(
        Definition::compile(&none, &names).unwrap_err(),
        CompileError::NoStorage
    );
    for nonsense in [Value::Null, json!([]), json!("a"), json!({"versions": 1})] {
        assert!(Definition::compile(&nonsense, &names).is_err());
    }
}

#[test]
fn aggregated_discovery_ends_with_custom_groups_in_order() {
    let (widgets, zones) = (widgets(), zones());
    let plain = tenant();
    let catalog = tenant().with(customs([&zones, &widgets]));
    let names: Vec<_> = catalog
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(
        names[..plain.groups.len()],
        plain
            .groups
            .iter()
            .map(|it| it.name.as_str())
            .collect::<Vec<_>>()
    );
    assert_eq!(
        names[plain.groups.len()..],
        ["apps.example.com", "net.example.com"]
    );
    let document = catalog.aggregated(Root::Apis);
    let text = std::str::from_utf8(document.json()).unwrap();
    let wanted = concat!(
        r#"{"metadata":{"name":"apps.example.com"},"versions":[{"version":"v1","resources":[{"#,
        r#""resource":"widgets","responseKind":{"group":"apps.example.com","version":"v1","kind":"Widget"},"#,
        r#""scope":"Namespaced","singularResource":"widget","#,
        r#""verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"#,
        r#""shortNames":["wd"],"categories":["all","example"],"subresources":[{"#,
        r#""subresource":"status","responseKind":{"group":"apps.example.com","version":"v1","kind":"Widget"},"#,
        r#""verbs":["get","patch","update"]},{"#,
        r#""subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"#,
        r#""verbs":["get","patch","update"]}]}],"freshness":"Current"},"#,
        r#"{"version":"v1beta1","resources":[{"resource":"widgets","#,
        r#""responseKind":{"group":"apps.example.com","version":"v1beta1","kind":"Widget"},"#,
        r#""scope":"Namespaced","singularResource":"widget","#,
        r#""verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"#,
        r#""shortNames":["wd"],"categories":["all","example"]}],"freshness":"Current"}]},"#,
        r#"{"metadata":{"name":"net.example.com"},"versions":[{"version":"v1","#,
    );
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn legacy_discovery_contains_the_same() {
    let (widgets, zones) = (widgets(), zones());
    let catalog = tenant().with(customs([&zones, &widgets]));
    let json = |document: insula_kinds::discovery::Document| {
        String::from_utf8(document.into_json()).unwrap()
    };
    let group = json(catalog.api_group("apps.example.com").unwrap());
    let wanted = concat!(
        r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps.example.com","versions":["#,
        r#"{"groupVersion":"apps.example.com/v1","version":"v1"},"#,
        r#"{"groupVersion":"apps.example.com/v1beta1","version":"v1beta1"}],"#,
        r#""preferredVersion":{"groupVersion":"apps.example.com/v1","version":"v1"}}"#,
        "\n",
    );
    assert_eq!(group, wanted);
    let list = json(catalog.api_resource_list("apps.example.com", "v1").unwrap());
    // The hash of "apps.example.com/v1/Widget".
    let wanted = concat!(
        r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps.example.com/v1","resources":["#,
        r#"{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","#,
        r#""verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"#,
        r#""shortNames":["wd"],"categories":["all","example"],"storageVersionHash":"QuLM9WVlid0="},"#,
        r#"{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","#,
        r#""verbs":["get","patch","update"]},"#,
        r#"{"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","#,
        r#""version":"v1","kind":"Scale","verbs":["get","patch","update"]}]}"#,
        "\n",
    );
    assert_eq!(list, wanted);
    // All versions have the hash of the storage version.
    let old = json(
        catalog
            .api_resource_list("apps.example.com", "v1beta1")
            .unwrap(),
    );
    assert!(old.contains(r#""storageVersionHash":"QuLM9WVlid0=""#));
    assert!(
        catalog
            .api_resource_list("apps.example.com", "v2alpha1")
            .is_none()
    );
}

#[test]
fn unserved_storage_version_has_no_hash() {
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    let spec = json!({"group": "ex.io", "scope": "Cluster", "versions": [
        {"name": "v1", "served": false, "storage": true}, {"name": "v2", "served": true},
    ]});
    let definition = Definition::compile(&spec, &names).unwrap();
    let catalog = tenant().with(customs([&definition]));
    let list = catalog.api_resource_list("ex.io", "v2").unwrap().object();
    assert!(list["resources"][0].get("storageVersionHash").is_none());
    assert!(catalog.api_resource_list("ex.io", "v1").is_none());
}

#[test]
fn versions_and_resources_of_a_group_are_sorted() {
    let b = simple("ex.io", "bs", "B", &["v1alpha1", "v2", "v1"]);
    let a = simple("ex.io", "as", "A", &["v1beta1", "v1"]);
    let catalog = tenant().with(customs([&b, &a]));
    let group = catalog.groups.last().unwrap();
    let found: Vec<(&str, Vec<&str>)> = group
        .versions
        .iter()
        .map(|version| {
            let resources = version.resources.iter();
            (
                version.name.as_str(),
                resources.map(|it| it.name.as_str()).collect(),
            )
        })
        .collect();
    let wanted = [
        ("v2", vec!["bs"]),
        ("v1", vec!["as", "bs"]),
        ("v1beta1", vec!["as"]),
        ("v1alpha1", vec!["bs"]),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn built_in_group_gets_new_versions_and_keeps_its_own() {
    let new = simple("networking.k8s.io", "foos", "Foo", &["v9", "v1"]);
    let catalog = tenant().with(customs([&new]));
    assert_eq!(catalog.groups.len(), tenant().groups.len());
    let group = catalog
        .groups
        .iter()
        .find(|group| group.name == "networking.k8s.io")
        .unwrap();
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| version.name.as_str())
        .collect();
    assert_eq!(versions, ["v9", "v1"]);
    let own = &group.versions[1].resources;
    assert!(own.iter().any(|resource| resource.name == "ingresses"));
    assert!(!own.iter().any(|resource| resource.name == "foos"));
}

#[test]
fn terminating_definition_only_lists_read_and_delete_verbs() {
    let zones = zones();
    let terminating = zones.served().map(|version| Custom {
        kind: &version.kind,
        terminating: true,
    });
    let catalog = tenant().with(terminating);
    let list = catalog
        .api_resource_list("net.example.com", "v1")
        .unwrap()
        .object();
    assert_eq!(
        list["resources"][0]["verbs"],
        json!(["delete", "deletecollection", "get", "list", "watch"])
    );
    assert_eq!(
        list["resources"][1]["verbs"],
        json!(["get", "patch", "update"])
    );
    // The kind itself still supports all verbs.
    assert!(zones.versions[0].kind.supports("update"));
}

#[test]
fn scale_subresource_of_a_kind_named_scale_is_distinct() {
    let names =
        json!({"plural": "scales", "singular": "scale", "kind": "Scale", "listKind": "ScaleList"});
    let spec = json!({"group": "ex.io", "scope": "Cluster", "versions": [{
        "name": "v1", "served": true, "storage": true,
        "subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
    }]});
    let definition = Definition::compile(&spec, &names).unwrap();
    let catalog = tenant().with(customs([&definition]));
    let list = catalog.api_resource_list("ex.io", "v1").unwrap().object();
    assert_eq!(list["resources"][1]["group"], "autoscaling");
}

#[test]
fn field_selectors_use_the_selectable_fields_of_the_version() {
    let widgets = widgets();
    let kind = &widgets.version("v1").unwrap().kind;
    let red = object(json!({"metadata": {"name": "a"}, "spec": {"color": "red", "paused": true}}));
    let bare = object(json!({"metadata": {"name": "a"}}));
    let matches = |text: &str, of: &Object| {
        FieldSelector::parse(kind, text)
            .unwrap()
            .matches_object(kind, of)
    };
    assert!(matches("spec.color=red,spec.paused=true", &red));
    assert!(!matches("spec.color!=red", &red));
    assert!(matches("spec.color=,metadata.name=a", &bare));
    let unknown =
        |kind: &Kind, text: &str| FieldSelector::parse(kind, text).unwrap_err().to_string();
    assert_eq!(
        unknown(kind, "spec.replicas=1"),
        "field label not supported: spec.replicas"
    );
    let old = &widgets.version("v1beta1").unwrap().kind;
    assert_eq!(
        unknown(old, "spec.color=red"),
        "field label not supported: spec.color"
    );
    let zone = &zones().versions[0].kind;
    assert_eq!(
        unknown(zone, "metadata.namespace=a"),
        "field label not supported: metadata.namespace"
    );
}

#[test]
fn custom_kind_named_like_a_built_in_one_has_none_of_its_rules() {
    let pods = simple("ex.io", "pods", "Pod", &["v1"]);
    let kind = &pods.versions[0].kind;
    let done = object(json!({"metadata": {"name": "a"}, "status": {"phase": "Succeeded"}}));
    assert_eq!(print::row_conditions(kind, &done), None);
    assert!(print::cells(kind, &done, 0).is_empty());
    assert!(FieldSelector::parse(kind, "spec.nodeName=a").is_err());
    let real = kinds().get(kinds().find("", "v1", "pods").unwrap());
    assert!(!real.is_custom() && print::row_conditions(real, &done).is_some());
}
