//! `Metal3Data`: the data of one machine.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{ObjectReference, SecretReference};

/// The data of one machine. Its name is that of the template, a dash, and the index.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Data",
    plural = "metal3datas",
    namespaced,
    status = "Metal3DataStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataSpec {
    /// The index of the claim.
    #[serde(default)]
    pub index: i32,
    /// The `Metal3DataTemplate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ObjectReference>,
    /// The `Metal3DataClaim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ObjectReference>,
    /// The Secret with the metadata, in the namespace of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,
    /// The Secret with the network data, in the namespace of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,
}

/// The status of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metal3DataStatus {
    /// Whether its Secrets are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Why it could not be rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}
