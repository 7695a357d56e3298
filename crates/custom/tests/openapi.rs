//! OpenAPI documents compared with those of a real kube-apiserver.
//!
//! `data/openapi` contains definitions and what Kubernetes 1.36.4 publishes for them, without
//! its own descriptions: only those of the definitions' authors remain.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use insula_custom::Definition;
use insula_custom::kind::Version;
use insula_custom::openapi::{v2_part, v3_document, v3_paths};
use insula_kinds::Value;
use insula_kinds::openapi::{V2Base, v2_document, v2_protobuf};
use serde_json::json;

fn definition(crd: &Value) -> Definition {
    Definition::compile(&crd["spec"], &crd["status"]["acceptedNames"]).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn v3(versions: &[&Version]) -> Value {
    let paths = v3_paths(versions.iter().copied());
    let [path] = paths.as_slice() else {
        panic!("one document, not {paths:?}");
    };
    let document = v3_document(path, versions.iter().copied()).unwrap();
    serde_json::from_slice(&document).unwrap()
}

/// Removes the descriptions that were not recorded.
fn quiet(value: &mut Value) {
    let kept = |text: &str| {
        text.starts_with("Author")
            || text.contains(" is a list of ")
            || ["OK", "Created", "Accepted", "Unauthorized"].contains(&text)
    };
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name != "description" || value.as_str().is_none_or(kept));
            members.values_mut().for_each(quiet);
        }
        Value::Array(items) => items.iter_mut().for_each(quiet),
        _ => {}
    }
}

/// Collects the paths of differences, because whole documents in a failure are unreadable.
fn differences(ours: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)))
            {
                let (a, b) = (a.get(name), b.get(name));
                let here = format!("{at}/{name}");
                match (a, b) {
                    (Some(a), Some(b)) => differences(a, b, &here, found),
                    _ => found.push(format!("{here}: {a:?} {b:?}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{at}/{index}"), found);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{at}: {a} {b}")),
    }
}

#[track_caller]
fn assert_same(ours: &Value, theirs: &Value) {
    let mut ours = ours.clone();
    quiet(&mut ours);
    let mut found = Vec::new();
    differences(&ours, theirs, "", &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn version_3_document_matches_a_real_server() {
    let definitions: Vec<_> = parsed(include_str!("data/openapi/example.json"))
        .as_array()
        .unwrap()
        .iter()
        .map(definition)
        .collect();
    let versions: Vec<_> = definitions.iter().flat_map(Definition::served).collect();
    assert_eq!(v3_paths(versions.iter().copied()), ["apis/ex.io/v1"]);
    let mut ours = v3(&versions);
    // Kubernetes also lists groups and versions that no longer exist.
    let options = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    let options = ours["components"]["schemas"][options]
        .as_object_mut()
        .unwrap();
    assert!(options.remove("x-kubernetes-group-version-kind").is_some());
    // Insula's own addition to the metadata of every object.
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let meta = ours["components"]["schemas"][meta]["properties"].as_object_mut();
    assert!(meta.unwrap().remove("tenant").is_some());
    assert_same(
        &ours,
        &parsed(include_str!("data/openapi/example.recorded.json")),
    );
}

#[test]
fn every_version_is_published_as_by_a_real_server() {
    let cases = [
        (
            include_str!("data/openapi/widgets.json"),
            include_str!("data/openapi/widgets.recorded.json"),
            3,
        ),
        (
            include_str!("data/openapi/zones.json"),
            include_str!("data/openapi/zones.recorded.json"),
            1,
        ),
    ];
    for (crd, recorded, count) in cases {
        let (definition, recorded) = (definition(&parsed(crd)), parsed(recorded));
        assert_eq!(definition.versions.len(), count);
        for version in &definition.versions {
            let theirs = &recorded[&version.kind.version];
            let ours = v3(&[version]);
            let schemas = ours["components"]["schemas"].as_object().unwrap();
            let (own, others): (Vec<_>, Vec<_>) = schemas
                .iter()
                .partition(|(name, _)| name.starts_with("com.example."));
            let own: Value = own
                .into_iter()
                .map(|(n, s)| (n.clone(), s.clone()))
                .collect();
            assert_same(&own, &theirs["v3"]["schemas"]);
            assert_same(&ours["paths"], &theirs["v3"]["paths"]);
            let others: Value = others.into_iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(others, theirs["v3"]["others"]);

            let base = V2Base::new(&|kind| kind.kind == "ConfigMap");
            let ours = base.with(&v2_part([version]));
            let ours: Value = serde_json::from_slice(&ours).unwrap();
            let own = |part: &str, mine: &str| -> Value {
                let all = ours[part].as_object().unwrap().iter();
                all.filter(|(name, _)| name.starts_with(mine))
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            };
            assert_same(
                &own("definitions", "com.example."),
                &theirs["v2"]["definitions"],
            );
            assert_same(
                &own("paths", &format!("/apis/{}/", definition.group)),
                &theirs["v2"]["paths"],
            );
        }
    }
}

#[test]
fn custom_kinds_are_appended_to_the_shared_document() {
    let widgets = definition(&parsed(include_str!("data/openapi/widgets.json")));
    let zones = definition(&parsed(include_str!("data/openapi/zones.json")));
    let filter = |kind: &insula_kinds::Kind| !kind.system_only;
    let base = V2Base::new(&filter);
    assert_eq!(base.json(), v2_document(&filter));
    assert_eq!(base.with(&v2_part([])), base.json());
    let part = v2_part(widgets.served().chain(zones.served()));
    let plain: Value = serde_json::from_slice(base.json()).unwrap();
    let with: Value = serde_json::from_slice(&base.with(&part)).unwrap();
    for member in ["paths", "definitions"] {
        let (plain, with) = (
            plain[member].as_object().unwrap(),
            with[member].as_object().unwrap(),
        );
        assert!(
            plain
                .iter()
                .all(|(name, value)| with.get(name) == Some(value))
        );
        // Three kinds with two schemas each; two with five paths and a scale, one with three.
        let more = with.len() - plain.len();
        assert_eq!(more, if member == "paths" { 5 + 3 + 3 } else { 6 });
    }
    for member in ["swagger", "info", "security", "securityDefinitions"] {
        assert_eq!(plain[member], with[member]);
    }
    let mut references = Vec::new();
    collect_references(&with["paths"], &mut references);
    collect_references(&with["definitions"], &mut references);
    for reference in references {
        let name = reference.strip_prefix("#/definitions/").unwrap();
        assert!(with["definitions"][name].is_object(), "{name}");
    }
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            // A property may have this name, too.
            found.extend(members.get("$ref").and_then(Value::as_str));
            members
                .values()
                .for_each(|it| collect_references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| collect_references(it, found)),
        _ => {}
    }
}

/// The fields of a protobuf message, all of which are length-delimited here.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        assert_eq!(tag & 7, 2);
        let length = usize::try_from(varint(&mut bytes)).unwrap();
        let (value, rest) = bytes.split_at(length);
        fields.push((tag >> 3, value));
        bytes = rest;
    }
    fields
}

#[test]
fn protobuf_part_can_be_appended() {
    let widgets = definition(&parsed(include_str!("data/openapi/widgets.json")));
    let part = v2_part(widgets.served()).protobuf();
    let parts = fields(&part);
    let numbers: Vec<_> = parts.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [8, 9]);
    let names = |message: &[u8]| -> Vec<String> {
        fields(message)
            .iter()
            .map(|(_, named)| String::from_utf8(fields(named)[0].1.to_vec()).unwrap())
            .collect()
    };
    let wanted = [
        "com.example.apps.v1.Widget",
        "com.example.apps.v1.WidgetList",
        "com.example.apps.v1beta1.Widget",
        "com.example.apps.v1beta1.WidgetList",
    ];
    assert_eq!(names(parts[1].1), wanted);
    assert_eq!(
        names(parts[0].1)[0],
        "/apis/apps.example.com/v1/namespaces/{namespace}/widgets"
    );
    // The field numbers are those of the document that it is appended to.
    let document = v2_protobuf(&|kind| kind.kind == "ConfigMap");
    let numbers: Vec<_> = fields(&document)
        .iter()
        .map(|(number, _)| *number)
        .collect();
    assert_eq!(numbers, [1, 2, 8, 9, 12, 13]);
}

#[test]
fn empty_schema_is_published_as_an_open_object() {
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    for schema in [
        Value::Null,
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    ] {
        let spec = json!({"group": "ex.io", "scope": "Cluster", "names": names, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
        ]});
        let definition = Definition::compile(&spec, &names).unwrap();
        let base = V2Base::new(&|_| false);
        let document = base.with(&v2_part(definition.served()));
        let document: Value = serde_json::from_slice(&document).unwrap();
        let wanted = json!({"type": "object", "x-kubernetes-group-version-kind": [
            {"group": "ex.io", "version": "v1", "kind": "A"},
        ]});
        assert_eq!(document["definitions"]["io.ex.v1.A"], wanted);
    }
}

#[test]
fn every_group_version_has_its_own_document() {
    let widgets = definition(&parsed(include_str!("data/openapi/widgets.json")));
    let zones = definition(&parsed(include_str!("data/openapi/zones.json")));
    let versions = || zones.served().chain(widgets.served());
    let paths = [
        "apis/apps.example.com/v1",
        "apis/apps.example.com/v1beta1",
        "apis/net.example.com/v1",
    ];
    assert_eq!(v3_paths(versions()), paths);
    for path in paths {
        let document: Value =
            serde_json::from_slice(&v3_document(path, versions()).unwrap()).unwrap();
        let mut found = document["paths"].as_object().unwrap().keys();
        assert!(
            found.all(|found| found.starts_with(&format!("/{path}/"))),
            "{path}"
        );
    }
    for path in [
        "apis/apps.example.com",
        "apis/apps.example.com/v2alpha1",
        "apis/apps/v1",
        "",
    ] {
        assert_eq!(v3_document(path, versions()), None, "{path}");
    }
}

#[test]
fn built_in_kinds_are_not_overridden() {
    let names = json!({"plural": "ingresses", "singular": "ingress", "kind": "Ingress", "listKind": "IngressList"});
    let spec = json!({"group": "networking.k8s.io", "scope": "Namespaced", "versions": [
        {"name": "v1", "served": true, "storage": true},
        {"name": "v9", "served": true},
    ]});
    let definition = Definition::compile(&spec, &names).unwrap();
    assert_eq!(v3_paths(definition.served()), ["apis/networking.k8s.io/v9"]);
    assert_eq!(
        v3_document("apis/networking.k8s.io/v1", definition.served()),
        None
    );
    let base = V2Base::new(&|_| true);
    let plain: Value = serde_json::from_slice(base.json()).unwrap();
    let with: Value = serde_json::from_slice(&base.with(&v2_part(definition.served()))).unwrap();
    let path = "/apis/networking.k8s.io/v1/ingresses";
    assert_eq!(with["paths"][path], plain["paths"][path]);
    assert!(with["paths"]["/apis/networking.k8s.io/v9/ingresses"].is_object());
}

/// A definition with a schema of so many nested objects.
fn nested(levels: usize) -> Definition {
    let mut schema = json!({"type": "string"});
    for _ in 0..levels {
        schema = json!({"type": "object", "properties": {"a": schema}});
    }
    let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
    let spec = json!({"group": "ex.io", "scope": "Cluster", "names": names, "versions": [
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
    ]});
    Definition::compile(&spec, &names).unwrap()
}

#[test]
fn deepest_schema_that_can_be_stored_is_published() {
    for (levels, published) in [(60, 60), (300, 0)] {
        let definition = nested(levels);
        let document = v3_document("apis/ex.io/v1", definition.served()).unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        let mut schema = &document["components"]["schemas"]["io.ex.v1.A"];
        let mut depth = 0;
        while let Some(property) = schema["properties"].get("a") {
            (schema, depth) = (property, depth + 1);
        }
        assert_eq!(depth, published);
        assert!(v2_part(definition.served()).protobuf().len() > 1000);
    }
}
