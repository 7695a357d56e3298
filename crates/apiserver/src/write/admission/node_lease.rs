//! The namespace `kube-node-lease` of a tenant's space, for the leases of nodes.
//!
//! Kubelets need the namespace and cannot create it. A tenant without nodes has none, so it is
//! created with its first object, and again if it was deleted.

use insula_kinds::time;
use insula_store::{Expect, Outcome, Transaction};

use super::Admission;
use crate::pipeline::node_authorizer::LEASE_NAMESPACE;
use crate::registry::{namespace_address, tenant_address};
use crate::status::Result;
use crate::write::bootstrap_objects::put_namespace;

/// Whether an object is created in the namespace and the namespace is missing.
pub fn applies(admission: &Admission<'_>) -> bool {
    let address = admission.address;
    super::is_create(admission)
        && address.namespace.as_deref() == Some(LEASE_NAMESPACE)
        && !admission.dry_run
        && !address.space.is_system()
        && {
            let namespace = namespace_address(&address.space, LEASE_NAMESPACE);
            admission.registry.cached(&namespace).is_none()
        }
}

/// Creates the namespace, as far as the tenant takes new objects. Whether it takes this one is
/// checked later, as in any other namespace.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let (registry, space) = (admission.registry, &admission.address.space);
    let Some(tenant) = space.tenant() else {
        return Ok(());
    };
    let name = tenant.as_str();
    let found = registry.find_tenant(name).await?;
    let Some(tenant) = found.filter(|tenant| !tenant.terminating) else {
        return Ok(());
    };
    let namespace = registry.key(&namespace_address(space, LEASE_NAMESPACE));
    let transaction = Transaction::new().check(namespace, Expect::Absent).check(
        registry.key(&tenant_address(name)),
        Expect::At(tenant.object.revision),
    );
    let transaction = put_namespace(registry, transaction, space, LEASE_NAMESPACE, &time::now());
    // A conflict means that another request created it, or that the tenant has changed.
    let written = match registry.commit(transaction).await? {
        Outcome::Committed(revision) | Outcome::Unchanged(revision) => revision,
        Outcome::Conflict(conflict) => conflict.revision,
    };
    registry.cache().await_applied(written).await;
    Ok(())
}
