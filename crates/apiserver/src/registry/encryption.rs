//! What encryption at rest asks about the keys of the store.

use std::sync::Arc;

use insula_cache::Cache;
use insula_core::{Space, TenantName};
use insula_encryption::{Location, Owner, Resolver};

/// Answers from the cache, which knows the scopes of resources and the tenants that exist.
pub struct CacheResolver(pub Arc<Cache>);

impl Resolver for CacheResolver {
    fn locate<'a>(&self, key: &'a [u8]) -> Option<Location<'a>> {
        let (resource, space, within) = self.0.locate(key)?;
        let is_tenant = (resource.group, resource.resource) == ("", "tenants");
        let owner = match space {
            Space::System if is_tenant => match TenantName::parse(within) {
                Ok(tenant) => Owner::TenantObject(tenant),
                // The object of the system itself.
                Err(_) => Owner::System,
            },
            Space::System => Owner::System,
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
