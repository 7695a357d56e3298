//! Definitions published by the system: which may be published, and when they may be withdrawn.

use super::Admission;
use crate::registry::publish;
use crate::status::Result;

/// Rejects a new object that conflicts with a published definition.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    publish::admit(admission.registry, admission.address, admission.object).await
}

/// Whether the write withdraws a published definition.
pub fn withdraws(admission: &Admission<'_>) -> bool {
    admission
        .old
        .is_some_and(|old| publish::is_withdrawal(admission.address, old, admission.object))
}

/// Rejects the withdrawal of a definition while tenants have objects of it.
pub async fn validate(admission: &mut Admission<'_>) -> Result<()> {
    publish::check_withdrawal(admission.registry, admission.address).await
}
