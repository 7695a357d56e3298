//! Zero objects, as a kube-apiserver writes them.

use insula_kinds::{CustomKind, Kind, Object, Scope, Value, encode, kinds};
use insula_ownership::managers::zero;
use serde_json::json;

const RECORDED: &str = include_str!("data/zero-objects.json");

#[test]
fn zero_objects_are_those_that_go_writes() {
    let recorded: Object = serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 50);
    for (name, wanted) in &recorded {
        let (api_version, kind) = name.rsplit_once('/').unwrap();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let id = kinds().find_by_kind(group, version, kind);
        let id = id.unwrap_or_else(|| panic!("{name} is no kind"));
        let mut zero = zero(kinds().get(id)).into_owned();
        assert_eq!(
            zero.remove("apiVersion"),
            Some(json!(api_version)),
            "{name}"
        );
        assert_eq!(zero.remove("kind"), Some(json!(kind)), "{name}");
        assert_eq!(&Value::Object(zero), wanted, "{name}");
    }
}

/// An object that was written and read back is complete.
#[test]
fn written_objects_are_complete() {
    for (_, kind) in kinds().iter() {
        let mut out = Vec::new();
        let name = (kind.api_version(), kind.kind.as_str());
        encode::json(name.0, name.1, kind.type_id(), &Object::new(), &mut out);
        let written: Object = serde_json::from_slice(&out).unwrap();
        assert_eq!(zero(kind).as_ref(), &written, "{name:?}");
    }
}

#[test]
fn objects_are_completed_at_every_level() {
    let id = kinds().find_by_kind("apps", "v1", "Deployment").unwrap();
    let kind = kinds().get(id);
    let sent = json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    let mut object = sent.as_object().unwrap().clone();
    encode::complete(kind.type_id(), &mut object);
    let wanted = json!({
        "metadata": {},
        "spec": {
            "selector": null,
            "strategy": {},
            "template": {
                "metadata": {},
                "spec": {"containers": [{"name": "c", "resources": {}}]},
            },
        },
        "status": {},
    });
    assert_eq!(Value::Object(object), wanted);
}

#[test]
fn zero_objects_of_custom_resources_have_only_a_version_and_kind() {
    let kind = Kind::custom(CustomKind {
        group: "ex.io".to_owned(),
        version: "v1".to_owned(),
        kind: "Foo".to_owned(),
        resource: "foos".to_owned(),
        singular: "foo".to_owned(),
        list_kind: "FooList".to_owned(),
        scope: Scope::Namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        status: false,
        scale: false,
        selectable: Vec::new(),
        columns: Vec::new(),
        storage_version_hash: String::new(),
    });
    let wanted = json!({"apiVersion": "ex.io/v1", "kind": "Foo"});
    assert_eq!(Value::Object(zero(&kind).into_owned()), wanted);
}
