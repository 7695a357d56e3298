mod samples;

use insula_operator::webhook::versions::Version;
use proptest::prelude::*;

use super::*;

const ANNOTATION: &str = VERSIONS.annotation;
const OLD: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const NEW: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

const KINDS: [&str; 9] = [
    "Metal3Cluster",
    "Metal3ClusterTemplate",
    "Metal3Machine",
    "Metal3MachineTemplate",
    "Metal3DataTemplate",
    "Metal3DataClaim",
    "Metal3Data",
    "Metal3Remediation",
    "Metal3RemediationTemplate",
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
        let fields = samples::values(version, kind);
        let choices = proptest::collection::vec(0..24_usize, fields.len());
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
            "Metal3Cluster",
            json!({
                "spec": {
                    "controlPlaneEndpoint": {"host": "h", "port": 6443},
                    "cloudProviderEnabled": true,
                    "noCloudProvider": false,
                    "failureDomains": {"b": {"controlPlane": true}, "a": {}},
                    "identityRef": {"name": "s", "context": "c"},
                },
                "status": {
                    "ready": true,
                    "lastUpdated": "2026-01-01T00:00:00Z",
                    "failureDomains": {"a": {"attributes": {"k": "v"}}},
                    "failureReason": "r",
                    "failureMessage": "m",
                    "conditions": [{"type": "Old"}],
                    "v1beta2": {"conditions": [{"type": "New"}]},
                },
            }),
            json!({
                "spec": {
                    "controlPlaneEndpoint": {"host": "h", "port": 6443},
                    "cloudProviderEnabled": true,
                    "failureDomains": [{"name": "a"}, {"name": "b", "controlPlane": true}],
                    "identityRef": {"name": "s", "context": "c"},
                },
                "status": {
                    "initialization": {"provisioned": true},
                    "lastUpdated": "2026-01-01T00:00:00Z",
                    "failureDomains": [{"name": "a", "attributes": {"k": "v"}}],
                    "conditions": [{"type": "New"}],
                    "deprecated": {"v1beta1": {
                        "failureReason": "r", "failureMessage": "m",
                        "conditions": [{"type": "Old"}],
                    }},
                },
            }),
        ),
        (
            "Metal3ClusterTemplate",
            json!({"spec": {"template": {"spec": {"failureDomains": {"a": {}}}}}}),
            json!({"spec": {"template": {"spec": {"failureDomains": [{"name": "a"}]}}}}),
        ),
        (
            "Metal3Machine",
            json!({
                "spec": {"image": {"url": "u", "format": "live-iso"}},
                "status": {"ready": false, "renderedData": {"name": "d", "namespace": "n"}},
            }),
            json!({
                "spec": {"image": {"url": "u", "diskFormat": "live-iso"}},
                "status": {
                    "initialization": {"provisioned": false},
                    "renderedData": {"name": "d", "namespace": "n"},
                },
            }),
        ),
        (
            "Metal3MachineTemplate",
            json!({"spec": {"nodeReuse": true, "template": {"spec": {
                "image": {"url": "u", "format": "raw"}, "identityRef": {"name": "s"},
            }}}}),
            json!({"spec": {"nodeReuse": true, "template": {"spec": {
                "image": {"url": "u", "diskFormat": "raw"}, "identityRef": {"name": "s"},
            }}}}),
        ),
        (
            "Metal3DataTemplate",
            json!({
                "spec": {
                    "clusterName": "c",
                    "metaData": {
                        "ipAddressesFromIPPool": [{"key": "a"}],
                        "prefixesFromIPPool": [{"key": "b"}],
                        "gatewaysFromIPPool": [{"key": "c"}],
                        "dnsServersFromIPPool": [{"key": "d"}],
                    },
                    "networkData": {"links": {"bonds": [
                        {"id": "i", "parameters": {"miimon": 100, "lacp_rate": "fast"}},
                    ]}},
                },
                "status": {"indexes": {"a": 2, "b": 0}},
            }),
            json!({
                "spec": {
                    "clusterName": "c",
                    "metaData": {
                        "ipAddressesFromPool": [{"key": "a"}],
                        "prefixesFromPool": [{"key": "b"}],
                        "gatewaysFromPool": [{"key": "c"}],
                        "dnsServersFromPool": [{"key": "d"}],
                    },
                    "networkData": {"links": {"bonds": [{"id": "i", "parameters": [
                        {"name": "lacp_rate", "value": "fast"}, {"name": "miimon", "value": 100},
                    ]}]}},
                },
                "status": {"indexes": [{"name": "b", "index": 0}, {"name": "a", "index": 2}]},
            }),
        ),
        (
            "Metal3DataClaim",
            json!({"spec": {"template": {"name": "t"}}, "status": {"renderedData": {"name": "d"}}}),
            json!({"spec": {"template": {"name": "t"}}, "status": {"renderedData": {"name": "d"}}}),
        ),
        (
            "Metal3Data",
            json!({"spec": {"index": 0, "template": {"name": "t"}}, "status": {"ready": true}}),
            json!({"spec": {"index": 0, "template": {"name": "t"}}, "status": {"ready": true}}),
        ),
        (
            "Metal3Remediation",
            json!({"spec": {"strategy": {"type": "Reboot", "retryLimit": 2, "timeout": "5m0s"}},
                "status": {"phase": "Running", "retryCount": 1}}),
            json!({"spec": {"strategy": {"type": "Reboot", "retryLimit": 2, "timeoutSeconds": 300}},
                "status": {"phase": "Running", "retryCount": 1}}),
        ),
        (
            "Metal3RemediationTemplate",
            json!({"spec": {"template": {"spec": {"strategy": {"timeout": "1m40s"}}}},
                "status": {"status": {"phase": "Failed"}}}),
            json!({"spec": {"template": {"spec": {"strategy": {"timeoutSeconds": 100}}}},
                "status": {"status": {"phase": "Failed"}}}),
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
fn fields_that_only_the_older_version_has_are_left_out() {
    for (kind, old, new) in [
        (
            "Metal3Cluster",
            json!({"spec": {"controlPlaneEndpoint": {"host": "", "port": 0}}}),
            json!({"spec": {}}),
        ),
        (
            "Metal3Cluster",
            json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 0}}}),
            json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}}}),
        ),
        (
            "Metal3Cluster",
            json!({"spec": {"noCloudProvider": false}}),
            json!({"spec": {"cloudProviderEnabled": true}}),
        ),
        (
            "Metal3Cluster",
            json!({"spec": {"noCloudProvider": true, "cloudProviderEnabled": true}}),
            json!({"spec": {"cloudProviderEnabled": true}}),
        ),
        (
            "Metal3Machine",
            json!({
                "spec": {
                    "providerID": "", "failureDomain": "", "image": {"url": ""},
                    "dataTemplate": {"apiVersion": "v", "kind": "K", "name": "t", "namespace": ""},
                    "userData": {"name": "s", "namespace": ""},
                },
                "status": {"phase": "Running", "renderedData": {"kind": "Metal3Data"}},
            }),
            json!({
                "spec": {"dataTemplate": {"name": "t"}, "userData": {"name": "s"}},
                "status": {},
            }),
        ),
        (
            "Metal3DataTemplate",
            json!({"spec": {"clusterName": "c", "templateReference": "t"}}),
            json!({"spec": {"clusterName": "c"}}),
        ),
        (
            "Metal3Data",
            json!({"spec": {"templateReference": "t", "claim": {}, "template": {"name": ""}}}),
            json!({"spec": {}}),
        ),
        (
            "Metal3Remediation",
            json!({
                "spec": {"strategy": {"type": "", "retryLimit": 0, "timeout": "0s"}},
                "status": {"phase": ""},
            }),
            json!({
                "spec": {"strategy": {"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600}},
                "status": {},
            }),
        ),
    ] {
        assert_eq!(converted(NEW, kind, old.clone()), new, "{kind}");
        let given = object(OLD, kind, old);
        let there = to(NEW, &given);
        assert!(annotation(&there).is_some(), "{kind}");
        assert_eq!(to(OLD, &there), given, "{kind}");
    }
}

#[test]
fn change_in_one_version_keeps_the_other_fields_of_the_other() {
    let content = json!({"spec": {"template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"failureDomains": [{"name": "b"}, {"name": "a"}]},
    }}});
    let mut old = to(OLD, &object(NEW, "Metal3ClusterTemplate", content));
    assert_eq!(
        old["spec"]["template"],
        json!({"spec": {"failureDomains": {"a": {}, "b": {}}}})
    );
    old["spec"]["template"]["spec"]["identityRef"] = json!({"name": "s"});
    let new = to(NEW, &old);
    assert_eq!(
        new["spec"]["template"],
        json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "failureDomains": [{"name": "b"}, {"name": "a"}],
                "identityRef": {"name": "s"},
            },
        })
    );
    assert_eq!(annotation(&new), None);

    let content = json!({"spec": {"noCloudProvider": true}});
    let mut new = to(NEW, &object(OLD, "Metal3Cluster", content));
    assert_eq!(new["spec"], json!({"cloudProviderEnabled": false}));
    new["spec"]["cloudProviderEnabled"] = true.into();
    let old = to(OLD, &new);
    assert_eq!(
        old["spec"],
        json!({"cloudProviderEnabled": true, "noCloudProvider": false})
    );
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    let given = object(OLD, "Metal3Cluster", json!({}));
    for desired in [
        "v1beta2",
        "infrastructure.cluster.x-k8s.io/v1alpha5",
        "ipam.metal3.io/v1beta2",
    ] {
        let refused = VERSIONS.convert(given.clone(), desired);
        let expected = format!("{desired:?} is no version of infrastructure.cluster.x-k8s.io");
        assert_eq!(refused, Err(expected));
    }
    let refused = VERSIONS.convert(object(OLD, "VSphereCluster", json!({})), NEW);
    let expected = "the kind \"VSphereCluster\" has one version";
    assert_eq!(refused, Err(expected.to_owned()));
}
