//! Keeps volumes and claims until they are no longer in use.
//!
//! The API server adds a finalizer when they are created; this controller removes it from those
//! being deleted: from a claim when no pod uses it, from a volume when it is not bound to a claim,
//! from a VolumeAttributesClass when no claim or volume names it.

use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Result;
use insula_apiserver::write::encoded;
use insula_cache::Stored;
use insula_kinds::core_kind;
use insula_kinds::{Object, Value};
use insula_store::{Outcome, Transaction};
use serde_json::json;

use crate::terminate::finalizers;

/// Whether the finalizer is one of the control plane's own.
pub fn is_own(finalizer: &str) -> bool {
    matches!(
        finalizer,
        "kubernetes.io/pvc-protection"
            | "kubernetes.io/pv-protection"
            | "kubernetes.io/vac-protection"
            | insula_custom::condition::FINALIZER
    )
}

/// Removes the protection finalizer of an object that is being deleted, if it is not in use.
/// Returns whether no work is left.
pub async fn release(registry: &Registry, address: &Address) -> Result<bool> {
    loop {
        let Some(object) = registry.cached(address) else {
            return Ok(true);
        };
        let tree = object.tree();
        if !object.is_terminating() || !finalizers(&tree, "metadata").any(is_own) {
            return Ok(true);
        }
        if is_in_use(registry, address, &tree) {
            return Ok(false);
        }
        match registry
            .commit(without_finalizer(registry, address, &object, tree))
            .await?
        {
            Outcome::Committed(_) | Outcome::Unchanged(_) => return Ok(true),
            Outcome::Conflict(conflict) => registry.cache().await_applied(conflict.revision).await,
        }
    }
}

fn without_finalizer(
    registry: &Registry,
    address: &Address,
    object: &Stored,
    mut tree: Object,
) -> Transaction {
    let key = registry.key(address);
    let others = finalizers(&tree, "metadata").filter(|name| !is_own(name));
    let others: Vec<String> = others.map(str::to_owned).collect();
    if others.is_empty() {
        return Transaction::remove(key, object.revision);
    }
    if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("finalizers".to_owned(), json!(others));
        metadata.remove("resourceVersion");
    }
    Transaction::update(key, object.revision, encoded(address.of(), &tree))
}

fn is_in_use(registry: &Registry, address: &Address, tree: &Object) -> bool {
    let name = address.name.as_str();
    let any_object = |resource: &str, prefix: &str, uses: &dyn Fn(&Object) -> bool| {
        let found = registry.cache().find(core_kind(resource), &address.space);
        let objects = found.map(|of| of.snapshot(prefix, None).objects);
        let mut objects = objects.unwrap_or_default().into_iter();
        objects.any(|object| uses(&object.tree()))
    };
    match (address.of().kind.as_str(), &address.namespace) {
        ("PersistentVolumeClaim", Some(namespace)) => {
            let prefix = format!("{namespace}/");
            any_object("pods", &prefix, &|pod| uses_claim(pod, name))
        }
        ("PersistentVolume", _) => string_field(tree, "status", "phase") == Some("Bound"),
        ("VolumeAttributesClass", _) => {
            let names = |part: &str, member: &str, of: &Object| {
                string_field(of, part, member) == Some(name)
            };
            let requested = |of: &Object| names("spec", "volumeAttributesClassName", of);
            let has = |of: &Object| names("status", "currentVolumeAttributesClassName", of);
            any_object("persistentvolumes", "", &requested)
                || any_object("persistentvolumeclaims", "", &|claim| {
                    requested(claim) || has(claim)
                })
        }
        _ => false,
    }
}

fn string_field<'a>(object: &'a Object, part: &str, member: &str) -> Option<&'a str> {
    object.get(part)?.get(member)?.as_str()
}

/// Whether a pod uses the claim. An unscheduled pod does not, as in Kubernetes: no node starts it
/// with a claim that is being deleted.
fn uses_claim(pod: &Object, claim: &str) -> bool {
    let Some(spec) = pod.get("spec") else {
        return false;
    };
    let is_scheduled = spec["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let mut volumes = spec["volumes"].as_array().into_iter().flatten();
    is_scheduled && volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
}
