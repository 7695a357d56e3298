//! Reconciles data templates: each claim gets an index, and an object with data of that index.
//!
//! The objects with data are the record of the indexes in use. An operator that is stopped between
//! two writes leaves a state from which the next one continues: the finalizer of the claim comes
//! first, then the data, then the reference to it.

mod plan;

use std::collections::BTreeMap;

use insula_operator::commit::{self, StatusChange, has_finalizer};
use insula_operator::condition::seconds;
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::PostParams;
use tracing::info;

use self::plan::{Plan, new_data};
use super::claims::PausedClusters;
use super::context::Reconciliation;
use crate::data::index::{data_name, smallest_free};
use crate::kinds::ObjectReference;
use crate::kinds::data::Metal3Data;
use crate::kinds::data_claim::Metal3DataClaim;
use crate::kinds::data_template::{IndexEntry, Metal3DataTemplate};
use crate::names::{DATA_CLAIM_FINALIZER, DATA_TEMPLATE_FINALIZER, PAUSED};

/// Why a claim without a machine gets no data.
const NO_MACHINE: &str = "no Metal3Machine owns the claim";

/// Reconciles a template.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let templates = of.api::<Metal3DataTemplate>();
    let Some(template) = templates.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    // A template can be shared by clusters, so only its own annotation pauses it.
    if template.annotations().contains_key(PAUSED) {
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let mut change = StatusChange::new(templates, template);
    let is_deleted = change.stored.metadata.deletion_timestamp.is_some();
    if !is_deleted {
        change.add_finalizer(DATA_TEMPLATE_FINALIZER).await?;
    } else if !has_finalizer(&change.stored, DATA_TEMPLATE_FINALIZER) {
        return Ok(Outcome::Gone);
    }
    let claims = of.list::<Metal3DataClaim>().await?;
    let data = of.list::<Metal3Data>().await?;
    let mut plan = Plan::of(&of.key.name, &claims, &data);
    let has_released = !plan.released.is_empty() || !plan.orphaned.is_empty();
    for (claim, data) in &plan.released {
        release(of, claim, data).await?;
    }
    for data in &plan.orphaned {
        commit::remove_finalizer(&of.api(), *data, DATA_CLAIM_FINALIZER).await?;
    }
    for (claim, name) in &plan.recorded {
        record(of, (*claim).clone(), name).await?;
    }
    let mut clusters = PausedClusters::default();
    for claim in std::mem::take(&mut plan.without_data) {
        if !clusters.is_paused(of, claim, None).await? {
            create(of, claim, &mut plan.used).await?;
        }
    }
    write_indexes(&mut change, &plan.used).await?;
    if has_released {
        // The data may still exist.
        return Ok(Outcome::Progressed);
    }
    if !is_deleted {
        return Ok(Outcome::Settled(of.resync_after()));
    }
    if plan.live.is_empty() && plan.used.is_empty() {
        change.remove_finalizer(DATA_TEMPLATE_FINALIZER).await?;
        info!(key = %of.key, "data template deleted");
        return Ok(Outcome::Gone);
    }
    for claim in &plan.live {
        let namespace = of.key.namespace.as_deref();
        of.depend_on_object::<Metal3DataClaim>(namespace, &claim.name_any());
    }
    Ok(Outcome::Waits(of.resync_after()))
}

/// Deletes the data of a deleted claim. It ends after the claim, and only then its index is free.
async fn release(
    of: &Reconciliation<'_>,
    claim: &Metal3DataClaim,
    data: &[&Metal3Data],
) -> Result<(), kube::Error> {
    let objects = of.api::<Metal3Data>();
    for one in data {
        commit::remove_finalizer(&objects, *one, DATA_CLAIM_FINALIZER).await?;
        commit::delete(&objects, *one).await?;
    }
    let claims = of.api::<Metal3DataClaim>();
    commit::remove_finalizer(&claims, claim, DATA_CLAIM_FINALIZER).await
}

/// Creates the data of a claim with the smallest free index.
async fn create(
    of: &Reconciliation<'_>,
    claim: &Metal3DataClaim,
    used: &mut BTreeMap<u32, String>,
) -> Result<(), kube::Error> {
    let claims = of.api::<Metal3DataClaim>();
    let index = smallest_free(used.keys().copied());
    let Some(data) = new_data(&of.key.name, claim, index) else {
        let mut change = StatusChange::new(claims, claim.clone());
        let status = change.object.status.get_or_insert_default();
        status.error_message = Some(NO_MACHINE.to_owned());
        return change.commit().await;
    };
    let claim = commit::add_finalizer(&claims, claim, DATA_CLAIM_FINALIZER).await?;
    let objects = of.api::<Metal3Data>();
    objects.create(&PostParams::default(), &data).await?;
    used.insert(index, claim.name_any());
    info!(key = %of.key, claim = claim.name_any(), index, "index given");
    let name = data_name(&of.key.name, index);
    record(of, claim, &name).await
}

/// Records the data of a claim in its status.
async fn record(
    of: &Reconciliation<'_>,
    claim: Metal3DataClaim,
    data: &str,
) -> Result<(), kube::Error> {
    let mut change = StatusChange::new(of.api::<Metal3DataClaim>(), claim);
    change.add_finalizer(DATA_CLAIM_FINALIZER).await?;
    let status = change.object.status.get_or_insert_default();
    status.error_message = None;
    status.rendered_data = Some(ObjectReference {
        name: data.to_owned(),
        namespace: of.key.namespace.clone(),
    });
    change.commit().await
}

/// Writes the indexes in use to the status of the template.
async fn write_indexes(
    change: &mut StatusChange<Metal3DataTemplate>,
    used: &BTreeMap<u32, String>,
) -> Result<(), kube::Error> {
    let used = used.iter();
    let indexes = used.map(|(index, claim)| IndexEntry {
        name: claim.clone(),
        index: *index,
    });
    let indexes: Vec<_> = indexes.collect();
    let status = change.object.status.get_or_insert_default();
    // The time is not written alone, because each write would trigger the next one.
    if status.last_updated.is_none() || status.indexes != indexes {
        status.indexes = indexes;
        status.last_updated = Some(seconds(Timestamp::now()));
    }
    change.commit().await
}
