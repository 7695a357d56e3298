//! What a tenant's object says about its quota and limits, and the view of it that the tenant's
//! own users have.

use insula_cache::Stored;
use insula_core::{Space, TenantName};
use insula_kinds::{Object, Value, core_kind, kinds};
use serde_json::Map;

use super::Registry;
use super::encoding;
use super::tenant_quota::{TenantQuota, usage_value};

/// The fields of a status that [`limits_status`] computes.
pub const LIMITS_FIELDS: [&str; 3] = ["usage", "quota", "limits"];

/// The metadata that a tenant's own users see. Labels, annotations and finalizers are notes of the
/// system's administrators.
const OWN_METADATA: [&str; 5] = [
    "name",
    "selfLink",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
];

/// Returns the usage, the quota and the limits of a tenant, as they are in effect. Quota and usage
/// are absent if the quota limits nothing.
pub fn limits_status(
    registry: &Registry,
    tenant: &TenantName,
    object: &Object,
) -> Map<String, Value> {
    let space = Space::Tenant(tenant.clone());
    let mut status = Map::new();
    let Some(state) = registry.cache().space_state(&space) else {
        return status;
    };
    let quota = TenantQuota::of(object, registry.tenant_quota());
    if !quota.is_empty() {
        status.insert("usage".to_owned(), usage_value(state.usage()));
        status.insert("quota".to_owned(), quota.value());
    }
    status.insert("limits".to_owned(), registry.limits(&space).value());
    status
}

/// Returns a tenant's object as its own users see it, with the current usage.
pub fn own_view(registry: &Registry, space: &Space) -> Option<Stored> {
    let tenant = space.tenant()?;
    let stored = registry.tenant(tenant.as_str())?.object;
    let mut object = stored.tree();
    let limits = limits_status(registry, tenant, &object);
    let member = |object: &mut Object, name: &str| match object.remove(name) {
        Some(Value::Object(member)) => member,
        _ => Map::new(),
    };
    let mut metadata = member(&mut object, "metadata");
    metadata.retain(|name, _| OWN_METADATA.contains(&name.as_str()));
    let mut status = member(&mut object, "status");
    status.retain(|name, _| name == "phase");
    status.extend(limits);
    let own = Object::from_iter([
        ("metadata".to_owned(), metadata.into()),
        ("status".to_owned(), status.into()),
    ]);
    let kind = kinds().get(core_kind("tenants"));
    let value = encoding::encoded(kind, &own);
    Some(Stored::new(stored.key.clone(), stored.revision, &value))
}
