//! The kind `brokers.submariner.io`: how the clusters of a ClusterSet are connected.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// How the clusters of a ClusterSet are connected. Empty fields are omitted, as in
/// Submariner's own programs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "submariner.io",
    version = "v1alpha1",
    kind = "Broker",
    plural = "brokers",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct BrokerSpec {
    /// `connectivity`, `service-discovery`, and `globalnet` if it is enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Domains that are resolved across clusters, in addition to the default one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_custom_domains: Vec<String>,
    /// The range of global addresses.
    #[serde(
        default,
        rename = "globalnetCIDRRange",
        skip_serializing_if = "String::is_empty"
    )]
    pub globalnet_cidr_range: String,
    /// The default number of global addresses per cluster.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub default_globalnet_cluster_size: u32,
    /// Whether clusters get global addresses.
    #[serde(default, skip_serializing_if = "is_false")]
    pub globalnet_enabled: bool,
    /// The range of ClusterSet IPs.
    #[serde(
        default,
        rename = "clustersetIPCIDRRange",
        skip_serializing_if = "String::is_empty"
    )]
    pub clusterset_ip_cidr_range: String,
    /// Whether services get ClusterSet IPs by default.
    #[serde(
        default,
        rename = "clustersetIPEnabled",
        skip_serializing_if = "is_false"
    )]
    pub clusterset_ip_enabled: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(value: &bool) -> bool {
    !value
}
