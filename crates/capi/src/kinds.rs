//! The fields of Cluster and Machine that providers use, in the form of `v1beta2`. Objects that are
//! served as `v1beta1` are read too.

#[cfg(test)]
mod tests;

use insula_operator::condition::find;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt};
use serde::{Deserialize, Serialize};

use crate::names::CONTROL_PLANE_LABEL;

/// A cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    plural = "clusters",
    namespaced,
    status = "ClusterStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether controllers must leave it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The infrastructure object of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
}

impl Cluster {
    /// Returns whether its infrastructure is provisioned.
    pub fn is_infrastructure_provisioned(&self) -> bool {
        self.initialization().infrastructure_provisioned == Some(true)
    }

    /// Returns whether its control plane has answered once.
    pub fn is_control_plane_initialized(&self) -> bool {
        self.initialization().control_plane_initialized == Some(true)
    }

    fn initialization(&self) -> ClusterInitialization {
        let status = self.status.as_ref();
        let initialization = status.and_then(|status| status.initialization);
        initialization.unwrap_or_default()
    }
}

/// A reference to an object that another controller manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "SerializedReference")]
pub struct ContractReference {
    /// The group of its kind.
    pub api_group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, as in `v1beta1`. Without one it is that of the referring object.
    #[serde(skip_serializing)]
    pub namespace: Option<String>,
}

/// A reference in the form of either version.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SerializedReference {
    api_group: Option<String>,
    api_version: Option<String>,
    kind: String,
    name: String,
    namespace: Option<String>,
}

impl From<SerializedReference> for ContractReference {
    fn from(reference: SerializedReference) -> Self {
        // The core group has a version and no group.
        let group = || {
            let version = reference.api_version.as_deref()?;
            version.split_once('/').map(|(group, _)| group.to_owned())
        };
        Self {
            api_group: reference
                .api_group
                .clone()
                .or_else(group)
                .unwrap_or_default(),
            kind: reference.kind,
            name: reference.name,
            namespace: reference
                .namespace
                .filter(|namespace| !namespace.is_empty()),
        }
    }
}

/// The status of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "SerializedClusterStatus")]
pub struct ClusterStatus {
    /// Initialization steps that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
    /// Its conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The status of a cluster in the form of either version.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SerializedClusterStatus {
    initialization: Option<ClusterInitialization>,
    infrastructure_ready: bool,
    #[serde(deserialize_with = "insula_operator::condition::valid_conditions")]
    conditions: Vec<Condition>,
}

impl From<SerializedClusterStatus> for ClusterStatus {
    fn from(status: SerializedClusterStatus) -> Self {
        let initialized = find(&status.conditions, CONTROL_PLANE_INITIALIZED);
        let is_initialized = initialized.is_some_and(|condition| condition.status == "True");
        let mut done = status.initialization.unwrap_or_default();
        if status.infrastructure_ready {
            done.infrastructure_provisioned = Some(true);
        }
        if is_initialized {
            done.control_plane_initialized = Some(true);
        }
        let is_reported = done != ClusterInitialization::default();
        Self {
            initialization: is_reported.then_some(done).or(status.initialization),
            conditions: status.conditions,
        }
    }
}

/// The condition by which `v1beta1` reports that the control plane has answered once.
const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";

/// Initialization steps; once true, they stay true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// Its infrastructure is provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,
    /// Its control plane has answered once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// A machine of a cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Machine",
    plural = "machines",
    namespaced,
    status = "MachineStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// The cluster that it belongs to.
    #[serde(default)]
    pub cluster_name: String,
    /// Its bootstrap data.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// The infrastructure object of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,
    /// The failure domain that it is placed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// The ID of the machine at its provider, as in `vsphere://UUID`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "providerID"
    )]
    pub provider_id: Option<String>,
}

/// The bootstrap data of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// The object of the bootstrap provider that writes the data; none if a user does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ContractReference>,
    /// The Secret with the data, once it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_secret_name: Option<String>,
}

/// A set of machines. Only its owners are of interest.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachineSet",
    plural = "machinesets",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct MachineSetSpec {}

/// The status of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Its node, once that has joined the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeReference>,
}

/// A reference to a node of the workload cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReference {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

impl Machine {
    /// Returns the Secret with the bootstrap data, once it is known.
    pub fn bootstrap_secret(&self) -> Option<&str> {
        non_empty(self.spec.bootstrap.data_secret_name.as_ref())
    }

    /// Returns the failure domain that it is placed in.
    pub fn failure_domain(&self) -> Option<&str> {
        non_empty(self.spec.failure_domain.as_ref())
    }

    /// Returns its node, once that has joined the cluster.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.status.as_ref()?.node_ref.as_ref()?;
        non_empty(Some(&node.name))
    }

    /// Returns whether it is part of the control plane.
    pub fn is_control_plane(&self) -> bool {
        self.labels().contains_key(CONTROL_PLANE_LABEL)
    }
}

fn non_empty(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
