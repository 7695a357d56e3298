//! Claims on Secrets: owner reference and finalizer.

use insula_identity::claim::{ClaimChange, Claimant, Owner};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::commit::has_finalizer;
use super::read::get_named;
use super::resolve::REQUIRED;

/// The outcome of a claim on a Secret.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClaimOutcome {
    /// The Secret is claimed.
    Claimed,
    /// The Secret does not exist.
    NotFound,
    /// The Secret is being deleted, and was not claimed before.
    Terminating,
    /// Another object has claimed it.
    ClaimedByOther(Owner),
    /// The Secret contains no account, and is neither kept nor deleted.
    NoAccount,
}

/// The types of Secrets that may be claimed: only generic ones.
const GENERIC_TYPES: &[&str] = &["", "Opaque"];

/// Returns whether a Secret contains an account: it is of a generic type and has all required
/// keys. Other Secrets are never claimed and never deleted, even if an object references them.
pub(super) fn is_account(secret: &Secret) -> bool {
    let of_type = secret.type_.as_deref().unwrap_or_default();
    GENERIC_TYPES.contains(&of_type) && missing_keys(secret).is_empty()
}

/// Returns the required keys that a Secret lacks.
pub(super) fn missing_keys(secret: &Secret) -> Vec<&'static str> {
    let is_missing = |key: &&&str| {
        let value = secret.data.as_ref().and_then(|data| data.get(**key));
        value.is_none_or(|value| value.0.is_empty())
    };
    REQUIRED.iter().filter(is_missing).copied().collect()
}

/// Claims a Secret: no other cluster or identity can, and it is not deleted before the release.
pub(super) async fn claim(
    secrets: &Api<Secret>,
    claimant: &Claimant,
    name: &str,
) -> Result<ClaimOutcome, kube::Error> {
    let Some(secret) = get_named(secrets, name).await? else {
        return Ok(ClaimOutcome::NotFound);
    };
    if let Some(owner) = claimant.holder(secret.owner_references()) {
        return Ok(ClaimOutcome::ClaimedByOther(owner.clone()));
    }
    if !is_account(&secret) {
        return Ok(ClaimOutcome::NoAccount);
    }
    let terminating = secret.metadata.deletion_timestamp.is_some();
    match claimant.claim(secret.owner_references(), secret.finalizers()) {
        ClaimChange::Unchanged => {}
        ClaimChange::Taken(owner) => return Ok(ClaimOutcome::ClaimedByOther(owner)),
        // The API server accepts no new finalizer on a terminating object.
        ClaimChange::Write { .. } if terminating && !has_finalizer(&secret, claimant.finalizer) => {
            return Ok(ClaimOutcome::Terminating);
        }
        ClaimChange::Write { owners, finalizers } => {
            write_owners(secrets, &secret, &owners, &finalizers).await?;
        }
    }
    Ok(ClaimOutcome::Claimed)
}

/// Releases the Secret of an object that is being deleted. The Secret is deleted too, unless it
/// has another owner or contains no account. It is deleted before the finalizer is removed, so
/// that a restarted operator finds what is left to do.
pub(super) async fn release(
    secrets: &Api<Secret>,
    claimant: &Claimant,
    name: &str,
) -> Result<(), kube::Error> {
    let Some(secret) = get_named(secrets, name).await? else {
        return Ok(());
    };
    let change = claimant.release(secret.owner_references(), secret.finalizers());
    let ClaimChange::Write { owners, finalizers } = change else {
        return Ok(());
    };
    let terminating = secret.metadata.deletion_timestamp.is_some();
    if owners.is_empty() && is_account(&secret) && !terminating {
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: secret.uid(),
            resource_version: secret.resource_version(),
        });
        ignore_not_found(secrets.delete(name, &only_this).await.map(drop))?;
        let Some(secret) = secrets.get_opt(name).await? else {
            return Ok(());
        };
        return ignore_not_found(write_owners(secrets, &secret, &owners, &finalizers).await);
    }
    ignore_not_found(write_owners(secrets, &secret, &owners, &finalizers).await)
}

/// Writes the owners and finalizers of a Secret, if it has not changed since it was read.
pub(super) async fn write_owners(
    secrets: &Api<Secret>,
    secret: &Secret,
    owners: &[Owner],
    finalizers: &[String],
) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {
        "uid": secret.uid(),
        "resourceVersion": secret.resource_version(),
        "ownerReferences": owners,
        "finalizers": finalizers,
    }});
    let (name, parameters) = (secret.name_any(), PatchParams::default());
    let patch = Patch::Merge(patch);
    let written = secrets.patch_metadata(&name, &parameters, &patch).await;
    written.map(drop)
}

/// Treats a missing object as success.
pub(super) fn ignore_not_found(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done,
    }
}
