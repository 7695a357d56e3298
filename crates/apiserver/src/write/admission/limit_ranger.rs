//! LimitRanger: limits on the requests of pods and volume claims in a namespace, and defaults
//! for pods without requests.

use std::sync::Arc;

use insula_cache::Stored;
use insula_kinds::{Object, core_kind, limit_range};

use super::{Admission, is_create};
use crate::status::{Result, StatusError};
use crate::write::metadata;

/// Whether the object may get defaults: a pod that is new or resized.
pub fn fills(admission: &Admission<'_>) -> bool {
    admission.address.kind.is(core_kind("pods"))
        && (is_create(admission) || is_changed(admission, Some("resize")))
}

/// Applies the defaults of the namespace's limit ranges to the containers of a pod.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    for range in ranges(admission) {
        limit_range::apply_defaults(&range.tree(), admission.object);
    }
    Ok(())
}

/// Whether limits apply to the write. An existing pod is limited only when it is resized, and an
/// object that is being deleted is not limited.
pub fn limits(admission: &Admission<'_>) -> bool {
    let kind = &admission.address.kind;
    if kind.is(core_kind("pods")) {
        is_create(admission) || is_changed(admission, Some("resize"))
    } else {
        kind.is(core_kind("persistentvolumeclaims"))
            && (is_create(admission) || is_changed(admission, None))
    }
}

/// Rejects an object that violates a limit range of its namespace.
pub async fn validate(admission: &mut Admission<'_>) -> Result<()> {
    let address = admission.address;
    let check = match address.kind.is(core_kind("pods")) {
        true => limit_range::validate_pod,
        false => limit_range::validate_claim,
    };
    for range in ranges(admission) {
        if let Some(why) = check(&range.tree(), admission.object) {
            return Err(StatusError::not_allowed(address.of(), &address.name, &why));
        }
    }
    Ok(())
}

fn is_changed(admission: &Admission<'_>, subresource: Option<&str>) -> bool {
    let is_terminating = |old: &Object| metadata::text(old, "deletionTimestamp").is_some();
    admission.subresource == subresource && admission.old.is_some_and(|old| !is_terminating(old))
}

fn ranges(admission: &Admission<'_>) -> Vec<Arc<Stored>> {
    let (cache, address) = (admission.registry.cache(), admission.address);
    let ranges = cache.find(core_kind("limitranges"), &address.space);
    let (Some(ranges), Some(namespace)) = (ranges, &address.namespace) else {
        return Vec::new();
    };
    ranges.snapshot(&format!("{namespace}/"), None).objects
}
