//! Objects of users, and what is read of them.

use serde_json::{Value, json};

const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Returns a cluster with machines on hosts of a kubeconfig or of its own namespace, and metadata
/// for them.
pub fn cluster(identity: Option<&str>, replicas: u32) -> Vec<Value> {
    let at = |name: &str| json!({"name": name, "namespace": "red"});
    let reference = |kind: &str, name: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name});
    let mut spec = json!({"controlPlaneEndpoint": {"host": "prod.example.com", "port": 6443}});
    if let Some(name) = identity {
        spec["identityRef"] = json!({"name": name});
    }
    let labels = json!({"workers": "own", "cluster.x-k8s.io/cluster-name": "prod"});
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red"}}),
        json!({
            "apiVersion": CAPI, "kind": "Cluster", "metadata": at("prod"),
            "spec": {"infrastructureRef": reference("Metal3Cluster", "prod")},
        }),
        json!({
            "apiVersion": INFRA, "kind": "Metal3Cluster", "metadata": at("prod"), "spec": spec,
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": at("user-data"),
            "stringData": {"value": "#cloud-config", "format": "cloud-config"},
        }),
        json!({
            "apiVersion": INFRA, "kind": "Metal3DataTemplate", "metadata": at("own"),
            "spec": {"clusterName": "prod", "metaData": {"objectNames": [{"key": "host", "object": "baremetalhost"}]}},
        }),
        json!({
            "apiVersion": INFRA, "kind": "Metal3MachineTemplate", "metadata": at("own"),
            "spec": {"template": {"spec": {
                "image": {
                    "url": "http://images.example.com/node.raw", "checksum": "c",
                    "checksumType": "md5", "diskFormat": "raw",
                },
                "dataTemplate": {"name": "own"},
            }}},
        }),
        json!({
            "apiVersion": CAPI, "kind": "MachineDeployment", "metadata": at("own"),
            "spec": {
                "clusterName": "prod", "replicas": replicas,
                "rollout": {"strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
                }},
                "selector": {"matchLabels": {"workers": "own"}},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "clusterName": "prod", "bootstrap": {"dataSecretName": "user-data"},
                    "infrastructureRef": reference("Metal3MachineTemplate", "own"),
                }},
            },
        }),
    ]
}

/// Prints the hosts with state and consumer, one in each line.
pub const HOSTS: &str = "get baremetalhosts -o 'jsonpath={range .items[*]}{.metadata.name}:\
                     {.status.provisioning.state}:{.spec.consumerRef.name}{\"\\n\"}{end}'";

/// Returns namespace, host and machine of a provider ID.
pub fn path_of(id: &str) -> [&str; 3] {
    let path = id.strip_prefix("metal3://").unwrap();
    let parts: Vec<_> = path.split('/').collect();
    parts.try_into().unwrap()
}
