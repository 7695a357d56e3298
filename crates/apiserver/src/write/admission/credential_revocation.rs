//! Revocations of credentials: their authority, and protection from locking oneself out.
//!
//! A tenant's administrators may revoke credentials of their own space. What a user of the
//! system revoked there, they can neither change nor delete.

use insula_cache::Stored;
use insula_core::Principal;
use insula_kinds::{Object, Value};

use super::Admission;
use crate::pipeline::authorize::Caller;
use crate::pipeline::revocation::DenyList;
use crate::registry::access_kinds::revocations;
use crate::registry::{Address, Registry};
use crate::status::{Result, StatusError};

/// The authority of a revocation that a user of the system created.
const SYSTEM: &str = "System";

/// The authority of a revocation that a user of the tenant created.
const TENANT: &str = "Tenant";

/// The annotation with which a caller may revoke the credential of the request itself.
const ALLOW_OWN: &str = "access.insula.dev/allow-own-credential";

/// The most revocations of a space that a tenant's user may add to: the list is compiled anew
/// after each change.
const MAX_OF_TENANT: usize = 1000;

/// The most bytes of a revocation that a tenant's user writes, for the same reason.
const MAX_BYTES_OF_TENANT: usize = 4096;

/// Whether this write concerns a revocation.
pub fn applies(admission: &Admission<'_>) -> bool {
    admission.address.kind.is(revocations())
}

/// Sets the authority of a new revocation, and rejects one that the caller may not write.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    let caller = admission.caller;
    let is_system = caller.is_none_or(|caller| caller.principal().is_system());
    if !is_system {
        check_size(admission.address, admission.object)?;
    }
    if let (Some(old), Some(caller)) = (admission.old, caller) {
        return check_authority(caller.principal(), admission.address, old);
    }
    if admission.old.is_some() {
        return Ok(());
    }
    let authority = if is_system { SYSTEM } else { TENANT };
    if let Some(spec) = admission
        .object
        .get_mut("spec")
        .and_then(Value::as_object_mut)
    {
        spec.insert("authority".to_owned(), authority.into());
    }
    let Some(caller) = caller else {
        return Ok(());
    };
    if !is_system {
        check_count(admission.registry, admission.address)?;
    }
    check_own(caller, admission.address, admission.object)
}

/// Rejects the deletion of a revocation by a caller without its authority.
pub fn check_delete(caller: Caller<'_>, address: &Address, object: &Stored) -> Result<()> {
    match address.kind.is(revocations()) {
        true => check_authority(caller.principal(), address, &object.tree()),
        false => Ok(()),
    }
}

fn check_authority(caller: &Principal, address: &Address, old: &Object) -> Result<()> {
    let authority = old.get("spec").and_then(|spec| spec.get("authority"));
    if caller.is_system() || authority.and_then(Value::as_str) != Some(SYSTEM) {
        return Ok(());
    }
    let why = "the system's administrator has revoked this, so only a user of the system may \
               change or delete it";
    Err(StatusError::not_allowed(address.of(), &address.name, why))
}

fn check_size(address: &Address, object: &Object) -> Result<()> {
    let bytes = serde_json::to_vec(object).map_err(StatusError::internal)?;
    if bytes.len() <= MAX_BYTES_OF_TENANT {
        return Ok(());
    }
    let why = format!("the revocation is larger than {MAX_BYTES_OF_TENANT} bytes");
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}

fn check_count(registry: &Registry, address: &Address) -> Result<()> {
    let collection = registry.cache().find(revocations(), &address.space);
    let count = collection.map_or(0, |collection| collection.count("", MAX_OF_TENANT));
    if count < MAX_OF_TENANT {
        return Ok(());
    }
    let why = format!(
        "this space has {count} revocations, and its users may add more only below {MAX_OF_TENANT}"
    );
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}

/// Rejects the revocation of the credential that the request itself was authenticated with,
/// unless that is asked for: the caller could not undo it.
fn check_own(caller: Caller<'_>, address: &Address, object: &Object) -> Result<()> {
    let holder = caller.principal().authenticated();
    let mut list = DenyList::default();
    list.add(object);
    if holder.home != address.space || !list.denies(holder) || is_allowed(object) {
        return Ok(());
    }
    let why = format!(
        "it would revoke the credential of this very request; set the annotation \
         {ALLOW_OWN}: \"true\" if that is intended"
    );
    Err(StatusError::not_allowed(address.of(), &address.name, &why))
}

fn is_allowed(object: &Object) -> bool {
    let metadata = object.get("metadata");
    let annotations = metadata.and_then(|metadata| metadata.get("annotations"));
    let value = annotations.and_then(|annotations| annotations.get(ALLOW_OWN));
    value.and_then(Value::as_str) == Some("true")
}
