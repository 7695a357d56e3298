//! ServiceAccount: a new pod without a service account runs as `default`.

use insula_kinds::prepare;

use super::Admission;
use crate::status::Result;

/// Sets the service account of a pod.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    prepare::admit_service_account(admission.object);
    Ok(())
}
