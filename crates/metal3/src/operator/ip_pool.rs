//! Reconciles address pools: each claim gets an address.
//!
//! The address objects are the record of the addresses in use. An operator that is stopped between
//! two writes leaves a state from which the next one continues: the finalizer of the claim comes
//! first, then the address, then the reference to it.

mod claim;
mod plan;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use insula_capi::{Cluster, paused};
use insula_operator::commit::{self, StatusChange, has_finalizer};
use insula_operator::condition::seconds;
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::PostParams;
use tracing::info;

use self::claim::{Claim, ClaimedAddress, Object, key, new_address};
use self::plan::Plan;
use super::claims::PausedClusters;
use super::context::Reconciliation;
use crate::ipam::allocate::{AllocationError, Allocator};
use crate::ipam::contract;
use crate::ipam::kinds::{IPAddress, IPClaim, IPPool};
use crate::names::{POOL_FINALIZER, REQUESTED_ADDRESS};

/// Reconciles a pool.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let pools = of.api::<IPPool>();
    let Some(pool) = pools.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let cluster = match pool
        .spec
        .cluster_name
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        Some(name) => of.read::<Cluster>(name).await?,
        None => None,
    };
    if paused::paused(cluster.as_ref(), &pool, "IPPool").is_some() {
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let mut change = StatusChange::new(pools, pool);
    let is_deleted = change.stored.metadata.deletion_timestamp.is_some();
    if !is_deleted {
        change.add_finalizer(POOL_FINALIZER).await?;
    } else if !has_finalizer(&change.stored, POOL_FINALIZER) {
        return Ok(Outcome::Gone);
    }
    let claims = of.list::<IPClaim>().await?;
    let addresses = of.list::<IPAddress>().await?;
    let capi_claims = list_if_served::<contract::IPAddressClaim>(of).await?;
    let capi_addresses = list_if_served::<contract::IPAddress>(of).await?;
    let pool = change.stored.clone();
    let mut allocator = Allocator::new(&pool.spec);
    // Both plans come first, so that the addresses of both kinds of claims are in use.
    let plan = Plan::of(&pool, &claims, &addresses, &mut allocator);
    let capi_plan = Plan::of(&pool, &capi_claims, &capi_addresses, &mut allocator);
    execute(of, &pool, &plan, &mut allocator).await?;
    execute(of, &pool, &capi_plan, &mut allocator).await?;
    write_indexes(&mut change, allocator.indexes()).await?;
    if !is_deleted {
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let has_unclaimed = plan.has_unclaimed || capi_plan.has_unclaimed;
    if allocator.indexes().is_empty() && !has_unclaimed {
        change.remove_finalizer(POOL_FINALIZER).await?;
        info!(key = %of.key, "address pool deleted");
        return Ok(Outcome::Gone);
    }
    Ok(Outcome::Waits(of.resync_after()))
}

/// Lists the objects of a kind of Cluster API. A server without this kind has none.
async fn list_if_served<K: Object>(of: &Reconciliation<'_>) -> Result<Vec<K>, kube::Error> {
    match of.list::<K>().await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => listed,
    }
}

/// Releases the addresses of deleted claims. If the pool is not deleted, the other claims get
/// theirs.
async fn execute<C: Claim>(
    of: &Reconciliation<'_>,
    pool: &IPPool,
    plan: &Plan<'_, C>,
    allocator: &mut Allocator<'_>,
) -> Result<(), kube::Error> {
    for (claim, addresses) in &plan.released {
        release(of, *claim, addresses).await?;
    }
    for address in &plan.orphaned {
        commit::remove_finalizer(&of.api(), *address, C::Address::FINALIZER).await?;
    }
    if pool.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let mut clusters = PausedClusters::default();
    for (claim, address) in &plan.incomplete {
        match address {
            _ if clusters.is_paused(of, *claim, claim.cluster()).await? => {}
            Some(address) => record(of, *claim, &address.name_any()).await?,
            None => allocate(of, pool, *claim, allocator).await?,
        }
    }
    Ok(())
}

/// Deletes the addresses of a deleted claim, and then lets the claim go.
async fn release<C: Claim>(
    of: &Reconciliation<'_>,
    claim: &C,
    addresses: &[&C::Address],
) -> Result<(), kube::Error> {
    let objects = of.api::<C::Address>();
    for address in addresses {
        commit::remove_finalizer(&objects, *address, C::Address::FINALIZER).await?;
        commit::delete(&objects, *address).await?;
    }
    commit::remove_finalizer(&of.api::<C>(), claim, C::FINALIZER).await?;
    info!(key = %of.key, claim = claim.name_any(), "address released");
    Ok(())
}

/// Gives a claim its address, or tells why it gets none. A claim that got none is tried again
/// whenever the pool is reconciled.
async fn allocate<C: Claim>(
    of: &Reconciliation<'_>,
    pool: &IPPool,
    claim: &C,
    allocator: &mut Allocator<'_>,
) -> Result<(), kube::Error> {
    let claims = of.api::<C>();
    let requested = claim.annotations().get(REQUESTED_ADDRESS);
    let allocated = allocator.allocate(&key(claim), requested.map(String::as_str), &mut random);
    let allocation = match allocated {
        Ok(allocation) => allocation,
        Err(error) => {
            report(of, claim, &error);
            let mut change = StatusChange::new(claims, claim.clone());
            change.object.set_error(&error, Timestamp::now());
            return change.commit().await;
        }
    };
    let claim = commit::add_finalizer(&claims, claim, C::FINALIZER).await?;
    let Some(address) = new_address(pool, &claim, &allocation) else {
        return Ok(());
    };
    let name = address.name_any();
    let objects = of.api::<C::Address>();
    objects.create(&PostParams::default(), &address).await?;
    info!(key = %of.key, claim = claim.name_any(), address = name, "address allocated");
    record(of, &claim, &name).await
}

/// Records the address of a claim in its status.
async fn record<C: Claim>(
    of: &Reconciliation<'_>,
    claim: &C,
    address: &str,
) -> Result<(), kube::Error> {
    let mut change = StatusChange::new(of.api::<C>(), claim.clone());
    change.add_finalizer(C::FINALIZER).await?;
    change.object.set_address(address, Timestamp::now());
    change.commit().await
}

/// Logs an error that the claim does not have yet.
fn report<C: Claim>(of: &Reconciliation<'_>, claim: &C, error: &AllocationError) {
    if claim.error() != Some(error.to_string().as_str()) {
        info!(key = %of.key, claim = claim.name_any(), %error, "address not allocated");
    }
}

/// Writes the addresses in use to the status of the pool.
async fn write_indexes(
    change: &mut StatusChange<IPPool>,
    indexes: BTreeMap<String, String>,
) -> Result<(), kube::Error> {
    let status = change.object.status.get_or_insert_default();
    // The time is not written alone, because each write would trigger the next one.
    if status.last_updated.is_none() || status.indexes != indexes {
        status.indexes = indexes;
        status.last_updated = Some(seconds(Timestamp::now()));
    }
    change.commit().await
}

/// Returns a random number from zero up to this one.
fn random(max: u128) -> u128 {
    let half = || u128::from(RandomState::new().hash_one(()));
    let number = half() << 64 | half();
    match max.checked_add(1) {
        Some(count) => number % count,
        None => number,
    }
}
