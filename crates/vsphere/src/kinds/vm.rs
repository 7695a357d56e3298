//! `VSphereVM`: one virtual machine of a vCenter.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A virtual machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "VSphereVM",
    plural = "vspherevms",
    namespaced,
    status = "VSphereVMStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VSphereVMSpec {
    /// The specification of the virtual machine.
    #[serde(flatten)]
    pub machine: VirtualMachineSpec,
    /// The Secret with its bootstrap data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_ref: Option<BootstrapReference>,
    /// Its BIOS UUID, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "biosUUID")]
    pub bios_uuid: Option<String>,
}

/// A Secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapReference {
    /// Its name.
    pub name: String,
}

/// The specification of a virtual machine. Fields that the operator does not use are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMachineSpec {
    /// A name, an inventory path, or an instance UUID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// `linkedClone` or `fullClone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_mode: Option<String>,
    /// The snapshot of the template that a linked clone is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The vCenter, if it is not its cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The fingerprint of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thumbprint: Option<String>,
    /// The datacenter; the only one if it is missing or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenter: Option<String>,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Its datastore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Its resource pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_pool: Option<String>,
    /// Its network cards.
    #[serde(default)]
    pub network: NetworkSpec,
    /// Processors, at least two.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "numCPUs")]
    pub num_cpus: Option<i32>,
    /// Cores of each socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_cores_per_socket: Option<i32>,
    /// Memory; 2048 MiB if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "memoryMiB")]
    pub memory_mib: Option<i64>,
    /// The size of its first disk, if it is to grow.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "diskGiB")]
    pub disk_gib: Option<i32>,
    /// Extra configuration of the virtual machine, passed on unchanged.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        rename = "customVMXKeys"
    )]
    pub custom_vmx_keys: BTreeMap<String, String>,
    /// `hard` (default), `soft` or `trySoft`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_off_mode: Option<String>,
    /// How long the guest may take to shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_soft_power_off_timeout_seconds: Option<i64>,
    /// Its operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Kept, but not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_version: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// The network of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// One for each card.
    #[serde(default)]
    pub devices: Vec<NetworkDevice>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// A network card.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkDevice {
    /// The network, as the vCenter calls it.
    pub network_name: String,
    /// The name of the device in the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// Whether it gets an IPv4 address by DHCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp4: Option<bool>,
    /// Whether it gets an IPv6 address by DHCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp6: Option<bool>,
    /// The IPv4 gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway4: Option<String>,
    /// The IPv6 gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway6: Option<String>,
    /// Static addresses in CIDR notation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addrs: Vec<String>,
    /// The maximum transmission unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<i64>,
    /// Its MAC address, if it is to have a certain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_addr: Option<String>,
    /// DNS servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// DNS search domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search_domains: Vec<String>,
    /// Everything else: routes, overrides, pools.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Value>,
}

/// The status of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VSphereVMStatus {
    /// Whether it runs and has addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The host that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// How it is cloned; written before the clone is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_mode: Option<String>,
    /// The snapshot that it is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// No attempt is made before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Time>,
    /// The vCenter task that is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// Its network cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<NetworkStatus>,
    /// Its managed object reference, as in `VirtualMachine:vm-65`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm_ref: Option<String>,
    /// Its conditions.
    #[serde(
        default,
        deserialize_with = "insula_operator::condition::valid_conditions"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The status of a network card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// Whether it is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addrs: Vec<String>,
    /// Its MAC address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac_addr: String,
    /// The network that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
}
