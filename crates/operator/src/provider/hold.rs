//! Holds on Secrets: owner reference and finalizer.

use insula_identity::claim::{ClaimChange, Hold, Owner};
use insula_identity::credential::Hidden;
use insula_identity::shape::{InvalidContent, Shape};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, PartialObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{Provider, Reconciliation};
use crate::commit::has_finalizer;
use crate::key::{GroupKind, Key};
use crate::read::{get_named, get_named_metadata};

/// The outcome of taking a hold on a Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldOutcome {
    /// The Secret is held.
    Held,
    /// The Secret does not exist.
    NotFound,
    /// The Secret is being deleted, and was not held before.
    Terminating,
    /// Another object holds it.
    HeldByOther(Owner),
    /// The Secret contains no credential, and is neither kept nor deleted.
    NoCredential,
}

/// Annotation of a Secret whose shared hold is about to end.
///
/// An object becomes a user of a Secret first, and looks at the Secret then; there is no write if
/// the Secret is held already. The operator that ends a hold announces the end first, and lists the
/// users then. So a user is listed, or it finds the announcement and removes it, which makes the
/// last write of the other operator fail.
pub const HOLD_ENDING: &str = "insula.dev/hold-ending";

/// The types of Secrets that may be held: only generic ones.
const GENERIC_TYPES: &[&str] = &["", "Opaque"];

/// Returns whether a Secret contains a credential: it is of a generic type and has the contents
/// of the shape. Other Secrets are never held and never deleted, even if an object references
/// them.
pub(super) fn is_credential(secret: &Secret, shape: &dyn Shape) -> bool {
    let of_type = secret.type_.as_deref().unwrap_or_default();
    GENERIC_TYPES.contains(&of_type) && check_content(secret, shape).is_ok()
}

/// Checks the contents of a Secret.
pub(super) fn check_content(secret: &Secret, shape: &dyn Shape) -> Result<(), InvalidContent> {
    let data = secret.data.iter().flatten();
    let data = data.map(|(key, value)| (key.clone(), Hidden::new(value.0.clone())));
    shape.read(&data.collect(), None).map(drop)
}

/// Takes a hold on a Secret. It is not deleted before the hold ends.
///
/// # Errors
///
/// If a request fails.
pub async fn take_hold(
    secrets: &Api<Secret>,
    hold: &Hold,
    shape: &dyn Shape,
    name: &str,
) -> Result<HoldOutcome, kube::Error> {
    let Some(secret) = get_named(secrets, name).await? else {
        return Ok(HoldOutcome::NotFound);
    };
    match check_hold(&secret, hold, shape) {
        Needed::Nothing(outcome) => Ok(outcome),
        Needed::Write { owners, finalizers } => {
            write_owners(secrets, &secret, &owners, &finalizers).await?;
            Ok(HoldOutcome::Held)
        }
    }
}

/// The attempts to hold a Secret that other objects are about to hold too.
const MAX_ATTEMPTS: usize = 3;

impl<P: Provider> Reconciliation<'_, P> {
    /// Takes a hold on a Secret in the namespace of the object, which is not read again if the
    /// credential was resolved before. The write does not trigger the users of the Secret.
    ///
    /// # Errors
    ///
    /// If a request fails.
    pub async fn take_hold(
        &self,
        hold: &Hold,
        shape: &dyn Shape,
        name: &str,
    ) -> Result<HoldOutcome, kube::Error> {
        let namespace = self.key.namespace_or_empty();
        let secrets = self.secrets(namespace);
        let mut found = self.read_secret(namespace, name).await?;
        for _ in 1..MAX_ATTEMPTS {
            let Some(secret) = found else {
                return Ok(HoldOutcome::NotFound);
            };
            let (owners, finalizers) = match check_hold(&secret, hold, shape) {
                Needed::Nothing(outcome) => return Ok(outcome),
                Needed::Write { owners, finalizers } => (owners, finalizers),
            };
            match write_owners(&secrets, &secret, &owners, &finalizers).await {
                Ok(version) => {
                    let space = self.key.space.clone();
                    let kind = GroupKind::of::<Secret>();
                    let key = Key::namespaced(kind, space, namespace, name);
                    let writes = &self.context.own_writes;
                    writes.written(&key.text(), &version.unwrap_or_default());
                    return Ok(HoldOutcome::Held);
                }
                // Another object may have taken the same hold at the same time.
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    found = self.read_secret_again(namespace, name).await?;
                }
                Err(error) => return Err(error),
            }
        }
        take_hold(&secrets, hold, shape, name).await
    }
}

/// What is needed to hold a Secret.
enum Needed {
    Nothing(HoldOutcome),
    Write {
        owners: Vec<Owner>,
        finalizers: Vec<String>,
    },
}

fn check_hold(secret: &Secret, hold: &Hold, shape: &dyn Shape) -> Needed {
    if let Some(owner) = hold.holder(secret.owner_references()) {
        return Needed::Nothing(HoldOutcome::HeldByOther(owner.clone()));
    }
    if !is_credential(secret, shape) {
        return Needed::Nothing(HoldOutcome::NoCredential);
    }
    let terminating = secret.metadata.deletion_timestamp.is_some();
    match hold.take(secret.owner_references(), secret.finalizers()) {
        ClaimChange::Unchanged if is_ending(&secret.metadata) => Needed::Write {
            owners: secret.owner_references().to_vec(),
            finalizers: secret.finalizers().to_vec(),
        },
        ClaimChange::Unchanged => Needed::Nothing(HoldOutcome::Held),
        ClaimChange::Taken(owner) => Needed::Nothing(HoldOutcome::HeldByOther(owner)),
        // The API server accepts no new finalizer on a terminating object.
        ClaimChange::Write { finalizers, .. }
            if terminating && finalizers.iter().any(|one| !has_finalizer(secret, one)) =>
        {
            Needed::Nothing(HoldOutcome::Terminating)
        }
        ClaimChange::Write { owners, finalizers } => Needed::Write { owners, finalizers },
    }
}

/// Ends the hold of an object that is being deleted. A Secret that it held alone is deleted too,
/// unless it has another owner or contains no credential. It is deleted before the finalizer is
/// removed, so that a restarted operator finds what is left to do.
///
/// # Errors
///
/// If a request fails.
pub async fn end_hold(
    secrets: &Api<Secret>,
    hold: &Hold,
    shape: &dyn Shape,
    name: &str,
    has_other_users: bool,
) -> Result<(), kube::Error> {
    let Some(secret) = get_named(secrets, name).await? else {
        return Ok(());
    };
    let change = hold.end(
        secret.owner_references(),
        secret.finalizers(),
        has_other_users,
    );
    let ClaimChange::Write { owners, finalizers } = change else {
        return Ok(());
    };
    let terminating = secret.metadata.deletion_timestamp.is_some();
    let is_deleted = matches!(hold, Hold::One(_)) && owners.is_empty();
    if is_deleted && is_credential(&secret, shape) && !terminating {
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: secret.uid(),
            resource_version: secret.resource_version(),
        });
        ignore_not_found(secrets.delete(name, &only_this).await.map(drop))?;
        let Some(secret) = secrets.get_opt(name).await? else {
            return Ok(());
        };
        let written = write_owners(secrets, &secret, &owners, &finalizers).await;
        return ignore_not_found(written.map(drop));
    }
    let written = write_owners(secrets, &secret, &owners, &finalizers).await;
    ignore_not_found(written.map(drop))
}

fn is_ending(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(HOLD_ENDING))
}

/// A Secret in which the end of a shared hold is announced.
#[derive(Debug)]
pub struct EndingHold(PartialObjectMeta<Secret>);

/// Announces the end of a shared hold in the Secret; none if the Secret is not held. Users are
/// listed afterwards. Without [`end_shared_hold`] the announcement changes nothing.
///
/// # Errors
///
/// If a request fails, or the Secret is changed at the same time.
pub async fn announce_hold_end(
    secrets: &Api<Secret>,
    hold: &Hold,
    name: &str,
) -> Result<Option<EndingHold>, kube::Error> {
    let Some(secret) = get_named_metadata(secrets, name).await? else {
        return Ok(None);
    };
    let change = hold.end(secret.owner_references(), secret.finalizers(), false);
    if change == ClaimChange::Unchanged {
        return Ok(None);
    }
    if is_ending(&secret.metadata) {
        return Ok(Some(EndingHold(secret)));
    }
    let fields = json!({"annotations": {HOLD_ENDING: "true"}});
    let written = write_metadata(secrets, &secret, fields).await?;
    Ok(Some(EndingHold(written)))
}

/// Ends a shared hold that was announced, if the Secret has not changed since.
///
/// # Errors
///
/// If a request fails, or the Secret has changed: it may have a new user.
pub async fn end_shared_hold(
    secrets: &Api<Secret>,
    hold: &Hold,
    EndingHold(secret): EndingHold,
) -> Result<(), kube::Error> {
    match hold.end(secret.owner_references(), secret.finalizers(), false) {
        ClaimChange::Write { owners, finalizers } => {
            let written = write_owners(secrets, &secret, &owners, &finalizers).await;
            ignore_not_found(written.map(drop))
        }
        ClaimChange::Unchanged | ClaimChange::Taken(_) => Ok(()),
    }
}

/// Writes the owners and finalizers of a Secret, if it has not changed since it was read. Returns
/// its new version.
pub(super) async fn write_owners(
    secrets: &Api<Secret>,
    secret: &impl ResourceExt,
    owners: &[Owner],
    finalizers: &[String],
) -> Result<Option<String>, kube::Error> {
    let mut fields = json!({"ownerReferences": owners, "finalizers": finalizers});
    if is_ending(secret.meta()) {
        fields["annotations"] = json!({HOLD_ENDING: null});
    }
    let written = write_metadata(secrets, secret, fields).await;
    written.map(|written| written.metadata.resource_version)
}

async fn write_metadata(
    secrets: &Api<Secret>,
    secret: &impl ResourceExt,
    mut fields: Value,
) -> Result<PartialObjectMeta<Secret>, kube::Error> {
    fields["uid"] = secret.uid().into();
    fields["resourceVersion"] = secret.resource_version().into();
    let patch = Patch::Merge(json!({ "metadata": fields }));
    let (name, parameters) = (secret.name_any(), PatchParams::default());
    secrets.patch_metadata(&name, &parameters, &patch).await
}

/// Treats a missing object as success.
pub(super) fn ignore_not_found(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        done => done,
    }
}
