//! OwnerReferencesPermissionEnforcement: an owner reference can get an object deleted with its
//! owner, or block the deletion of the owner. Both need the right to do so directly.

use insula_access::rbac::ResourceAttributes;
use insula_core::Space;
use insula_kinds::{Kind, Object, Value};

use super::{Admission, Change};
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};

/// Rejects owner references that exceed the caller's rights.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    match admission.caller {
        Some(caller) => check(admission.registry, caller, admission.change()).await,
        None => Ok(()),
    }
}

async fn check(registry: &Registry, caller: Caller<'_>, change: Change<'_>) -> Result<()> {
    let (old, new) = (owners(change.old), owners(Some(change.new)));
    if old == new {
        return Ok(());
    }
    let (address, kind) = (change.address, change.address.of());
    if change.old.is_some() {
        let attributes = ResourceAttributes {
            verb: "delete",
            group: &kind.group,
            resource: &kind.resource,
            subresource: None,
            namespace: address.namespace.as_deref(),
            name: Some(&address.name),
        };
        if !caller.is_allowed(registry, attributes).await? {
            let why = "cannot set an ownerRef on a resource you can't delete";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        }
    }
    for owner in new {
        if !blocks(owner) || old.iter().any(|was| blocks(was) && same(was, owner)) {
            continue;
        }
        let Some(of) = kind_of(registry, &address.space, owner) else {
            let why = "cannot set blockOwnerDeletion in this case because the owner's kind is \
                       unknown";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        };
        if !may_set_finalizers(registry, caller, change, owner, &of).await? {
            let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource \
                       you can't set finalizers on";
            return Err(StatusError::not_allowed(kind, &address.name, why));
        }
    }
    Ok(())
}

/// Whether the caller may set finalizers on the owner, which has the same effect as blocking.
async fn may_set_finalizers(
    registry: &Registry,
    caller: Caller<'_>,
    change: Change<'_>,
    owner: &Value,
    kind: &Kind,
) -> Result<bool> {
    let name = owner.get("name").and_then(Value::as_str).unwrap_or("");
    let namespace = change.address.namespace.as_deref();
    let attributes = ResourceAttributes {
        verb: "update",
        group: &kind.group,
        resource: &kind.resource,
        subresource: Some("finalizers"),
        namespace: namespace.filter(|_| kind.namespaced()),
        name: Some(name),
    };
    caller.is_allowed(registry, attributes).await
}

/// Returns the kind of an owner. An unknown kind is rejected, because it may be defined later
/// and its objects blocked then.
fn kind_of(registry: &Registry, space: &Space, owner: &Value) -> Option<Resource> {
    let text = |member: &str| owner.get(member).and_then(Value::as_str).unwrap_or("");
    let version = text("apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    registry.of_kind(space, group, version, text("kind"))
}

fn owners(object: Option<&Object>) -> &[Value] {
    let metadata = object.and_then(|object| object.get("metadata"));
    let owners = metadata.and_then(|of| of.get("ownerReferences")?.as_array());
    owners.map_or(&[], Vec::as_slice)
}

fn blocks(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

fn same(one: &Value, other: &Value) -> bool {
    one.get("uid") == other.get("uid")
}
