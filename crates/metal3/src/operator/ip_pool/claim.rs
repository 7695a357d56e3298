//! The two kinds of claims that a pool serves: those of Metal3, and those of Cluster API.

use std::fmt::Debug;

use insula_operator::commit::has_finalizer;
use insula_operator::condition::ConditionWriter;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::core::object::HasStatus;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::claims::{is_metal3_pool, is_namespace};
use crate::ipam::allocate::{Allocation, AllocationError, ClaimKey, ClaimKind};
use crate::ipam::contract::{self, NameReference, PoolReference};
use crate::ipam::kinds::{IPAddress, IPAddressSpec, IPClaim, IPPool};
use crate::ipam::name::address_name;
use crate::names::{
    ADDRESS_FINALIZER, CAPI_ADDRESS_FINALIZER, CAPI_CLAIM_FINALIZER, CLAIM_FINALIZER, IPAM_GROUP,
};

/// An object of a namespace.
pub(super) trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
{
}

/// A claim of one address.
pub(super) trait Claim: Object + HasStatus {
    /// The objects with the addresses of such claims.
    type Address: ClaimedAddress;

    /// The kind of the claim.
    const KIND: ClaimKind;
    /// The finalizer of claims with an address.
    const FINALIZER: &'static str;

    /// Returns whether the claim is of a pool of its namespace.
    fn is_of(&self, pool: &str) -> bool;

    /// Returns the cluster that it names; a label may name it as well.
    fn cluster(&self) -> Option<&str> {
        None
    }

    /// Returns the name of the object with its address, from its status.
    fn address_name(&self) -> Option<&str>;

    /// Returns why it has no address, from its status.
    fn error(&self) -> Option<&str>;

    /// Writes the name of the object with its address into its status.
    fn set_address(&mut self, name: &str, now: Timestamp);

    /// Writes into its status why it gets no address.
    fn set_error(&mut self, error: &AllocationError, now: Timestamp);

    /// Returns the object for its address; the caller adds the metadata.
    fn new_address(&self, name: &str, pool: &IPPool, allocation: &Allocation) -> Self::Address;
}

/// An object with the address of a claim.
pub(super) trait ClaimedAddress: Object {
    /// The finalizer of such objects.
    const FINALIZER: &'static str;

    /// Returns whether the address is one of a pool.
    fn is_of(&self, pool: &str) -> bool;

    /// Returns the name of its claim, or an empty text.
    fn claim_name(&self) -> &str;

    /// Returns the address.
    fn address(&self) -> &str;
}

/// Returns the key of a claim.
pub(super) fn key<C: Claim>(claim: &C) -> ClaimKey {
    ClaimKey {
        kind: C::KIND,
        name: claim.name_any(),
    }
}

/// Returns the object for the address of a claim; none if pool or claim were not read from a
/// server.
pub(super) fn new_address<C: Claim>(
    pool: &IPPool,
    claim: &C,
    allocation: &Allocation,
) -> Option<C::Address> {
    let name = address_name(&pool.spec.name_prefix, allocation.address);
    let mut address = claim.new_address(&name, pool, allocation);
    let metadata = address.meta_mut();
    metadata.namespace.clone_from(&pool.metadata.namespace);
    metadata.labels.clone_from(&claim.meta().labels);
    metadata.finalizers = Some(vec![C::Address::FINALIZER.to_owned()]);
    metadata.owner_references = Some(vec![pool.owner_ref(&())?, claim.owner_ref(&())?]);
    Some(address)
}

/// Returns whether another controller still uses a deleted claim.
pub(super) fn is_in_use<C: Claim>(claim: &C) -> bool {
    let mut finalizers = claim.finalizers().iter();
    finalizers.any(|finalizer| finalizer != C::FINALIZER)
}

/// Returns whether a claim has its address and names it.
pub(super) fn is_complete<C: Claim>(claim: &C, addresses: &[&C::Address]) -> bool {
    let named = claim.address_name();
    let mut addresses = addresses.iter();
    let is_named = addresses.any(|address| address.meta().name.as_deref() == named);
    is_named && has_finalizer(claim, C::FINALIZER)
}

impl Claim for IPClaim {
    type Address = IPAddress;

    const KIND: ClaimKind = ClaimKind::Metal3;
    const FINALIZER: &'static str = CLAIM_FINALIZER;

    fn is_of(&self, pool: &str) -> bool {
        let named = &self.spec.pool;
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        named.name.as_deref() == Some(pool) && is_namespace(named.namespace.as_deref(), namespace)
    }

    fn address_name(&self) -> Option<&str> {
        self.status.as_ref()?.address.as_ref()?.name.as_deref()
    }

    fn error(&self) -> Option<&str> {
        self.status.as_ref()?.error_message.as_deref()
    }

    fn set_address(&mut self, name: &str, _now: Timestamp) {
        let namespace = self.metadata.namespace.clone();
        let status = self.status.get_or_insert_default();
        status.error_message = None;
        status.address = Some(ObjectReference {
            name: Some(name.to_owned()),
            namespace,
            ..ObjectReference::default()
        });
    }

    fn set_error(&mut self, error: &AllocationError, _now: Timestamp) {
        let status = self.status.get_or_insert_default();
        status.address = None;
        status.error_message = Some(error.to_string());
    }

    fn new_address(&self, name: &str, pool: &IPPool, allocation: &Allocation) -> IPAddress {
        let reference = |name: String| ObjectReference {
            name: Some(name),
            namespace: pool.metadata.namespace.clone(),
            ..ObjectReference::default()
        };
        let spec = IPAddressSpec {
            claim: reference(self.name_any()),
            pool: reference(pool.name_any()),
            prefix: allocation.prefix,
            gateway: allocation.gateway.clone(),
            address: allocation.address.to_string(),
            dns_servers: allocation.dns_servers.clone(),
        };
        IPAddress::new(name, spec)
    }
}

impl ClaimedAddress for IPAddress {
    const FINALIZER: &'static str = ADDRESS_FINALIZER;

    fn is_of(&self, pool: &str) -> bool {
        self.spec.pool.name.as_deref() == Some(pool)
    }

    fn claim_name(&self) -> &str {
        self.spec.claim.name.as_deref().unwrap_or_default()
    }

    fn address(&self) -> &str {
        &self.spec.address
    }
}

impl Claim for contract::IPAddressClaim {
    type Address = contract::IPAddress;

    const KIND: ClaimKind = ClaimKind::ClusterApi;
    const FINALIZER: &'static str = CAPI_CLAIM_FINALIZER;

    fn is_of(&self, pool: &str) -> bool {
        is_metal3_pool(&self.spec.pool_ref) && self.spec.pool_ref.name == pool
    }

    fn cluster(&self) -> Option<&str> {
        let name = self.spec.cluster_name.as_deref();
        name.filter(|name| !name.is_empty())
    }

    fn address_name(&self) -> Option<&str> {
        let reference = self.status.as_ref()?.address_ref.as_ref()?;
        Some(reference.name.as_str()).filter(|name| !name.is_empty())
    }

    fn error(&self) -> Option<&str> {
        let mut conditions = self.status.as_ref()?.conditions.iter();
        let ready = conditions.find(|condition| condition.type_ == contract::READY)?;
        (ready.status == "False").then_some(ready.message.as_str())
    }

    fn set_address(&mut self, name: &str, now: Timestamp) {
        let status = self.status.get_or_insert_default();
        status.address_ref = Some(NameReference {
            name: name.to_owned(),
        });
        ConditionWriter::of(self, now).set_true(contract::READY, contract::READY, "");
    }

    fn set_error(&mut self, error: &AllocationError, now: Timestamp) {
        let status = self.status.get_or_insert_default();
        status.address_ref = None;
        let reason = match error.is_exhausted() {
            true => contract::POOL_EXHAUSTED,
            false => contract::ALLOCATION_FAILED,
        };
        let mut conditions = ConditionWriter::of(self, now);
        conditions.set_false(contract::READY, reason, error.to_string());
    }

    fn new_address(&self, name: &str, pool: &IPPool, allocation: &Allocation) -> Self::Address {
        let spec = contract::IPAddressSpec {
            claim_ref: NameReference {
                name: self.name_any(),
            },
            pool_ref: PoolReference {
                api_group: Some(IPAM_GROUP.to_owned()),
                kind: IPPool::kind(&()).into_owned(),
                name: pool.name_any(),
            },
            address: allocation.address.to_string(),
            prefix: allocation.prefix,
            gateway: allocation.gateway.clone(),
        };
        contract::IPAddress::new(name, spec)
    }
}

impl ClaimedAddress for contract::IPAddress {
    const FINALIZER: &'static str = CAPI_ADDRESS_FINALIZER;

    fn is_of(&self, pool: &str) -> bool {
        is_metal3_pool(&self.spec.pool_ref) && self.spec.pool_ref.name == pool
    }

    fn claim_name(&self) -> &str {
        &self.spec.claim_ref.name
    }

    fn address(&self) -> &str {
        &self.spec.address
    }
}
