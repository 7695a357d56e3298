//! What the layers above know about keys.

use insula_core::TenantName;

/// Answers what a key means. Keys alone are ambiguous: only the scope of the resource and the
/// tenants that exist determine the space of a key.
pub trait Resolver: Send + Sync {
    /// Returns the object that a key belongs to; `None` for keys that belong to none.
    fn locate<'a>(&self, key: &'a [u8]) -> Option<Location<'a>>;

    /// Returns the UID of a tenant, if it is known here already.
    fn tenant_uid(&self, tenant: &TenantName) -> Option<String>;
}

/// The object that a key belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
    /// The owner of the data key.
    pub owner: Owner,
}

/// The owner of a data key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The system's space.
    System,
    /// The space of a tenant.
    Tenant(TenantName),
    /// The same, of a Tenant object: it is gone with the tenant's data key as well.
    TenantObject(TenantName),
}
