//! ServiceAccount: a new pod without a service account runs as `default`, unless it mirrors a static
//! pod of a node, which has none.

use insula_kinds::prepare;

use super::Admission;
use crate::pipeline::node_authorizer::is_mirror_pod;
use crate::status::Result;

/// Sets the service account of a pod.
pub async fn admit(admission: &mut Admission<'_>) -> Result<()> {
    if !is_mirror_pod(admission.object) {
        prepare::admit_service_account(admission.object);
    }
    Ok(())
}
