//! `VSphereCluster` and its template.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Initialization, VSphereIdentityReference};

/// A cluster on a vCenter.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "VSphereCluster",
    plural = "vsphereclusters",
    namespaced,
    status = "VSphereClusterStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VSphereClusterSpec {
    /// The vCenter: host, host:port or address.
    pub server: String,
    /// The fingerprint of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// The endpoint of the cluster's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// The reference to its credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<VSphereIdentityReference>,
    /// Which zones its machines may be in: none if missing, all if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain_selector: Option<LabelSelector>,
}

/// The endpoint of a cluster's API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiEndpoint {
    /// A name or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// The status of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VSphereClusterStatus {
    /// The same as `initialization.provisioned`, for clients of contract v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Initialization steps that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The zones that its machines can be placed in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<FailureDomain>,
    /// The version that the vCenter reports.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "vCenterVersion"
    )]
    pub v_center_version: Option<String>,
    /// Its conditions.
    #[serde(
        default,
        deserialize_with = "insula_operator::condition::valid_conditions"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A zone that machines can be placed in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// The name of the zone.
    pub name: String,
    /// Whether control planes may be placed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}
