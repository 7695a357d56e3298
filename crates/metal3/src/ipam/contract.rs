//! Claims and addresses of Cluster API, for pools of any provider. References have the same shape
//! in `v1beta1` and `v1beta2`.

use insula_operator::condition::Conditions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A claim of one address of a pool.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddressClaim",
    plural = "ipaddressclaims",
    namespaced,
    status = "IPAddressClaimStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimSpec {
    /// The cluster that the claim belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// The pool.
    pub pool_ref: PoolReference,
}

/// A reference to a pool of any provider, in the namespace of the referring object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReference {
    /// The group of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A reference to an object of a known kind, in the namespace of the referring object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameReference {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// The status of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimStatus {
    /// The address object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<NameReference>,
    /// Its conditions.
    #[serde(
        default,
        deserialize_with = "insula_operator::condition::valid_conditions"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Conditions for IPAddressClaimStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// An address that a claim got.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
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
    pub claim_ref: NameReference,
    /// The pool.
    pub pool_ref: PoolReference,
    /// The address.
    pub address: String,
    /// The prefix length of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<i32>,
    /// The gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// The type of the condition that tells whether a claim has its address.
pub const READY: &str = "Ready";
/// The reason of [`READY`] if an allocation is not possible.
pub const ALLOCATION_FAILED: &str = "AllocationFailed";
/// The reason of [`READY`] if a pool has no free address.
pub const POOL_EXHAUSTED: &str = "PoolExhausted";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_of_both_versions_are_read() {
        for version in ["v1beta1", "v1beta2"] {
            let claim = json!({
                "apiVersion": format!("ipam.cluster.x-k8s.io/{version}"),
                "kind": "IPAddressClaim",
                "metadata": {"name": "a"},
                "spec": {"poolRef": {"apiGroup": "g", "kind": "Pool", "name": "p"}},
                "status": {
                    "addressRef": {"name": "p-10-0-0-1"},
                    "conditions": [
                        // Conditions of v1beta1 need no reason, which cannot be represented.
                        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    ],
                },
            });
            let claim: IPAddressClaim = serde_json::from_value(claim).unwrap();
            let pool = PoolReference {
                api_group: Some("g".to_owned()),
                kind: "Pool".to_owned(),
                name: "p".to_owned(),
            };
            assert_eq!(claim.spec.pool_ref, pool);
            let address = claim.status.unwrap().address_ref.unwrap();
            assert_eq!(address.name, "p-10-0-0-1");
        }
        let address = json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta1", "kind": "IPAddress", "metadata": {},
            "spec": {
                "claimRef": {"name": "a"}, "poolRef": {"kind": "Pool", "name": "p"},
                "address": "10.0.0.1", "prefix": 24, "gateway": "10.0.0.254",
            },
        });
        let address: IPAddress = serde_json::from_value(address).unwrap();
        assert_eq!(address.spec.claim_ref.name, "a");
        assert_eq!(address.spec.prefix, Some(24));
    }
}
