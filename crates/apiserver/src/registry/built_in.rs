//! Built-in objects: the RBAC roles and bindings that Kubernetes creates at its first start.
//!
//! They are not stored: all tenants share one table. A space shows them as its own, with a UID
//! and the creation time of its tenant. One that is changed in a space is stored there and
//! shadows the table's. They cannot be deleted, because no controller would restore them.

use std::sync::Arc;

use insula_access::rbac::RbacKind;
use insula_access::rbac::bootstrap::{self, BuiltIn};
use insula_core::Space;
use insula_kinds::KindId;
use serde_json::{Value, json};

use crate::registry::Address;
use crate::registry::encoding::encoded;
use crate::registry::rbac_kinds;
use crate::registry::resource::Resource;
use insula_cache::{SpaceState, Stored};

/// Whether a built-in object has this kind and key.
pub fn is_one(kind: &Resource, within: &str) -> bool {
    rbac_kind(kind).is_some_and(|kind| bootstrap::find(kind, within).is_some())
}

/// Whether the kind has built-in objects.
pub fn are_some(kind: &Resource) -> bool {
    rbac_kind(kind).is_some()
}

/// Returns the built-in object at an address, as the space shows it.
pub fn find(address: &Address, state: &SpaceState) -> Option<Arc<Stored>> {
    let kind = rbac_kind(&address.kind)?;
    let found = bootstrap::find(kind, &address.within())?;
    Some(Arc::new(shown(&address.kind, &address.space, found, state)))
}

/// Returns the built-in objects of a kind with this key prefix, in key order, as the space
/// shows them.
pub fn all(kind: &Resource, space: &Space, prefix: &str, state: &SpaceState) -> Vec<Arc<Stored>> {
    let table: &[BuiltIn] = rbac_kind(kind).map_or(&[], bootstrap::objects);
    let chosen = table.iter().filter(|one| one.key().starts_with(prefix));
    chosen
        .map(|one| Arc::new(shown(kind, space, one, state)))
        .collect()
}

/// Returns the built-in object that a stored object shadows, if any.
pub fn shadowed(
    kind: KindId,
    space: &Space,
    object: &Stored,
    state: &SpaceState,
) -> Option<Arc<Stored>> {
    let found = bootstrap::find(rbac_kinds::rbac_kind(kind)?, &object.key)?;
    Some(Arc::new(shown(&kind.into(), space, found, state)))
}

/// Merges stored and built-in objects in key order. Stored objects shadow built-in ones.
pub fn merge(stored: Vec<Arc<Stored>>, built_in: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
    let mut all = stored;
    all.extend(built_in);
    // The sort is stable: of two with the same key, the stored one is first.
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all.dedup_by(|later, first| later.key == first.key);
    all
}

fn rbac_kind(kind: &Resource) -> Option<RbacKind> {
    kind.id().and_then(rbac_kinds::rbac_kind)
}

fn shown(kind: &Resource, space: &Space, one: &BuiltIn, state: &SpaceState) -> Stored {
    let address = Address {
        kind: kind.clone(),
        space: space.clone(),
        namespace: one.namespace().map(str::to_owned),
        name: one.name().to_owned(),
    };
    let mut object = one.object();
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["selfLink"] = address.self_link().into();
    metadata["uid"] = uid(state, kind.resource.as_str(), one.key()).into();
    metadata["creationTimestamp"] = created(state);
    if let Some(tenant) = space.tenant() {
        metadata["tenant"] = tenant.as_str().into();
    }
    let value = encoded(kind, &object);
    Stored::built_in(one.key().into(), state.birth, &value)
}

/// Returns a stable UID that differs between spaces.
fn uid(state: &SpaceState, resource: &str, key: &str) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [state.uid.as_bytes(), resource.as_bytes(), key.as_bytes()] {
        context.update(part);
        context.update(b"/");
    }
    let digest = context.finish();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}

fn created(state: &SpaceState) -> Value {
    let time = jiff::Timestamp::from_second(state.created);
    time.map_or(Value::Null, |time| time.to_string().into())
}
