//! PersistentVolumeClaimResize: a claim grows only if its class allows it. Validation has refused one
//! that is not bound.

use insula_core::Space;
use insula_kinds::quantity::Quantity;
use insula_kinds::{Object, Value, core_kind, kinds};

use super::Admission;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};
use crate::write::metadata;

/// Whether the object is a claim that changes.
pub fn applies(admission: &Admission<'_>) -> bool {
    let kind = &admission.address.kind;
    admission.subresource.is_none()
        && admission.old.is_some()
        && kind.is(core_kind("persistentvolumeclaims"))
}

/// Refuses a claim that grows without being allowed to.
pub async fn validate(admission: &mut Admission<'_>) -> Result<()> {
    let (claim, new) = (admission.address, &*admission.object);
    let Some(old) = admission.old.filter(|old| size(new) > size(old)) else {
        return Ok(());
    };
    if is_expandable(admission.registry, &claim.space, old, new) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions \
               the pvc must support resize";
    Err(StatusError::not_allowed(claim.of(), &claim.name, why))
}

fn size(claim: &Object) -> Option<Quantity> {
    let requests = claim.get("spec")?.get("resources")?.get("requests")?;
    requests.get("storage")?.as_str()?.parse().ok()
}

/// Whether the claim's class allows its volumes to grow.
fn is_expandable(registry: &Registry, space: &Space, old: &Object, new: &Object) -> bool {
    let kind = kinds().find("storage.k8s.io", "v1", "storageclasses");
    let (Some(kind), Some(name)) = (kind, class(new).filter(|_| class(old) == class(new))) else {
        return false;
    };
    let address = Address {
        kind: kind.into(),
        space: space.clone(),
        namespace: None,
        name: name.to_owned(),
    };
    let found = registry.cached(&address).map(|class| class.tree());
    let allowed = found
        .as_ref()
        .and_then(|class| class.get("allowVolumeExpansion"));
    allowed.and_then(Value::as_bool) == Some(true)
}

fn class(claim: &Object) -> Option<&str> {
    let annotation = metadata::annotation(claim, "volume.beta.kubernetes.io/storage-class");
    let name = annotation.or_else(|| claim.get("spec")?.get("storageClassName")?.as_str());
    name.filter(|name| !name.is_empty())
}
