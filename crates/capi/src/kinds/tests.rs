use serde_json::{Value, json};

use super::*;

fn cluster(spec: Value, status: Value) -> Cluster {
    let metadata = json!({"name": "c", "namespace": "team"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

#[test]
fn references_of_both_versions_are_read() {
    for (reference, expected) in [
        (
            json!({"apiGroup": "infra.test", "kind": "InfraCluster", "name": "i"}),
            ("infra.test", None),
        ),
        (
            json!({
                "apiVersion": "infra.test/v1beta1", "kind": "InfraCluster", "name": "i",
                "namespace": "team", "uid": "1",
            }),
            ("infra.test", Some("team")),
        ),
        (
            json!({"apiVersion": "v1", "kind": "InfraCluster", "name": "i", "namespace": ""}),
            ("", None),
        ),
    ] {
        let read = cluster(json!({"infrastructureRef": reference}), json!({}));
        let read = read.spec.infrastructure_ref.unwrap();
        let found = (read.api_group.as_str(), read.namespace.as_deref());
        assert_eq!(found, expected, "{reference}");
        let name = (read.kind.as_str(), read.name.as_str());
        assert_eq!(name, ("InfraCluster", "i"));
    }
}

#[test]
fn initialization_of_both_versions_is_read() {
    let initialized = |status: &str| {
        json!([
            {"type": "ControlPlaneInitialized", "status": status, "severity": "Info",
             "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "no time"},
        ])
    };
    for (status, expected) in [
        (json!({}), (false, false)),
        (json!({"initialization": {}}), (false, false)),
        (
            json!({"initialization": {"infrastructureProvisioned": true}}),
            (true, false),
        ),
        (
            json!({"initialization": {
                "infrastructureProvisioned": true, "controlPlaneInitialized": true,
            }}),
            (true, true),
        ),
        (json!({"infrastructureReady": true}), (true, false)),
        (json!({"infrastructureReady": false}), (false, false)),
        (
            json!({"infrastructureReady": true, "conditions": initialized("True")}),
            (true, true),
        ),
        (
            json!({"controlPlaneReady": true, "conditions": initialized("False")}),
            (false, false),
        ),
    ] {
        let read = cluster(json!({}), status.clone());
        let found = (
            read.is_infrastructure_provisioned(),
            read.is_control_plane_initialized(),
        );
        assert_eq!(found, expected, "{status}");
    }
}

#[test]
fn machines_of_both_versions_are_read() {
    let node = [
        json!({"name": "n"}),
        json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}),
    ];
    for node in node {
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"name": "m", "labels": {CONTROL_PLANE_LABEL: ""}},
            "spec": {
                "clusterName": "c", "failureDomain": "z", "providerID": "test://1",
                "bootstrap": {"configRef": {"kind": "KubeadmConfig"}, "dataSecretName": "data"},
            },
            "status": {"nodeRef": node, "phase": "Running"},
        }))
        .unwrap();
        assert_eq!(machine.bootstrap_secret(), Some("data"));
        assert_eq!(machine.failure_domain(), Some("z"));
        assert_eq!(machine.node_name(), Some("n"));
        assert!(machine.is_control_plane());
    }
    let empty: Machine = serde_json::from_value(json!({
        "metadata": {"name": "m"},
        "spec": {"bootstrap": {"dataSecretName": ""}, "failureDomain": ""},
    }))
    .unwrap();
    assert_eq!(empty.bootstrap_secret(), None);
    assert_eq!(empty.failure_domain(), None);
    assert_eq!(empty.node_name(), None);
    assert!(!empty.is_control_plane());
}
