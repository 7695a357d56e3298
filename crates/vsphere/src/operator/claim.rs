//! Holding Secrets, and letting them go.

use insula_identity::claim::{Claimant, Owner, Verdict};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::commit::is_held;
use super::identify::REQUIRED;
use super::read::named;

/// What became of wanting to hold a Secret.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Claimed {
    /// It is held.
    Held,
    /// It is not there.
    Absent,
    /// It is being deleted, and was not held before.
    Going,
    /// Somebody else holds it.
    Taken(Owner),
    /// It is no account, and so not ours to keep or to delete.
    Unfit,
}

/// The types of Secrets that may be held: those of everything that has no type of its own.
const TYPES: &[&str] = &["", "Opaque"];

/// Whether a Secret is an account: of no type that others made for their own, and with
/// everything that one has. Others are never held, and never deleted, whoever names them.
pub(super) fn is_fit(secret: &Secret) -> bool {
    let of_type = secret.type_.as_deref().unwrap_or_default();
    TYPES.contains(&of_type) && missing(secret).is_empty()
}

/// What must be in a Secret and is not.
pub(super) fn missing(secret: &Secret) -> Vec<&'static str> {
    let is_missing = |key: &&&str| {
        let value = secret.data.as_ref().and_then(|data| data.get(**key));
        value.is_none_or(|value| value.0.is_empty())
    };
    REQUIRED.iter().filter(is_missing).copied().collect()
}

/// Holds a Secret: nobody else of ours can, and it does not go before it is let go.
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
        // A server takes no new finalizer on what is going.
        Verdict::Write { .. } if going && !is_held(&secret, claimant.finalizer) => {
            return Ok(Claimed::Going);
        }
        Verdict::Write { owners, finalizers } => {
            write(secrets, &secret, &owners, &finalizers).await?;
        }
    }
    Ok(Claimed::Held)
}

/// Lets a Secret go whose holder is being deleted: it goes too, unless somebody else owns it
/// or it is no account.
/// It is deleted first, so that whoever is ended in between finds what is left to do.
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

/// Writes who owns a Secret and what keeps it, if it is as it was seen.
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

/// What is gone needs no more.
pub(super) fn absent_is_fine(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done,
    }
}
