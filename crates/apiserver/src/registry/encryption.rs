//! What encryption at rest asks about the keys of the store.

use std::sync::Arc;

use insula_cache::Cache;
use insula_core::{ResourceName, Space, TenantName};
use insula_encryption::{Location, Owner, Resolver};

use super::access_kinds::GROUP;

/// Answers from the cache, which knows the scopes of resources and the tenants that exist.
pub struct CacheResolver(pub Arc<Cache>);

impl Resolver for CacheResolver {
    fn locate<'a>(&self, key: &'a [u8]) -> Option<Location<'a>> {
        let (resource, space, within) = self.0.locate(key)?;
        let owner = match space {
            Space::System => owner_in_system(resource, within),
            Space::Tenant(tenant) => Owner::Tenant(tenant),
        };
        Some(Location {
            group: resource.group,
            resource: resource.resource,
            owner,
        })
    }

    fn tenant_uid(&self, tenant: &TenantName) -> Option<String> {
        let state = self.0.space_state(&Space::Tenant(tenant.clone()))?;
        Some(state.uid.to_string())
    }
}

/// Returns the owner of an object in the system's space. Objects about one tenant are sealed with
/// its data key, so that they are gone with it.
fn owner_in_system(resource: ResourceName<'_>, name: &str) -> Owner {
    let owner: fn(TenantName) -> Owner = match (resource.group, resource.resource) {
        ("", "tenants") => Owner::TenantObject,
        (GROUP, "tenantaccesses") => Owner::Tenant,
        _ => return Owner::System,
    };
    // Other names are those of objects about the system itself.
    TenantName::parse(name).map_or(Owner::System, owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_about_a_tenant_belong_to_its_data_key() {
        let owner = |group, resource, name| owner_in_system(ResourceName { group, resource }, name);
        let acme = || TenantName::parse("acme").unwrap();
        assert_eq!(owner("", "tenants", "acme"), Owner::TenantObject(acme()));
        assert_eq!(
            owner(GROUP, "tenantaccesses", "acme"),
            Owner::Tenant(acme())
        );
        for system in ["tenants", "secrets"] {
            assert_eq!(owner("", system, "system"), Owner::System);
        }
        assert_eq!(owner(GROUP, "tenantaccesses", "system"), Owner::System);
    }
}
