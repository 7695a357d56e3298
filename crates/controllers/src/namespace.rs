//! Deletes namespaces that are being deleted.
//!
//! Pods are deleted first and everything else when they are gone, as in Kubernetes: objects that
//! protect pods, such as network policies, must outlive them. Nothing runs pods here, so they are
//! deleted without a grace period. The empty namespace is removed last.

use insula_apiserver::Registry;
use insula_apiserver::registry::namespace_address;
use insula_apiserver::registry::resource::Resource;
use insula_apiserver::status::Result;
use insula_apiserver::write::bootstrap_objects;
use insula_core::Space;
use insula_kinds::core_kind;
use insula_kinds::time;

use crate::conditions;
use crate::terminate::{DeletionScope, finalize, finalizers, kinds_in, uid};

/// The finalizer of a namespace that is not empty.
const FINALIZER: &str = "kubernetes";

/// Advances the deletion of a namespace as far as possible. Returns whether it is finished.
pub async fn terminate(registry: &Registry, space: &Space, name: &str) -> Result<bool> {
    let address = namespace_address(space, name);
    let Some(object) = registry.cached(&address) else {
        return Ok(true);
    };
    let tree = object.tree();
    let (Some(uid), true) = (uid(&tree), object.is_terminating()) else {
        return Ok(true);
    };
    if !finalizers(&tree, "spec").any(|finalizer| finalizer == FINALIZER) {
        // Only other controllers' finalizers are left; the namespace is removed with the last.
        return Ok(true);
    }
    let scope = DeletionScope {
        registry,
        space,
        namespace: Some(name),
    };
    let mut remaining = scope.empty(&[core_kind("pods").into()]).await?;
    if remaining.is_empty() {
        remaining = scope.empty(&content(&scope)).await?;
    }
    conditions::write(
        registry,
        &address,
        uid,
        &conditions::for_namespace(&remaining),
    )
    .await?;
    if remaining.is_empty() {
        finalize(registry, &address, uid, FINALIZER).await?;
        if space.is_system() {
            // The server needs some namespaces, and one of those can be deleted.
            bootstrap_objects::bootstrap(registry, &time::now()).await?;
        }
    }
    Ok(remaining.is_empty())
}

/// Every namespaced kind.
fn content(scope: &DeletionScope<'_>) -> Vec<Resource> {
    let kinds = kinds_in(scope.registry, scope.space);
    kinds.filter(|kind| kind.namespaced()).collect()
}
