//! Pools, claims and addresses of Metal3.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A pool of addresses.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.metal3.io",
    version = "v1alpha1",
    kind = "IPPool",
    plural = "ippools",
    namespaced,
    status = "IPPoolStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolSpec {
    /// The cluster that the pool belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// The entries, which are used in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolEntry>,
    /// Which free address of an entry is taken: `sequential`, which is the default, or `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_strategy: Option<String>,
    /// Addresses that are kept for claims, by the name of the claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pre_allocations: BTreeMap<String, String>,
    /// The prefix length of the network, for entries without their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway, for entries without their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The DNS servers, for entries without their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
    /// The beginning of the names of address objects.
    #[serde(default)]
    pub name_prefix: String,
}

/// An entry of a pool: a range of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolEntry {
    /// The first address; by default the one after that of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The last address; by default the last of the subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The subnet that all addresses are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The prefix length of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The DNS servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
}

/// The status of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPPoolStatus {
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// The addresses in use, by the name of the claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, String>,
}

/// A claim of one address of a pool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.metal3.io",
    version = "v1alpha1",
    kind = "IPClaim",
    plural = "ipclaims",
    namespaced,
    status = "IPClaimStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct IPClaimSpec {
    /// The pool.
    pub pool: ObjectReference,
}

/// The status of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPClaimStatus {
    /// The address object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<ObjectReference>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// An address that a claim got.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.metal3.io",
    version = "v1alpha1",
    kind = "IPAddress",
    plural = "ipaddresses",
    namespaced,
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressSpec {
    /// The claim.
    pub claim: ObjectReference,
    /// The pool.
    pub pool: ObjectReference,
    /// The prefix length of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The address.
    pub address: String,
    /// The DNS servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_fields_have_their_names() {
        let pool = json!({
            "clusterName": "c", "allocationStrategy": "random", "namePrefix": "p",
            "preAllocations": {"a": "10.0.0.1"},
            "prefix": 24, "gateway": "10.0.0.254", "dnsServers": ["8.8.8.8"],
            "pools": [{
                "start": "10.0.0.1", "end": "10.0.0.9", "subnet": "10.0.0.0/24", "prefix": 25,
                "gateway": "10.0.0.126", "dnsServers": ["8.8.4.4"],
            }],
        });
        let read: IPPoolSpec = serde_json::from_value(pool.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), pool);
        let status = json!({"lastUpdated": "2026-01-01T00:00:00Z", "indexes": {"a": "10.0.0.1"}});
        let read: IPPoolStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), status);
        let claim = json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": "a"},
            "spec": {"pool": {"name": "p", "namespace": "n"}},
            "status": {"address": {"name": "p-10-0-0-1", "namespace": "n"}, "errorMessage": "e"},
        });
        let read: IPClaim = serde_json::from_value(claim.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), claim);
        let address = json!({
            "apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPAddress", "metadata": {},
            "spec": {
                "claim": {"name": "a"}, "pool": {"name": "p"}, "prefix": 24, "address": "10.0.0.1",
                "gateway": "10.0.0.254", "dnsServers": ["8.8.8.8"],
            },
        });
        let read: IPAddress = serde_json::from_value(address.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), address);
    }
}
