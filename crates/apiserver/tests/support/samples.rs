//! A minimal object of every kind.

use std::fs;

use anyhow::Context;
use insula_kinds::Kind;
use serde_json::{Value, json};

/// A valid object of the kind, including its name.
pub fn sample(kind: &Kind) -> anyhow::Result<Value> {
    small(kind).map_or_else(|| recorded(kind), Ok)
}

/// The path prefix of the kind's group and version.
pub fn api(kind: &Kind) -> String {
    match kind.group.as_str() {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/{}", kind.version),
    }
}

/// Minimal objects of the kinds without a recorded one.
fn small(kind: &Kind) -> Option<Value> {
    let pod = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let selector = json!({"matchLabels": {"a": "b"}});
    let rest = match kind.kind.as_str() {
        "Pod" => json!({"spec": pod["spec"]}),
        "ConfigMap" | "ResourceQuota" | "Role" | "Namespace" => json!({}),
        "CredentialRevocation" => json!({"spec": {"user": "not-a-user"}}),
        // Every other sample is named `x`, and the system namespace of that name would collide.
        "Tenant" => json!({"metadata": {"name": "another"}}),
        "DaemonSet" => json!({"spec": {"selector": selector, "template": pod}}),
        "Job" => {
            let mut template = json!({"spec": pod["spec"]});
            template["spec"]["restartPolicy"] = "Never".into();
            json!({"spec": {"template": template}})
        }
        "Ingress" => {
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}})
        }
        "IPAddress" => json!({
            "metadata": {"name": "10.0.0.1"},
            "spec": {"parentRef": {"resource": "services", "name": "s", "namespace": "n"}},
        }),
        "CSIStorageCapacity" => json!({"storageClassName": "s"}),
        "VolumeAttachment" => json!({
            "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
        }),
        "VolumeAttributesClass" => json!({"driverName": "d", "parameters": {"a": "b"}}),
        "PriorityClass" => json!({"value": 1}),
        "RuntimeClass" => json!({"handler": "h"}),
        "EndpointSlice" => json!({"addressType": "IPv4", "endpoints": []}),
        "ResourceClaimTemplate" => json!({"spec": {"spec": {}}}),
        "ResourceSlice" => json!({"spec": {
            "driver": "d", "nodeName": "n",
            "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1},
        }}),
        "ValidatingWebhookConfiguration" => json!({"webhooks": []}),
        "MutatingAdmissionPolicy" => json!({"spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods"],
            }]},
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{}"},
            }],
        }}),
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p"}}),
        _ => return None,
    };
    let mut object = json!({"metadata": {"name": "x"}});
    for (member, value) in rest.as_object().into_iter().flatten() {
        object[member] = value.clone();
    }
    Some(object)
}

/// An object that Kubernetes accepted.
fn recorded(kind: &Kind) -> anyhow::Result<Value> {
    let group = match (kind.group.as_str(), kind.version.as_str()) {
        ("", _) => "core",
        ("autoscaling", "v1") => "autoscaling-v1",
        (group, _) => group,
    };
    let path = format!(
        "{}/../kinds/tests/data/defaults/{group}_{}.in.json",
        env!("CARGO_MANIFEST_DIR"),
        kind.kind
    );
    Ok(serde_json::from_slice(
        &fs::read(&path).with_context(|| path)?,
    )?)
}
