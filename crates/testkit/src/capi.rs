//! The kinds of Cluster API, as small as the tests allow.

use serde_json::{Value, json};

/// The API group of these kinds.
pub const GROUP: &str = "cluster.x-k8s.io";

/// The definition of `clusters.cluster.x-k8s.io`.
pub fn clusters() -> Value {
    definition("clusters", "Cluster")
}

/// The definition of `machines.cluster.x-k8s.io`.
pub fn machines() -> Value {
    definition("machines", "Machine")
}

/// All definitions.
pub fn definitions() -> [Value; 2] {
    [clusters(), machines()]
}

/// The same, and the definitions of the objects that create machines.
pub fn all_definitions() -> [Value; 4] {
    [
        clusters(),
        machines(),
        definition("machinesets", "MachineSet"),
        definition("machinedeployments", "MachineDeployment"),
    ]
}

/// The definition of `machinehealthchecks.cluster.x-k8s.io`.
pub fn health_checks() -> Value {
    definition("machinehealthchecks", "MachineHealthCheck")
}

/// A namespaced kind without validation, published to every tenant.
fn definition(plural: &str, kind: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": anything, "status": anything}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{GROUP}"),
            "labels": {
                "cluster.x-k8s.io/provider": "cluster-api",
                "cluster.x-k8s.io/v1beta2": "v1beta2",
            },
            "annotations": {"multi-tenancy.k8s.io/published": "true"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "categories": ["cluster-api"]},
            "versions": [{
                "name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}
