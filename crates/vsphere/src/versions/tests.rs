use insula_operator::webhook::versions::Version;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ANNOTATION: &str = VERSIONS.annotation;
const OLD: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const NEW: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

const KINDS: [&str; 8] = [
    "VSphereClusterIdentity",
    "VSphereCluster",
    "VSphereClusterTemplate",
    "VSphereMachine",
    "VSphereMachineTemplate",
    "VSphereVM",
    "VSphereDeploymentZone",
    "VSphereFailureDomain",
];

fn object(version: &str, kind: &str, content: Value) -> Value {
    let mut object = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "x", "labels": {"l": ""}, "annotations": {"a": "b"}},
    });
    if let (Value::Object(members), Value::Object(mut content)) = (&mut object, content) {
        members.append(&mut content);
    }
    object
}

/// Converts an object, and checks that names and labels stay the same.
fn to(version: &str, object: &Value) -> Value {
    let converted = VERSIONS.convert(object.clone(), version).unwrap();
    assert_eq!(converted["apiVersion"], version);
    assert_eq!(converted["kind"], object["kind"]);
    for field in ["name", "labels"] {
        assert_eq!(converted["metadata"][field], object["metadata"][field]);
    }
    assert_eq!(converted["metadata"]["annotations"]["a"], "b");
    converted
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"].get(ANNOTATION)?.as_str()
}

/// Returns the fields of a kind that the conversion treats, with values that it may have.
fn values(version: &str, kind: &str) -> Vec<(String, Vec<Value>)> {
    // Only the older version has empty texts and objects.
    let only_old = |value: Value| (version == OLD).then_some(value);
    let texts = || {
        let empty = only_old(json!("")).into_iter();
        empty.chain([json!("a"), json!("b/~c")]).collect::<Vec<_>>()
    };
    let clone = [
        "cloneMode",
        "snapshot",
        "server",
        "datacenter",
        "folder",
        "storagePolicyName",
        "os",
        "hardwareVersion",
        "network/preferredAPIServerCidr",
    ];
    let mut clone: Vec<_> = clone.map(|field| (field, texts())).into();
    let device = |name: &str| json!({"networkName": "n", "deviceName": name, "macAddr": name});
    clone.extend([
        (
            "network/devices",
            match version {
                OLD => vec![json!([]), json!([device(""), device("d")])],
                _ => vec![json!([]), json!([device("c"), device("d")])],
            },
        ),
        ("customVMXKeys", vec![json!({"a": ""})]),
        ("numCPUs", vec![json!(0), json!(4)]),
        (
            "bootstrapRef",
            match version {
                OLD => vec![
                    json!({"name": "s"}),
                    json!({"apiVersion": "v1", "kind": "Secret", "name": "s"}),
                ],
                _ => vec![json!({"name": "s"})],
            },
        ),
    ]);
    clone.extend(match version {
        OLD => vec![
            (
                "guestSoftPowerOffTimeout",
                ["0s", "5m", "5m0s", "1ms", "?"].map(Into::into).into(),
            ),
            (
                "namingStrategy",
                vec![json!({}), json!({"template": ""}), json!({"template": "t"})],
            ),
        ],
        _ => vec![
            (
                "guestSoftPowerOffTimeoutSeconds",
                vec![json!(1), json!(300)],
            ),
            ("naming", vec![json!({"template": "t"})]),
        ],
    });
    let cluster = vec![
        ("server", texts()),
        (
            "controlPlaneEndpoint",
            match version {
                OLD => vec![
                    json!({}),
                    json!({"host": "", "port": 0}),
                    json!({"host": "h", "port": 0}),
                    json!({"host": "h", "port": 1}),
                ],
                _ => vec![json!({"host": "h", "port": 6443}), json!({"port": 1})],
            },
        ),
        ("identityRef", vec![json!({"kind": "Secret", "name": "s"})]),
        (
            "failureDomainSelector",
            vec![json!({}), json!({"matchLabels": {"a": ""}})],
        ),
    ];
    let labels = json!({"labels": {"a": ""}});
    let metadata = only_old(json!({})).into_iter().chain([labels]);
    let metadata = ("metadata", metadata.collect());
    let (root, fields) = match kind {
        "VSphereClusterIdentity" => (
            "spec",
            vec![
                ("secretName", vec![json!("s"), json!("t")]),
                (
                    "allowedNamespaces",
                    vec![json!(null), json!({}), json!({"selector": {}})],
                ),
                ("allowedTenants", vec![json!(null), json!({})]),
                (
                    "secretRef",
                    match version {
                        OLD => vec![json!({}), json!({"name": "s"}), json!({"name": "r"})],
                        _ => vec![],
                    },
                ),
            ],
        ),
        "VSphereCluster" => ("spec", cluster),
        "VSphereClusterTemplate" => ("spec/template/spec", cluster),
        "VSphereMachineTemplate" => ("spec/template/spec", clone),
        "VSphereDeploymentZone" => (
            "spec",
            vec![
                ("placementConstraint", vec![json!({})]),
                ("placementConstraint/folder", texts()),
                ("placementConstraint/resourcePool", texts()),
                (
                    "identityRef",
                    vec![json!({"kind": "VSphereClusterIdentity", "name": "i"})],
                ),
            ],
        ),
        "VSphereFailureDomain" => (
            "spec",
            vec![
                ("topology/computeCluster", texts()),
                ("topology/datastore", texts()),
                ("region/autoConfigure", vec![json!(false), json!(true)]),
            ],
        ),
        _ => ("spec", clone),
    };
    let under = |root: &str, fields: Vec<(&str, Vec<Value>)>| {
        let fields = fields.into_iter();
        let fields = fields.map(|(field, values)| (format!("/{root}/{field}"), values));
        fields.collect::<Vec<_>>()
    };
    let mut all = under(root, fields);
    if kind.ends_with("Template") && (kind != "VSphereClusterTemplate" || version == NEW) {
        all.extend(under("spec/template", vec![metadata]));
    }
    if !kind.ends_with("Template") && kind != "VSphereFailureDomain" {
        all.extend(under("status", status(version, kind)));
    }
    all
}

fn status(version: &str, kind: &str) -> Vec<(&'static str, Vec<Value>)> {
    let old = vec![
        json!([]),
        json!([{"type": "Ready", "status": "True", "severity": ""}]),
    ];
    let new = vec![
        json!([]),
        json!([{"type": "Ready", "status": "True", "observedGeneration": 3}]),
    ];
    let failure = vec![json!("CreateError")];
    let mut fields = vec![("ready", vec![json!(false), json!(true)])];
    match version {
        OLD => fields.extend([
            ("conditions", old),
            ("v1beta2/conditions", new),
            ("v1beta2", vec![json!({})]),
        ]),
        _ => fields.extend([
            ("conditions", new),
            ("deprecated", vec![json!({}), json!({"v1beta1": {}})]),
            ("deprecated/v1beta1/conditions", old),
        ]),
    }
    let provisions = ["VSphereCluster", "VSphereMachine"].contains(&kind);
    match (version, kind) {
        (OLD, "VSphereMachine" | "VSphereVM") => {
            fields.extend([
                ("failureReason", failure.clone()),
                ("failureMessage", failure),
            ]);
        }
        (NEW, "VSphereMachine" | "VSphereVM") => {
            fields.push(("deprecated/v1beta1/failureReason", failure));
        }
        (OLD, "VSphereCluster") => fields.push((
            "failureDomains",
            vec![
                json!({}),
                json!({"b": {"controlPlane": true}, "a": {"attributes": {"x": ""}}}),
            ],
        )),
        (NEW, "VSphereCluster") => fields.push((
            "failureDomains",
            vec![
                json!([]),
                json!([{"name": "b"}, {"name": "a", "controlPlane": false}]),
            ],
        )),
        _ => {}
    }
    if version == NEW && provisions {
        fields.push((
            "initialization",
            vec![
                json!({}),
                json!({"provisioned": false}),
                json!({"provisioned": true}),
            ],
        ));
    }
    fields
}

/// Sets a field, and creates the objects around it.
fn set(content: &mut Value, pointer: &str, value: Value) {
    let mut at = content;
    for name in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
    }
    *at = value;
}

/// Returns objects of a version, of all kinds, with any of their fields.
fn objects(version: &'static str) -> impl Strategy<Value = Value> {
    let kinds = proptest::sample::select(&KINDS[..]);
    kinds.prop_flat_map(move |kind| {
        let fields = values(version, kind);
        let choices = proptest::collection::vec(0..12_usize, fields.len());
        choices.prop_map(move |choices| {
            let mut content = json!({"spec": {}});
            for ((pointer, values), choice) in fields.iter().zip(choices) {
                if let Some(value) = values.get(choice % (values.len() + 1)) {
                    set(&mut content, pointer, value.clone());
                }
            }
            object(version, kind, content)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn older_objects_survive_the_newer_version(given in objects(OLD)) {
        prop_assert_eq!(to(OLD, &to(NEW, &given)), given);
    }

    #[test]
    fn newer_objects_survive_the_older_version(given in objects(NEW)) {
        prop_assert_eq!(to(NEW, &to(OLD, &given)), given);
    }

    #[test]
    fn objects_survive_any_number_of_conversions(given in objects(NEW)) {
        let old = to(OLD, &given);
        let new = to(NEW, &old);
        prop_assert_eq!(to(OLD, &new), old);
    }

    #[test]
    fn annotation_never_writes_what_the_version_of_the_request_shows(
        given in objects(OLD),
        other in objects(NEW),
    ) {
        let mut forged = given.clone();
        let fields: Vec<_> = ["spec", "status"].iter().map(|field| {
            let converted = to(NEW, &given).get(*field).cloned();
            let mut entry = json!({"path": format!("/{field}")});
            if let Some(value) = converted { entry["converted"] = value; }
            if let Some(value) = other.get(*field) { entry["original"] = value.clone(); }
            entry
        }).collect();
        let text = json!({"version": "v1beta2", "fields": fields}).to_string();
        forged["metadata"]["annotations"][ANNOTATION] = text.into();
        let shown = |object: &Value| {
            let kind = VERSIONS.kind(object["kind"].as_str().unwrap()).unwrap();
            let mut content = json!({"spec": object.get("spec"), "status": object.get("status")});
            kind.convert(Version::Older, &mut content);
            content
        };
        prop_assert_eq!(shown(&to(NEW, &forged)), shown(&to(NEW, &given)));
    }
}

/// Returns the converted specification and status.
fn converted(version: &str, kind: &str, content: Value) -> Value {
    let from = if version == NEW { OLD } else { NEW };
    let converted = to(version, &object(from, kind, content));
    let fields = ["spec", "status"].into_iter();
    let fields = fields.filter_map(|field| Some((field.to_owned(), converted.get(field)?.clone())));
    fields.collect()
}

#[test]
fn fields_are_renamed_and_moved() {
    for (kind, old, new) in [
        (
            "VSphereMachine",
            json!({"spec": {"guestSoftPowerOffTimeout": "5m0s", "namingStrategy": {"template": "t"}}}),
            json!({"spec": {"guestSoftPowerOffTimeoutSeconds": 300, "naming": {"template": "t"}}}),
        ),
        (
            "VSphereMachineTemplate",
            json!({"spec": {"template": {"spec": {"guestSoftPowerOffTimeout": "45s"}}}}),
            json!({"spec": {"template": {"spec": {"guestSoftPowerOffTimeoutSeconds": 45}}}}),
        ),
        (
            "VSphereCluster",
            json!({"spec": {}, "status": {
                "ready": true,
                "failureDomains": {"b": {"controlPlane": true}, "a": {}},
                "conditions": [{"type": "Old"}],
                "v1beta2": {"conditions": [{"type": "New"}]},
            }}),
            json!({"spec": {}, "status": {
                "ready": true,
                "initialization": {"provisioned": true},
                "failureDomains": [{"name": "a"}, {"name": "b", "controlPlane": true}],
                "deprecated": {"v1beta1": {"conditions": [{"type": "Old"}]}},
                "conditions": [{"type": "New"}],
            }}),
        ),
        (
            "VSphereVM",
            json!({"spec": {"bootstrapRef": {"name": "s"}},
                "status": {"failureReason": "r", "failureMessage": "m"}}),
            json!({"spec": {"bootstrapRef": {"name": "s"}},
                "status": {"deprecated": {"v1beta1": {"failureReason": "r", "failureMessage": "m"}}}}),
        ),
    ] {
        assert_eq!(converted(NEW, kind, old.clone()), new, "{kind}");
        assert_eq!(converted(OLD, kind, new.clone()), old, "{kind}");
        let plain = to(NEW, &object(OLD, kind, old));
        assert_eq!(
            annotation(&plain),
            None,
            "{kind}: both versions have all fields"
        );
    }
}

#[test]
fn empty_fields_are_missing_in_the_newer_version() {
    let cluster = json!({"spec": {"server": "v", "controlPlaneEndpoint": {"host": "", "port": 0}}});
    let new = converted(NEW, "VSphereCluster", cluster);
    assert_eq!(new, json!({"spec": {"server": "v"}}));
    let machine = json!({"spec": {
        "datacenter": "", "folder": "", "storagePolicyName": "", "guestSoftPowerOffTimeout": "0s",
        "customVMXKeys": {"k": ""}, "namingStrategy": {},
        "network": {"devices": [{"networkName": "n", "deviceName": ""}]},
    }});
    let expected = json!({"spec": {
        "datacenter": "*", "customVMXKeys": {"k": ""},
        "network": {"devices": [{"networkName": "n"}]},
    }});
    assert_eq!(converted(NEW, "VSphereMachine", machine), expected);
}

#[test]
fn secret_reference_of_the_design_document_is_the_name_of_the_secret() {
    let spec = json!({"spec": {"secretRef": {"name": "s"}, "allowedNamespaces": {}}});
    let given = object(OLD, "VSphereClusterIdentity", spec);
    let mut new = to(NEW, &given);
    let expected = json!({"secretName": "s", "allowedNamespaces": {}});
    assert_eq!(new["spec"], expected);
    assert_eq!(to(OLD, &new), given);
    // After a change in the newer version, the older field would name another Secret.
    new["spec"]["secretName"] = "t".into();
    let old = to(OLD, &new);
    assert_eq!(
        old["spec"],
        json!({"secretName": "t", "allowedNamespaces": {}})
    );
    assert_eq!(to(NEW, &old)["spec"], new["spec"]);
}

#[test]
fn change_in_one_version_keeps_the_other_fields_of_the_other() {
    let content = json!({"spec": {"template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"server": "v", "thumbprint": "t"},
    }}});
    let mut old = to(OLD, &object(NEW, "VSphereClusterTemplate", content));
    assert_eq!(old["spec"]["template"].get("metadata"), None);
    old["spec"]["template"]["spec"]["server"] = "w".into();
    let new = to(NEW, &old);
    assert_eq!(
        new["spec"]["template"]["metadata"],
        json!({"labels": {"a": "b"}})
    );
    assert_eq!(
        new["spec"]["template"]["spec"],
        json!({"server": "w", "thumbprint": "t"})
    );
    assert_eq!(annotation(&new), None);

    let content = json!({"spec": {"guestSoftPowerOffTimeout": "5m", "folder": ""}});
    let mut new = to(NEW, &object(OLD, "VSphereVM", content));
    assert!(annotation(&new).is_some());
    new["spec"]["guestSoftPowerOffTimeoutSeconds"] = 60.into();
    let old = to(OLD, &new);
    assert_eq!(
        old["spec"],
        json!({"guestSoftPowerOffTimeout": "1m0s", "folder": ""})
    );
}

#[test]
fn unusable_annotation_is_removed_and_ignored() {
    let given = object(OLD, "VSphereCluster", json!({"spec": {"server": "v"}}));
    let entry = json!({"path": "/spec/server", "converted": "v", "original": "w"});
    for text in [
        "?".to_owned(),
        "{}".to_owned(),
        json!({"version": "v1beta2", "fields": [entry]}).to_string(),
        json!({"version": "v1beta1", "fields": [{"path": "/spec/x", "original": 1}]}).to_string(),
        json!({"version": "v1beta2", "fields": [{"path": "", "original": 1}]}).to_string(),
    ] {
        let mut forged = given.clone();
        forged["metadata"]["annotations"][ANNOTATION] = text.into();
        assert_eq!(to(NEW, &forged), to(NEW, &given));
    }
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    let given = object(OLD, "VSphereCluster", json!({}));
    for desired in [
        "v1beta2",
        "infrastructure.cluster.x-k8s.io/v1alpha3",
        "apps/v1beta2",
    ] {
        assert!(
            VERSIONS.convert(given.clone(), desired).is_err(),
            "{desired}"
        );
    }
    assert!(
        VERSIONS
            .convert(object(OLD, "Widget", json!({})), NEW)
            .is_err()
    );
    assert!(VERSIONS.convert(json!([]), NEW).is_err());
    assert_eq!(VERSIONS.convert(given.clone(), OLD), Ok(given));
}
