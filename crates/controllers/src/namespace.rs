//! Namespaces that are being deleted.
//!
//! Pods go first, and everything else when they are gone, as in Kubernetes: what protects
//! pods, such as network policies, must not go before them. Nothing runs pods here, so they
//! go without the time that they would have to end. When the namespace is empty it goes
//! itself.

use insula_apiserver::Registry;
use insula_apiserver::registry::namespace_address;
use insula_apiserver::registry::resource::Resource;
use insula_apiserver::status::Result;
use insula_apiserver::write::bootstrap_objects;
use insula_core::Space;
use insula_kinds::core_kind;
use insula_kinds::time;

use crate::conditions;
use crate::terminate::{Extent, finalize, finalizers, kinds_in, uid};

/// What holds a namespace until it is empty.
const FINALIZER: &str = "kubernetes";

/// Goes as far as it can with a namespace that is being deleted. Says whether there is
/// nothing left to do.
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
        // Others hold it; it goes with the last of them.
        return Ok(true);
    }
    let extent = Extent {
        registry,
        space,
        namespace: Some(name),
    };
    let mut left = extent.empty(&[core_kind("pods").into()]).await?;
    if left.is_nothing() {
        left = extent.empty(&content(&extent)).await?;
    }
    conditions::write(registry, &address, uid, &conditions::of_namespace(&left)).await?;
    if left.is_nothing() {
        finalize(registry, &address, uid, FINALIZER).await?;
        if space.is_system() {
            // The server needs some of them, and one of these can be deleted.
            bootstrap_objects::bootstrap(registry, &time::now()).await?;
        }
    }
    Ok(left.is_nothing())
}

/// Everything that lives in namespaces.
fn content(extent: &Extent<'_>) -> Vec<Resource> {
    let kinds = kinds_in(extent.registry, extent.space);
    kinds.filter(|kind| kind.namespaced()).collect()
}
