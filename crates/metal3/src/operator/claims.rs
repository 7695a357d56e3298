//! Triggers the template or pool that a claim names. One object does all work for a template or a
//! pool, so that no index and no address is given twice.

use insula_operator::key::{GroupKind, Key};
use insula_operator::read::is_valid_name;
use insula_operator::retry::Outcome;
use kube::Resource;

use super::context::Reconciliation;
use crate::ipam::kinds::{IPClaim, IPPool};
use crate::kinds::data_claim::Metal3DataClaim;
use crate::kinds::data_template::Metal3DataTemplate;

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
