//! Deletes the whole space of tenants that are being deleted.
//!
//! The tenant's users and controllers need service accounts and RBAC objects to remove their
//! finalizers and to watch the deletion, so these are deleted after everything else, cluster-scoped
//! RBAC at the end. Revocations of credentials go after all rights, so that no revoked user gets
//! in again, and then the tenant itself.

use insula_apiserver::Registry;
use insula_apiserver::registry::access_kinds::{access_record_address, tenant_accesses};
use insula_apiserver::registry::resource::Resource;
use insula_apiserver::registry::tenant_address;
use insula_apiserver::status::Result;
use insula_apiserver::write::{DeleteOptions, remove};
use insula_cache::CollectionKey;
use insula_core::{Place, ResourceName, Space};
use insula_kinds::prepare::TENANT_FINALIZER;
use insula_kinds::{Kind, kinds};
use insula_store::Transaction;

use crate::conditions;
use crate::terminate::{DeletionScope, Remaining, finalize, finalizers, kinds_in, uid};

/// Advances the deletion of a tenant as far as possible. Returns whether it is finished.
pub async fn terminate(registry: &Registry, name: &str) -> Result<bool> {
    let address = tenant_address(name);
    let Some(object) = registry.cached(&address) else {
        return Ok(true);
    };
    let tree = object.tree();
    let (Some(uid), true) = (uid(&tree), object.is_terminating()) else {
        return Ok(true);
    };
    // The system space cannot be deleted, even if a tenant object of its name is marked.
    let Ok(space @ Space::Tenant(_)) = Space::parse(name) else {
        return Ok(true);
    };
    if !finalizers(&tree, "spec").any(|finalizer| finalizer == TENANT_FINALIZER) {
        // Only other controllers' finalizers are left; the tenant is removed with the last.
        return Ok(true);
    }
    let scope = DeletionScope {
        registry,
        space: &space,
        namespace: None,
    };
    let remaining = empty_stages(&scope).await?;
    if remaining.is_empty() {
        remove_undefined(&scope).await?;
        remove_fence(registry, &space).await?;
        remove_access_record(registry, &space).await?;
    }
    let held = finalizers(&tree, "spec").any(|finalizer| finalizer != TENANT_FINALIZER)
        || finalizers(&tree, "metadata").next().is_some();
    if held || !remaining.is_empty() {
        conditions::write(registry, &address, uid, &conditions::for_tenant(&remaining)).await?;
    }
    if remaining.is_empty() {
        finalize(registry, &address, uid, TENANT_FINALIZER).await?;
    }
    Ok(remaining.is_empty())
}

/// Empties one stage after the other, each when the one before is empty.
async fn empty_stages(scope: &DeletionScope<'_>) -> Result<Remaining> {
    let mut remaining = Remaining::default();
    for stage in STAGES {
        let kinds = kinds_in(scope.registry, scope.space);
        let kinds: Vec<Resource> = kinds.filter(|kind| stage_of(kind) == stage).collect();
        remaining = scope.empty(&kinds).await?;
        if !remaining.is_empty() {
            break;
        }
    }
    Ok(remaining)
}

/// Removes custom objects without a definition: they cannot be read any more, so their finalizers
/// cannot be removed, and the next tenant of the name must not inherit them.
async fn remove_undefined(scope: &DeletionScope<'_>) -> Result<()> {
    let (cache, layout) = (scope.registry.cache(), scope.registry.layout());
    for (group, resource) in cache.custom_resources(scope.space) {
        let (group, resource) = (&*group, &*resource);
        let Some(objects) = cache.find(CollectionKey::Custom { group, resource }, scope.space)
        else {
            continue;
        };
        let objects = objects.snapshot("", None).objects;
        for batch in objects.chunks(DELETE_BATCH) {
            let keys = batch.iter().map(|object| {
                let place = Place {
                    space: scope.space.clone(),
                    namespace: object.namespace(),
                    name: object.name(),
                };
                layout.key(ResourceName { group, resource }, &place)
            });
            let removal = keys.fold(Transaction::new(), |all, key| all.delete(key));
            scope.registry.commit(removal).await?;
        }
    }
    Ok(())
}

/// Removes the key that serialises the quota checks of the tenant's writes.
async fn remove_fence(registry: &Registry, space: &Space) -> Result<()> {
    let Some(tenant) = space.tenant() else {
        return Ok(());
    };
    if registry.cache().fence(tenant).is_some() {
        let fence = registry.layout().fence(tenant);
        registry.commit(Transaction::new().delete(fence)).await?;
    }
    Ok(())
}

/// Removes the record of the tenant's credentials, which is in the system's space.
async fn remove_access_record(registry: &Registry, space: &Space) -> Result<()> {
    let address = access_record_address(space);
    let kind = kinds().get(tenant_accesses());
    let options = DeleteOptions::default();
    remove(registry, kind, &address, &options).await.map(drop)
}

/// The number of objects removed per transaction; below the limit of every store.
const DELETE_BATCH: usize = 100;

/// Kinds that are deleted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Pods,
    Content,
    Namespaces,
    Definitions,
    AccountsAndRbac,
    ClusterRbac,
    Revocations,
}

const STAGES: [Stage; 7] = [
    Stage::Pods,
    Stage::Content,
    Stage::Namespaces,
    Stage::Definitions,
    Stage::AccountsAndRbac,
    Stage::ClusterRbac,
    Stage::Revocations,
];

fn stage_of(kind: &Kind) -> Stage {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => Stage::Pods,
        ("", "Namespace") => Stage::Namespaces,
        // After the objects that they define.
        ("apiextensions.k8s.io", _) => Stage::Definitions,
        ("", "ServiceAccount") => Stage::AccountsAndRbac,
        ("rbac.authorization.k8s.io", "Role" | "RoleBinding") => Stage::AccountsAndRbac,
        ("rbac.authorization.k8s.io", _) => Stage::ClusterRbac,
        ("access.insula.dev", "CredentialRevocation") => Stage::Revocations,
        _ => Stage::Content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminate::stored_kinds;

    #[test]
    fn every_stored_kind_has_a_deletion_stage() {
        let of = |stage| {
            stored_kinds()
                .filter(|(_, kind)| stage_of(kind) == stage)
                .count()
        };
        let counts = STAGES.map(of);
        assert_eq!(counts[2..], [1, 1, 3, 2, 1]);
        assert_eq!(counts[0], 1);
        assert_eq!(counts.iter().sum::<usize>(), stored_kinds().count());
    }
}
