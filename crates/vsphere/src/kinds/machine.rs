//! `VSphereMachine`: a machine of a cluster, as Cluster API sees it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Initialization, NetworkStatus, VirtualMachineSpec};

/// A machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "VSphereMachine",
    plural = "vspheremachines",
    namespaced,
    status = "VSphereMachineStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VSphereMachineSpec {
    /// The specification of its virtual machine.
    #[serde(flatten)]
    pub machine: VirtualMachineSpec,
    /// `vsphere://` and the BIOS UUID.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "providerID"
    )]
    pub provider_id: Option<String>,
    /// The zone that it is placed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// How its virtual machine is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Naming>,
}

/// How a virtual machine is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Naming {
    /// A template with `{{ .cluster.name }}`, `{{ .machine.name }}` and `{{ .random }}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// The status of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VSphereMachineStatus {
    /// The same as `initialization.provisioned`, for clients of contract v1beta1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Initialization steps that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Its network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkStatus>,
    /// Its conditions.
    #[serde(
        default,
        deserialize_with = "insula_operator::condition::valid_conditions"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineAddress {
    /// `InternalIP`, `ExternalIP`, `InternalDNS`, `Hostname`…
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}
