//! Definitions that the system publishes: what may be published, and when it may be withdrawn.

use super::Admission;
use crate::registry::publish;
use crate::status::Result;

/// Refuses a new object that a published definition rules out.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    publish::admit(admission.registry, admission.address, admission.object).await
}

/// Whether a published definition is withdrawn.
pub fn withdraws(admission: &Admission<'_>) -> bool {
    admission
        .old
        .is_some_and(|old| publish::is_withdrawal(admission.address, old, admission.object))
}

/// Refuses to withdraw a definition that tenants have objects of.
pub async fn validate(admission: &mut Admission<'_>) -> Result<()> {
    publish::check_withdrawal(admission.registry, admission.address).await
}
