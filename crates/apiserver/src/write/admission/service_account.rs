//! ServiceAccount: a new pod that names none runs as `default`.

use insula_kinds::prepare;

use super::Admission;
use crate::status::Result;

/// Names the service account.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    prepare::admit_service_account(admission.object);
    Ok(())
}
