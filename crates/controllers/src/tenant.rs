//! A tenant that is being deleted: everything in its space goes, then it goes.

use insula_apiserver::Registry;
use insula_apiserver::registry::{core_kind, tenant_address};
use insula_apiserver::status::Refusal;
use insula_core::{Space, TenantName};
use insula_kinds::{kinds, prepare};

use crate::Step;
use crate::conditions::Wording;
use crate::content;
use crate::namespace::{self, conclude};

const WORDING: Wording = Wording {
    prefix: "Tenant",
    called: "tenant",
};

/// Removes what can be removed, and the tenant itself if nothing is left.
///
/// Nothing comes about in the space meanwhile: whoever creates there checks, in the same
/// transaction, that the tenant has not begun to terminate.
pub async fn step(registry: &Registry, name: &TenantName) -> Result<Step, Refusal> {
    let address = tenant_address(name.as_str());
    let Some(found) = registry.fresh(&address).await? else {
        return Ok(Step::Done);
    };
    let tree = found.tree();
    let held = namespace::holds(&tree, prepare::TENANT_FINALIZER);
    if !namespace::is_terminating(&tree) || !held {
        return Ok(Step::Done);
    }
    let space = Space::Tenant(name.clone());
    let namespaces = core_kind("namespaces");
    let is_namespace = |kind: &insula_kinds::Kind| std::ptr::eq(kind, kinds().get(namespaces));
    let mut remaining = content::remove(registry, &space, None, |kind| !is_namespace(kind)).await?;
    if remaining.is_empty() {
        // They are empty, so nothing has to finalize them one by one.
        release_namespaces(registry, &space).await?;
        remaining = content::remove(registry, &space, None, is_namespace).await?;
    }
    conclude(
        registry,
        &address,
        WORDING,
        prepare::TENANT_FINALIZER,
        &remaining,
    )
    .await
}

/// Lets the space's namespaces go, in one transaction where nobody else holds them.
async fn release_namespaces(registry: &Registry, space: &Space) -> Result<(), Refusal> {
    content::drop_namespaces(registry, space).await
}
