//! `VSphereDeploymentZone` and `VSphereFailureDomain`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::VSphereIdentityReference;

/// Where machines may be put.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "VSphereDeploymentZone",
    plural = "vspheredeploymentzones",
    status = "VSphereDeploymentZoneStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VSphereDeploymentZoneSpec {
    /// The vCenter.
    pub server: String,
    /// The name of a `VSphereFailureDomain`.
    pub failure_domain: String,
    /// Whether control planes may be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Where in the inventory machines are put.
    #[serde(default)]
    pub placement_constraint: PlacementConstraint,
    /// The identity that it is looked at with, which is ours to name: without it, what the
    /// operator was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<VSphereIdentityReference>,
}

/// Where in the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConstraint {
    /// The resource pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// The folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// How a zone is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VSphereDeploymentZoneStatus {
    /// Machines can be put there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// What is so.
    #[serde(default, deserialize_with = "super::understood")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A part of the inventory that fails as one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "VSphereFailureDomain",
    plural = "vspherefailuredomains",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct VSphereFailureDomainSpec {
    /// The region it is in.
    #[serde(default)]
    pub region: DomainPart,
    /// The zone it is.
    #[serde(default)]
    pub zone: DomainPart,
    /// Where that is in the inventory.
    #[serde(default)]
    pub topology: Topology,
}

/// A region or a zone, as tags say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainPart {
    /// As the tag has it.
    #[serde(default)]
    pub name: String,
    /// What carries the tag.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// The category of the tag.
    #[serde(default)]
    pub tag_category: String,
}

/// Where that is in the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The datacenter.
    #[serde(default)]
    pub datacenter: String,
    /// The cluster of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_cluster: Option<String>,
    /// Networks that are to be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The datastore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
}
