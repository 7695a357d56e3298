use serde_json::json;

use super::cluster::Metal3Cluster;
use super::machine::{Metal3Machine, Metal3MachineTemplate};
use super::remediation::RemediationStrategy;

#[test]
fn invalid_status_does_not_hide_the_object() {
    let condition = |kind: &str, at: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": at,
        })
    };
    let cluster: Metal3Cluster = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Cluster",
        "metadata": {"name": "c"},
        "spec": {"identityRef": {"name": "hosts", "context": "pool-a"}},
        "status": {
            "lastUpdated": "yesterday",
            "initialization": {"provisioned": true},
            "conditions": [condition("Odd", "?"), condition("Ready", "2026-01-01T00:00:00Z"), 5],
            "deprecated": {"v1beta1": {"conditions": [{"type": "Ready", "severity": "?"}]}},
        },
    }))
    .unwrap();
    let identity = cluster.spec.identity_ref.unwrap();
    assert_eq!(identity.name, "hosts");
    assert_eq!(identity.context.as_deref(), Some("pool-a"));
    let status = cluster.status.unwrap();
    assert_eq!(status.last_updated, None);
    assert_eq!(status.deprecated, None);
    assert!(status.initialization.unwrap().is_done());
    let kinds: Vec<_> = status.conditions.iter().map(|it| &*it.type_).collect();
    assert_eq!(kinds, ["Ready"]);
}

#[test]
fn missing_fields_are_not_written() {
    let spec = serde_json::to_value(&Metal3Machine::default().spec).unwrap();
    assert_eq!(spec, json!({}));
    let spec = serde_json::to_value(&Metal3MachineTemplate::default().spec).unwrap();
    assert_eq!(spec, json!({"template": {"spec": {}}, "nodeReuse": false}));
}

#[test]
fn missing_fields_of_a_strategy_have_the_defaults_of_the_definition() {
    let strategy: RemediationStrategy = serde_json::from_value(json!({})).unwrap();
    assert_eq!(
        serde_json::to_value(strategy).unwrap(),
        json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 600})
    );
}
