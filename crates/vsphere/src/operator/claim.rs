//! Claims on Secrets: owner reference and finalizer.

use insula_identity::claim::{Claimant, Owner, Verdict};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::commit::is_held;
use super::identify::REQUIRED;
use super::read::named;

/// The outcome of a claim on a Secret.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Claimed {
    /// The Secret is claimed.
    Held,
    /// The Secret does not exist.
    Absent,
    /// The Secret is being deleted, and was not claimed before.
    Going,
    /// Another object has claimed it.
    Taken(Owner),
    /// The Secret contains no account, and is neither kept nor deleted.
    Unfit,
}

/// The types of Secrets that may be claimed: only generic ones.
const TYPES: &[&str] = &["", "Opaque"];

/// Returns whether a Secret contains an account: it is of a generic type and has all required
/// keys. Other Secrets are never claimed and never deleted, even if an object references them.
pub(super) fn is_fit(secret: &Secret) -> bool {
    let of_type = secret.type_.as_deref().unwrap_or_default();
    TYPES.contains(&of_type) && missing(secret).is_empty()
}

/// Returns the required keys that a Secret lacks.
pub(super) fn missing(secret: &Secret) -> Vec<&'static str> {
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
) -> Result<Claimed, kube::Error> {
    let Some(secret) = named(secrets, name).await? else {
        return Ok(Claimed::Absent);
    };
    if let Some(owner) = claimant.holder(secret.owner_references()) {
        return Ok(Claimed::Taken(owner.clone()));
    }
    if !is_fit(&secret) {
        return Ok(Claimed::Unfit);
    }
    let going = secret.metadata.deletion_timestamp.is_some();
    match claimant.claim(secret.owner_references(), secret.finalizers()) {
        Verdict::Right => {}
        Verdict::Taken(owner) => return Ok(Claimed::Taken(owner)),
        // The API server accepts no new finalizer on a terminating object.
        Verdict::Write { .. } if going && !is_held(&secret, claimant.finalizer) => {
            return Ok(Claimed::Going);
        }
        Verdict::Write { owners, finalizers } => {
            write(secrets, &secret, &owners, &finalizers).await?;
        }
    }
    Ok(Claimed::Held)
}

/// Releases the Secret of an object that is being deleted. The Secret is deleted too, unless it
/// has another owner or contains no account. It is deleted before the finalizer is removed, so
/// that a restarted operator finds what is left to do.
pub(super) async fn give_up(
    secrets: &Api<Secret>,
    claimant: &Claimant,
    name: &str,
) -> Result<(), kube::Error> {
    let Some(secret) = named(secrets, name).await? else {
        return Ok(());
    };
    let verdict = claimant.release(secret.owner_references(), secret.finalizers());
    let Verdict::Write { owners, finalizers } = verdict else {
        return Ok(());
    };
    let going = secret.metadata.deletion_timestamp.is_some();
    if owners.is_empty() && is_fit(&secret) && !going {
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: secret.uid(),
            resource_version: secret.resource_version(),
        });
        absent_is_fine(secrets.delete(name, &only_this).await.map(drop))?;
        let Some(secret) = secrets.get_opt(name).await? else {
            return Ok(());
        };
        return absent_is_fine(write(secrets, &secret, &owners, &finalizers).await);
    }
    absent_is_fine(write(secrets, &secret, &owners, &finalizers).await)
}

/// Writes the owners and finalizers of a Secret, if it has not changed since it was read.
pub(super) async fn write(
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
pub(super) fn absent_is_fine(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done,
    }
}
