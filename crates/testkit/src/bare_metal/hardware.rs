//! The HardwareData of a host: what its inspection found. It has the name of the host, and survives a
//! move, unlike the status.

use serde_json::{Value, json};

use crate::server::Client;

const FINALIZER: &str = "baremetalhost.metal3.io/hardwareData";

/// Returns the hardware that was recorded for a host.
pub(super) async fn recorded(client: &Client, host: &Value) -> anyhow::Result<Option<Value>> {
    let name = host["metadata"]["name"].as_str().unwrap_or_default();
    let found = client.get(&format!("{}/{name}", collection(host))).await?;
    if found.status == 404 {
        return Ok(None);
    }
    anyhow::ensure!(found.status == 200, "{}", found.text());
    Ok(Some(found.json()["spec"]["hardware"].take()))
}

/// Records the hardware of a host, if the kind is defined.
pub(super) async fn record(client: &Client, host: &Value, hardware: &Value) -> anyhow::Result<()> {
    let (metadata, collection) = (&host["metadata"], collection(host));
    let data = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HardwareData",
        "metadata": {
            "name": metadata["name"], "finalizers": [FINALIZER],
            "ownerReferences": [{
                "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "name": metadata["name"], "uid": metadata["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"hardware": hardware},
    });
    let made = client.post(&collection, &data).await?;
    // It may exist, and the kind may not.
    let is_done = matches!(made.status, 201 | 404 | 409);
    anyhow::ensure!(is_done, "{}", made.text());
    Ok(())
}

/// Lets the HardwareData of a host go that is deleted.
pub(super) async fn release(client: &Client, host: &Value) -> anyhow::Result<()> {
    let name = host["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{}/{name}", collection(host));
    let patch = json!({"metadata": {"finalizers": null}});
    let patched = client.patch(&path, "merge", &patch).await?;
    let is_done = matches!(patched.status, 200 | 404);
    anyhow::ensure!(is_done, "{}", patched.text());
    Ok(())
}

fn collection(host: &Value) -> String {
    let namespace = host["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("/apis/metal3.io/v1alpha1/namespaces/{namespace}/hardwaredata")
}
