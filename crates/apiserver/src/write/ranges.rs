//! What one pod or volume claim may ask for in its namespace, and what a pod gets that asks
//! for nothing.

use std::sync::Arc;

use insula_core::Space;
use insula_kinds::{Object, limit_range};

use super::metadata;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};
use insula_cache::Stored;
use insula_kinds::core_kind;

/// Gives the containers of a pod what the ranges of its namespace have for those that ask
/// for nothing.
pub fn fill(
    registry: &Registry,
    kind: &Resource,
    space: &Space,
    namespace: Option<&str>,
    object: &mut Object,
) {
    if !kind.is(core_kind("pods")) {
        return;
    }
    for range in ranges(registry, space, namespace) {
        limit_range::apply_defaults(&range.tree(), object);
    }
}

/// The same for a pod that is resized.
pub fn fill_changed(
    registry: &Registry,
    address: &Address,
    subresource: Option<&str>,
    old: &Object,
    new: &mut Object,
) {
    if subresource == Some("resize") && !is_going(old) {
        let (space, namespace) = (&address.space, address.namespace.as_deref());
        fill(registry, &address.kind, space, namespace, new);
    }
}

/// Whether the ranges of its namespace let the object be.
pub fn check(registry: &Registry, address: &Address, object: &Object) -> Result<()> {
    let check = if address.kind.is(core_kind("pods")) {
        limit_range::validate_pod
    } else if address.kind.is(core_kind("persistentvolumeclaims")) {
        limit_range::validate_claim
    } else {
        return Ok(());
    };
    for range in ranges(registry, &address.space, address.namespace.as_deref()) {
        if let Some(why) = check(&range.tree(), object) {
            return Err(StatusError::not_allowed(address.of(), &address.name, &why));
        }
    }
    Ok(())
}

/// Whether they let it become so: a pod is asked when it is resized, since nothing else of
/// it that they are about can change; and what is being deleted is let go.
pub fn check_changed(
    registry: &Registry,
    address: &Address,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> Result<()> {
    let is_pod = address.kind.is(core_kind("pods"));
    let asked = if is_pod { Some("resize") } else { None };
    match subresource == asked && !is_going(old) {
        true => check(registry, address, new),
        false => Ok(()),
    }
}

fn is_going(object: &Object) -> bool {
    metadata::text(object, "deletionTimestamp").is_some()
}

fn ranges(registry: &Registry, space: &Space, namespace: Option<&str>) -> Vec<Arc<Stored>> {
    let ranges = registry.cache().find(core_kind("limitranges"), space);
    let (Some(ranges), Some(namespace)) = (ranges, namespace) else {
        return Vec::new();
    };
    ranges.snapshot(&format!("{namespace}/"), None).objects
}
