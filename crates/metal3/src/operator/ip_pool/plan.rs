//! What is to be done for the claims of a pool. No I/O.

use std::collections::BTreeMap;

use insula_operator::commit::has_finalizer;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt};

use super::super::claims::is_namespace;
use crate::ipam::allocate::{Allocation, Allocator, ClaimKey, ClaimKind};
use crate::ipam::contract;
use crate::ipam::kinds::{IPAddress, IPAddressSpec, IPClaim, IPPool};
use crate::ipam::name::address_name;
use crate::ipam::range::Address;
use crate::names::{ADDRESS_FINALIZER, CLAIM_FINALIZER, IPAM_GROUP};

/// What is to be done for the claims of a pool.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan<'a> {
    /// Claims without an address, or that do not name theirs yet, oldest first.
    pub incomplete: Vec<(&'a IPClaim, Option<&'a IPAddress>)>,
    /// Deleted claims that no object uses any more, and their addresses.
    pub released: Vec<(&'a IPClaim, Vec<&'a IPAddress>)>,
    /// Deleted addresses of claims that no longer exist.
    pub orphaned: Vec<&'a IPAddress>,
    /// Whether addresses are in use that belong to no claim of Metal3.
    pub has_unclaimed: bool,
}

impl<'a> Plan<'a> {
    /// Returns what is to be done for the claims of a pool, among the objects of its namespace,
    /// and records the addresses that stay in use.
    pub(super) fn of(
        pool: &IPPool,
        claims: &'a [IPClaim],
        addresses: &'a [IPAddress],
        foreign: &[contract::IPAddress],
        allocator: &mut Allocator<'_>,
    ) -> Self {
        let mut plan = Self::default();
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let own = addresses.iter();
        let own = own.filter(|address| address.spec.pool.name.as_deref() == Some(name));
        let mut of_claims: BTreeMap<&str, Vec<&IPAddress>> = BTreeMap::new();
        for address in own {
            of_claims
                .entry(claim_of(address))
                .or_default()
                .push(address);
        }
        for claim in sorted(claims, name) {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let addresses = of_claims.remove(name).unwrap_or_default();
            if claim.metadata.deletion_timestamp.is_some() && !is_in_use(claim) {
                plan.released.push((claim, addresses));
                continue;
            }
            record(allocator, &addresses);
            if claim.metadata.deletion_timestamp.is_none() && !is_complete(claim, &addresses) {
                plan.incomplete.push((claim, addresses.first().copied()));
            }
        }
        for address in of_claims.into_values().flatten() {
            let is_deleted = address.metadata.deletion_timestamp.is_some();
            if is_deleted && has_finalizer(address, ADDRESS_FINALIZER) {
                plan.orphaned.push(address);
            } else {
                plan.has_unclaimed = true;
                record(allocator, &[address]);
            }
        }
        plan.record_foreign(pool, addresses, foreign, allocator);
        plan
    }

    /// Records addresses that Cluster API's own claims got from the pool, and those of other pools
    /// whose objects have the name that one of this pool would get.
    fn record_foreign(
        &mut self,
        pool: &IPPool,
        addresses: &[IPAddress],
        foreign: &[contract::IPAddress],
        allocator: &mut Allocator<'_>,
    ) {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        for address in foreign {
            let reference = &address.spec.pool_ref;
            let is_own = reference.name == name
                && reference.kind == "IPPool"
                && reference.api_group.as_deref() == Some(IPAM_GROUP);
            let number = Address::parse(&address.spec.address);
            if let Some(number) = number.filter(|_| is_own) {
                self.has_unclaimed = true;
                allocator.record(number, None);
            }
        }
        let prefix = &pool.spec.name_prefix;
        for address in addresses {
            let is_own = address.spec.pool.name.as_deref() == Some(name);
            let Some(number) = Address::parse(&address.spec.address).filter(|_| !is_own) else {
                continue;
            };
            if address.name_any() == address_name(prefix, number) {
                allocator.record(number, None);
            }
        }
    }
}

/// Returns the claims of a pool, oldest first.
fn sorted<'a>(claims: &'a [IPClaim], pool: &str) -> Vec<&'a IPClaim> {
    let is_of_pool = |claim: &&IPClaim| {
        let named = &claim.spec.pool;
        let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
        named.name.as_deref() == Some(pool) && is_namespace(named.namespace.as_deref(), namespace)
    };
    let mut claims: Vec<_> = claims.iter().filter(is_of_pool).collect();
    claims.sort_by_key(|claim| {
        let created = claim.metadata.creation_timestamp.as_ref();
        (created.map(|time| time.0), claim.metadata.name.clone())
    });
    claims
}

/// Returns the name of the claim of an address.
fn claim_of(address: &IPAddress) -> &str {
    address.spec.claim.name.as_deref().unwrap_or_default()
}

/// Records addresses with their claims.
fn record(allocator: &mut Allocator<'_>, addresses: &[&IPAddress]) {
    for address in addresses {
        let claim = claim_of(address);
        let key = (!claim.is_empty()).then(|| ClaimKey {
            kind: ClaimKind::Metal3,
            name: claim.to_owned(),
        });
        if let Some(number) = Address::parse(&address.spec.address) {
            allocator.record(number, key);
        }
    }
}

/// Returns whether a claim has its address and names it.
fn is_complete(claim: &IPClaim, addresses: &[&IPAddress]) -> bool {
    let status = claim.status.as_ref();
    let named = status.and_then(|status| status.address.as_ref()?.name.as_deref());
    let mut addresses = addresses.iter();
    let is_named = addresses.any(|address| address.metadata.name.as_deref() == named);
    is_named && has_finalizer(claim, CLAIM_FINALIZER)
}

/// Returns whether another controller still uses a deleted claim.
fn is_in_use(claim: &IPClaim) -> bool {
    let mut finalizers = claim.finalizers().iter();
    finalizers.any(|finalizer| finalizer != CLAIM_FINALIZER)
}

/// Returns the object for an address; none if pool or claim were not read from a server.
pub(super) fn new_address(
    pool: &IPPool,
    claim: &IPClaim,
    allocation: &Allocation,
) -> Option<IPAddress> {
    let reference = |name: String| ObjectReference {
        name: Some(name),
        namespace: pool.metadata.namespace.clone(),
        ..ObjectReference::default()
    };
    let spec = IPAddressSpec {
        claim: reference(claim.name_any()),
        pool: reference(pool.name_any()),
        prefix: allocation.prefix,
        gateway: allocation.gateway.clone(),
        address: allocation.address.to_string(),
        dns_servers: allocation.dns_servers.clone(),
    };
    let name = address_name(&pool.spec.name_prefix, allocation.address);
    let mut address = IPAddress::new(&name, spec);
    address
        .metadata
        .namespace
        .clone_from(&pool.metadata.namespace);
    address.metadata.labels.clone_from(&claim.metadata.labels);
    address.metadata.finalizers = Some(vec![ADDRESS_FINALIZER.to_owned()]);
    address.metadata.owner_references = Some(vec![pool.owner_ref(&())?, claim.owner_ref(&())?]);
    Some(address)
}

#[cfg(test)]
mod tests;
