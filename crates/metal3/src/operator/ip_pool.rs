//! Reconciles address pools: each claim gets an address.
//!
//! The address objects are the record of the addresses in use. An operator that is stopped between
//! two writes leaves a state from which the next one continues: the finalizer of the claim comes
//! first, then the address, then the reference to it.

mod plan;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use insula_capi::{Cluster, paused};
use insula_operator::commit::{self, StatusChange, has_finalizer};
use insula_operator::condition::seconds;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::PostParams;
use tracing::info;

use self::plan::{Plan, new_address};
use super::context::Reconciliation;
use crate::ipam::allocate::{AllocationError, Allocator, ClaimKey, ClaimKind};
use crate::ipam::contract;
use crate::ipam::kinds::{IPAddress, IPClaim, IPPool};
use crate::names::{ADDRESS_FINALIZER, CLAIM_FINALIZER, POOL_FINALIZER, REQUESTED_ADDRESS};

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
    let foreign = of_cluster_api(of).await?;
    let pool = change.stored.clone();
    let mut allocator = Allocator::new(&pool.spec);
    let plan = Plan::of(&pool, &claims, &addresses, &foreign, &mut allocator);
    for (claim, addresses) in &plan.released {
        release(of, claim, addresses).await?;
    }
    for address in &plan.orphaned {
        commit::remove_finalizer(&of.api(), *address, ADDRESS_FINALIZER).await?;
    }
    if !is_deleted {
        for (claim, address) in &plan.incomplete {
            match address {
                Some(address) => record(of, claim, &address.name_any()).await?,
                None => allocate(of, &pool, claim, &mut allocator).await?,
            }
        }
    }
    write_indexes(&mut change, allocator.indexes()).await?;
    if !is_deleted {
        return Ok(Outcome::Settled(of.resync_after()));
    }
    if allocator.indexes().is_empty() && !plan.has_unclaimed {
        change.remove_finalizer(POOL_FINALIZER).await?;
        info!(key = %of.key, "address pool deleted");
        return Ok(Outcome::Gone);
    }
    Ok(Outcome::Waits(of.resync_after()))
}

/// Returns the addresses of Cluster API's own kind. A server without this kind has none.
async fn of_cluster_api(of: &Reconciliation<'_>) -> Result<Vec<contract::IPAddress>, kube::Error> {
    match of.list::<contract::IPAddress>().await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => listed,
    }
}

/// Deletes the addresses of a deleted claim, and then lets the claim go.
async fn release(
    of: &Reconciliation<'_>,
    claim: &IPClaim,
    addresses: &[&IPAddress],
) -> Result<(), kube::Error> {
    let objects = of.api::<IPAddress>();
    for address in addresses {
        commit::remove_finalizer(&objects, *address, ADDRESS_FINALIZER).await?;
        commit::delete(&objects, *address).await?;
    }
    commit::remove_finalizer(&of.api::<IPClaim>(), claim, CLAIM_FINALIZER).await?;
    info!(key = %of.key, claim = claim.name_any(), "address released");
    Ok(())
}

/// Gives a claim its address, or tells why it gets none. A claim that got none is tried again
/// whenever the pool is reconciled.
async fn allocate(
    of: &Reconciliation<'_>,
    pool: &IPPool,
    claim: &IPClaim,
    allocator: &mut Allocator<'_>,
) -> Result<(), kube::Error> {
    let claims = of.api::<IPClaim>();
    let key = ClaimKey {
        kind: ClaimKind::Metal3,
        name: claim.name_any(),
    };
    let requested = claim.annotations().get(REQUESTED_ADDRESS);
    let allocated = allocator.allocate(&key, requested.map(String::as_str), &mut random);
    let allocation = match allocated {
        Ok(allocation) => allocation,
        Err(error) => {
            report(of, claim, &error);
            let mut change = StatusChange::new(claims, claim.clone());
            let status = change.object.status.get_or_insert_default();
            status.address = None;
            status.error_message = Some(error.to_string());
            return change.commit().await;
        }
    };
    let claim = commit::add_finalizer(&claims, claim, CLAIM_FINALIZER).await?;
    let Some(address) = new_address(pool, &claim, &allocation) else {
        return Ok(());
    };
    let name = address.name_any();
    let objects = of.api::<IPAddress>();
    objects.create(&PostParams::default(), &address).await?;
    info!(key = %of.key, claim = claim.name_any(), address = name, "address allocated");
    record(of, &claim, &name).await
}

/// Records the address of a claim in its status.
async fn record(
    of: &Reconciliation<'_>,
    claim: &IPClaim,
    address: &str,
) -> Result<(), kube::Error> {
    let mut change = StatusChange::new(of.api::<IPClaim>(), claim.clone());
    change.add_finalizer(CLAIM_FINALIZER).await?;
    let status = change.object.status.get_or_insert_default();
    status.error_message = None;
    status.address = Some(ObjectReference {
        name: Some(address.to_owned()),
        namespace: of.key.namespace.clone(),
        ..ObjectReference::default()
    });
    change.commit().await
}

/// Logs an error that the claim does not have yet.
fn report(of: &Reconciliation<'_>, claim: &IPClaim, error: &AllocationError) {
    let known = claim.status.as_ref();
    let known = known.and_then(|status| status.error_message.as_deref());
    if known != Some(error.to_string().as_str()) {
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
