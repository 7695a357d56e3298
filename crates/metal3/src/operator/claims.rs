//! Triggers the template or pool that a claim names. One object does all work for a template or a
//! pool, so that no index and no address is given twice.

use std::collections::BTreeMap;

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::{Cluster, paused};
use insula_operator::key::{GroupKind, Key};
use insula_operator::read::is_valid_name;
use insula_operator::retry::Outcome;
use kube::{Resource, ResourceExt};

use super::context::Reconciliation;
use crate::ipam::contract::{IPAddressClaim, PoolReference};
use crate::ipam::kinds::{IPClaim, IPPool};
use crate::kinds::data_claim::Metal3DataClaim;
use crate::kinds::data_template::Metal3DataTemplate;
use crate::names::IPAM_GROUP;

/// Triggers the template of a claim.
pub(super) async fn reconcile_data_claim(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let claims = of.api::<Metal3DataClaim>();
    let Some(claim) = claims.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let template = &claim.spec.template;
    if is_here(of, template.namespace.as_deref()) {
        trigger::<Metal3DataTemplate>(of, &template.name);
    }
    Ok(Outcome::Waits(of.resync_after()))
}

/// Triggers the pool of a claim.
pub(super) async fn reconcile_ip_claim(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let claims = of.api::<IPClaim>();
    let Some(claim) = claims.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let pool = &claim.spec.pool;
    if is_here(of, pool.namespace.as_deref()) {
        trigger::<IPPool>(of, pool.name.as_deref().unwrap_or_default());
    }
    Ok(Outcome::Waits(of.resync_after()))
}

/// Triggers the pool of a claim of Cluster API, if it is a pool of Metal3.
pub(super) async fn reconcile_ip_address_claim(
    of: &Reconciliation<'_>,
) -> Result<Outcome, kube::Error> {
    let claims = of.api::<IPAddressClaim>();
    let Some(claim) = claims.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    if is_metal3_pool(&claim.spec.pool_ref) {
        trigger::<IPPool>(of, &claim.spec.pool_ref.name);
    }
    Ok(Outcome::Waits(of.resync_after()))
}

/// Returns whether a claim of Cluster API refers to a pool of Metal3.
pub(super) fn is_metal3_pool(pool: &PoolReference) -> bool {
    pool.api_group.as_deref() == Some(IPAM_GROUP) && pool.kind == IPPool::kind(&())
}

/// Triggers an object of the same namespace, if it exists.
pub(super) fn trigger<K: Resource<DynamicType = ()>>(of: &Reconciliation<'_>, name: &str) {
    if !is_valid_name(name) {
        return;
    }
    let key = Key {
        kind: GroupKind::of::<K>(),
        name: name.to_owned(),
        ..of.key.clone()
    };
    of.context.provider.requeue.add(key.text());
}

/// Returns whether a reference is to the namespace of the object itself. References to others are
/// not followed.
fn is_here(of: &Reconciliation<'_>, namespace: Option<&str>) -> bool {
    is_namespace(namespace, of.key.namespace_or_empty())
}

/// Returns whether the namespace of a reference is missing, empty, or this one.
pub(super) fn is_namespace(namespace: Option<&str>, own: &str) -> bool {
    namespace.is_none_or(|namespace| namespace.is_empty() || namespace == own)
}

/// Which clusters are paused. A claim that is served while its cluster moves could get the index
/// or the address of a claim that is still to arrive.
#[derive(Default)]
pub(super) struct PausedClusters(BTreeMap<String, Option<Cluster>>);

impl PausedClusters {
    /// Returns whether the cluster of a claim is paused, or the claim itself. The cluster is the one
    /// that the claim names, or else the one of its label.
    pub(super) async fn is_paused<K: Resource<DynamicType = ()>>(
        &mut self,
        of: &Reconciliation<'_>,
        claim: &K,
        named: Option<&str>,
    ) -> Result<bool, kube::Error> {
        let label = claim.labels().get(CLUSTER_LABEL).map(String::as_str);
        let name = named.or(label).filter(|name| is_valid_name(name));
        if let Some(name) = name
            && !self.0.contains_key(name)
        {
            let cluster = of.read::<Cluster>(name).await?;
            self.0.insert(name.to_owned(), cluster);
        }
        let cluster = name.and_then(|name| self.0.get(name)?.as_ref());
        Ok(paused::paused(cluster, claim, &K::kind(&())).is_some())
    }
}
