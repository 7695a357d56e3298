//! What is to be done for the claims of a pool. No I/O.

use std::collections::BTreeMap;

use insula_operator::commit::has_finalizer;
use kube::{Resource, ResourceExt};

use super::claim::{Claim, ClaimedAddress, is_complete, is_in_use};
use crate::ipam::allocate::{Allocator, ClaimKey};
use crate::ipam::kinds::IPPool;
use crate::ipam::name::address_name;
use crate::ipam::range::Address;

/// What is to be done for the claims of one kind.
#[derive(Debug, PartialEq)]
pub(super) struct Plan<'a, C: Claim> {
    /// Claims without an address, or that do not name theirs yet, oldest first.
    pub incomplete: Vec<(&'a C, Option<&'a C::Address>)>,
    /// Deleted claims that no object uses any more, and their addresses.
    pub released: Vec<(&'a C, Vec<&'a C::Address>)>,
    /// Deleted addresses of claims that no longer exist.
    pub orphaned: Vec<&'a C::Address>,
    /// Whether addresses are in use although their claims do not exist.
    pub has_unclaimed: bool,
}

impl<'a, C: Claim> Plan<'a, C> {
    /// Returns what is to be done for the claims of a pool, among the objects of its namespace,
    /// and records the addresses that stay in use.
    pub(super) fn of(
        pool: &IPPool,
        claims: &'a [C],
        addresses: &'a [C::Address],
        allocator: &mut Allocator<'_>,
    ) -> Self {
        let mut plan = Self {
            incomplete: Vec::new(),
            released: Vec::new(),
            orphaned: Vec::new(),
            has_unclaimed: false,
        };
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let mut of_claims: BTreeMap<&str, Vec<&C::Address>> = BTreeMap::new();
        for address in addresses.iter().filter(|address| address.is_of(name)) {
            let claim = of_claims.entry(address.claim_name()).or_default();
            claim.push(address);
        }
        for claim in sorted(claims, name) {
            let name = claim.meta().name.as_deref().unwrap_or_default();
            let addresses = of_claims.remove(name).unwrap_or_default();
            let is_deleted = claim.meta().deletion_timestamp.is_some();
            if is_deleted && !is_in_use(claim) {
                plan.released.push((claim, addresses));
                continue;
            }
            record::<C>(allocator, &addresses);
            if !is_deleted && !is_complete(claim, &addresses) {
                plan.incomplete.push((claim, addresses.first().copied()));
            }
        }
        for address in of_claims.into_values().flatten() {
            let is_deleted = address.meta().deletion_timestamp.is_some();
            if is_deleted && has_finalizer(address, C::Address::FINALIZER) {
                plan.orphaned.push(address);
            } else {
                plan.has_unclaimed = true;
                record::<C>(allocator, &[address]);
            }
        }
        record_taken_names(pool, addresses, allocator);
        plan
    }
}

/// Records addresses of other pools with the name that one of this pool would get.
fn record_taken_names<A: ClaimedAddress>(
    pool: &IPPool,
    addresses: &[A],
    allocator: &mut Allocator<'_>,
) {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    for address in addresses.iter().filter(|address| !address.is_of(name)) {
        let Some(number) = Address::parse(address.address()) else {
            continue;
        };
        if address.name_any() == address_name(&pool.spec.name_prefix, number) {
            allocator.record(number, None);
        }
    }
}

/// Returns the claims of a pool, oldest first.
fn sorted<'a, C: Claim>(claims: &'a [C], pool: &str) -> Vec<&'a C> {
    let mut claims: Vec<_> = claims.iter().filter(|claim| claim.is_of(pool)).collect();
    claims.sort_by_key(|claim| {
        let metadata = claim.meta();
        let created = metadata.creation_timestamp.as_ref();
        (created.map(|time| time.0), metadata.name.clone())
    });
    claims
}

/// Records addresses with their claims.
fn record<C: Claim>(allocator: &mut Allocator<'_>, addresses: &[&C::Address]) {
    for address in addresses {
        let claim = address.claim_name();
        let key = (!claim.is_empty()).then(|| ClaimKey {
            kind: C::KIND,
            name: claim.to_owned(),
        });
        if let Some(number) = Address::parse(address.address()) {
            allocator.record(number, key);
        }
    }
}

#[cfg(test)]
mod tests;
