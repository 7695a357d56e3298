//! `Metal3Cluster` and its template.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Deprecated, IdentityReference, Initialization, TemplateMetadata};

/// A cluster on bare metal.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Cluster",
    plural = "metal3clusters",
    namespaced,
    status = "Metal3ClusterStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClusterSpec {
    /// The endpoint of the cluster's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Whether a cloud provider sets the provider IDs of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_provider_enabled: Option<bool>,
    /// The failure domains of its hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<FailureDomain>,
    /// The kubeconfig that hosts are accessed with; those of the namespace if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
}

/// The endpoint of a cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiEndpoint {
    /// A name or an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// A set of hosts that fail together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// The name, which is the value of the label of its hosts.
    pub name: String,
    /// Whether control planes may be placed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Further attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// The status of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metal3ClusterStatus {
    /// Initialization steps that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// When the status was written last.
    #[serde(default, deserialize_with = "super::valid")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The failure domains of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_domains: Vec<FailureDomain>,
    /// Its conditions.
    #[serde(
        default,
        deserialize_with = "insula_operator::condition::valid_conditions"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What contract `v1beta1` has in addition.
    #[serde(default, deserialize_with = "super::valid")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated>,
}

/// A template for clusters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3ClusterTemplate",
    plural = "metal3clustertemplates",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct Metal3ClusterTemplateSpec {
    /// The cluster.
    pub template: ClusterTemplateResource,
}

/// A cluster that is created from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterTemplateResource {
    /// Its metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Its specification.
    pub spec: Metal3ClusterSpec,
}
