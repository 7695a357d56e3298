//! `VSphereDeploymentZone` and `VSphereFailureDomain`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::VSphereIdentityReference;

/// A placement for machines: a vCenter, a failure domain and placement constraints.
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
    /// Whether control planes may be placed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// The resource pool and folder of machines.
    #[serde(default)]
    pub placement_constraint: PlacementConstraint,
    /// The identity that the zone is checked with, an addition to the upstream kind. Without it
    /// the operator's static credentials are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<VSphereIdentityReference>,
}

/// Constraints on where in the inventory machines are placed.
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

/// The status of a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VSphereDeploymentZoneStatus {
    /// Whether machines can be placed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Its conditions.
    #[serde(
        default,
        deserialize_with = "insula_operator::condition::valid_conditions"
    )]
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
    /// The region that it is part of.
    #[serde(default)]
    pub region: DomainPart,
    /// The zone that it is.
    #[serde(default)]
    pub zone: DomainPart,
    /// Its place in the inventory.
    #[serde(default)]
    pub topology: Topology,
}

/// A region or a zone, identified by a tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainPart {
    /// The name of the tag.
    #[serde(default)]
    pub name: String,
    /// The type of object that carries the tag.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// The category of the tag.
    #[serde(default)]
    pub tag_category: String,
}

/// A place in the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topology {
    /// The datacenter.
    #[serde(default)]
    pub datacenter: String,
    /// The cluster of hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_cluster: Option<String>,
    /// The networks of its machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The datastore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
}
