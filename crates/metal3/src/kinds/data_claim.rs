//! `Metal3DataClaim`: the request of a machine for data.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::ObjectReference;

/// The request of a machine for data. Its name is that of the machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3DataClaim",
    plural = "metal3dataclaims",
    namespaced,
    status = "Metal3DataClaimStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct Metal3DataClaimSpec {
    /// The `Metal3DataTemplate`.
    pub template: ObjectReference,
}

/// The status of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataClaimStatus {
    /// The `Metal3Data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered_data: Option<ObjectReference>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}
