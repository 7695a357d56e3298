//! Reconciles Secrets that objects hold: owners that no longer reference a Secret are removed from
//! it. So the operator needs no record of what was held before.

use insula_identity::claim::Owner;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use tracing::info;

use super::hold::{ignore_not_found, is_credential, write_owners};
use super::identity::{reference_of, secret_name};
use super::{Provider, Reconciliation};
use crate::commit::has_finalizer;
use crate::retry::Outcome;

/// Reconciles a held Secret.
pub(super) async fn reconcile<P: Provider>(
    of: &Reconciliation<'_, P>,
) -> Result<Outcome, kube::Error> {
    let secrets = of.api::<Secret>();
    let found = secrets.get_opt(&of.key.name).await?;
    let finalizer = P::NAMES.secret_finalizer;
    let Some(secret) = found.filter(|secret| has_finalizer(secret, finalizer)) else {
        return Ok(Outcome::Gone);
    };
    let (mut owners, mut holders) = (Vec::new(), 0);
    let has_credential = is_credential(&secret, P::SHAPE);
    for owner in secret.owner_references() {
        if !is_claimant::<P>(owner) {
            owners.push(owner.clone());
        } else if has_credential && is_valid_hold(of, owner).await? {
            owners.push(owner.clone());
            holders += 1;
        }
    }
    if holders > 0 && owners.len() == secret.owner_references().len() {
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let mut finalizers = secret.finalizers().to_vec();
    if holders == 0 {
        finalizers.retain(|held| held != finalizer);
    }
    let written = write_owners(&secrets, &secret, &owners, &finalizers).await;
    ignore_not_found(written.map(drop))?;
    info!(key = %of.key, holders, "Secret released");
    Ok(Outcome::Progressed)
}

/// Returns whether an owner is of a kind that holds Secrets.
fn is_claimant<P: Provider>(owner: &Owner) -> bool {
    let group = |api_version: &str| api_version.split('/').next().map(str::to_owned);
    let names = P::NAMES;
    group(&owner.api_version) == group(names.api_version)
        && names.claimant_kinds.contains(&owner.kind.as_str())
}

/// Returns whether an owner exists and references this Secret. A terminating one releases the
/// Secret itself.
async fn is_valid_hold<P: Provider>(
    of: &Reconciliation<'_, P>,
    owner: &Owner,
) -> Result<bool, kube::Error> {
    if let Some(identities) = P::IDENTITIES.filter(|kind| kind.kind == owner.kind) {
        let resource = (identities.resource)();
        let found = of.read_dynamic(&resource, None, &owner.name).await?;
        let is_at_home = of.key.namespace_or_empty() == of.context.operator_namespace;
        return Ok(is_at_home && found.is_some_and(|found| secret_name(&found) == of.key.name));
    }
    let mut claimants = P::NAMES.claimants.iter();
    let Some(claimant) = claimants.find(|claimant| claimant.kind == owner.kind) else {
        return Ok(false);
    };
    let namespace = of.key.namespace.as_deref();
    let resource = (claimant.resource)();
    let found = of.read_dynamic(&resource, namespace, &owner.name).await?;
    Ok(found.is_some_and(|found| references_secret(&found, &of.key.name)))
}

fn references_secret(object: &DynamicObject, name: &str) -> bool {
    reference_of(object) == Some(("Secret", name))
}
