//! Holding Secrets, and letting them go.

use insula_identity::claim::{Claimant, Owner, Verdict};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::commit::is_held;

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
}

/// Holds a Secret: nobody else of ours can, and it does not go before it is let go.
pub(super) async fn claim(
    secrets: &Api<Secret>,
    claimant: &Claimant,
    name: &str,
) -> Result<Claimed, kube::Error> {
    let Some(secret) = secrets.get_metadata_opt(name).await? else {
        return Ok(Claimed::Absent);
    };
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

/// Lets a Secret go whose holder is being deleted: it goes too, unless somebody else owns it.
/// It is deleted first, so that whoever is ended in between finds what is left to do.
pub(super) async fn give_up(
    secrets: &Api<Secret>,
    claimant: &Claimant,
    name: &str,
) -> Result<(), kube::Error> {
    let Some(secret) = secrets.get_metadata_opt(name).await? else {
        return Ok(());
    };
    let verdict = claimant.release(secret.owner_references(), secret.finalizers());
    let Verdict::Write { owners, finalizers } = verdict else {
        return Ok(());
    };
    if owners.is_empty() && secret.metadata.deletion_timestamp.is_none() {
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: secret.uid(),
            resource_version: secret.resource_version(),
        });
        absent_is_fine(secrets.delete(name, &only_this).await.map(drop))?;
        let Some(secret) = secrets.get_metadata_opt(name).await? else {
            return Ok(());
        };
        return absent_is_fine(write(secrets, &secret, &owners, &finalizers).await);
    }
    absent_is_fine(write(secrets, &secret, &owners, &finalizers).await)
}

/// Writes who owns a Secret and what keeps it, if it is as it was seen.
pub(super) async fn write(
    secrets: &Api<Secret>,
    secret: &PartialObjectMeta<Secret>,
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
