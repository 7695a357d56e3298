//! The Secret with the credential of an object, which is held while a resource needs it.
//!
//! An annotation records which Secret an object holds, so that a Secret is released when the object
//! refers to another one. Before an object is let go, the record is emptied: of several objects that
//! are deleted at the same time, the last one finds no other user.

use insula_identity::claim::Hold;
use insula_identity::credential::{Credential, Source};
use insula_operator::provider::{Dependency, end_hold};
use insula_operator::read::is_valid_name;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta};
use tracing::info;

use super::credentials::{is_wider_allowed, secret_name};
use super::object::Object;
use super::policy::Annotations;
use crate::names::{CREDENTIAL_FINALIZER, CREDENTIAL_SECRET, FINALIZER};

/// How a Secret is held.
pub(super) const HOLD: Hold = Hold::Shared {
    finalizer: CREDENTIAL_FINALIZER,
};

/// Records the dependency on the credential, whether the object calls Azure now or not.
pub(super) fn depend_on_credential(object: &Object<'_>) {
    let of = object.of;
    let name = secret_name(object.annotations());
    if is_valid_name(name) {
        of.depend_on_object::<Secret>(of.key.namespace.as_deref(), name);
    }
    if of.context.provider.terms.mode.uses_operator() {
        of.depend_on(Dependency::StaticCredentials);
    }
}

/// Returns the Secret to record for an object with this credential; empty if it holds none.
pub(super) fn recorded_name(credential: &Credential) -> &str {
    match &credential.source {
        Source::Secret { name, .. } => name,
        Source::Identity { .. } | Source::Operator => "",
    }
}

/// Releases the Secret that an object held before, if it holds another one now.
pub(super) async fn release_previous(object: &Object<'_>, now: &str) -> Result<(), kube::Error> {
    match object.annotation(CREDENTIAL_SECRET) {
        Some(before) if before != now => release(object, before).await,
        _ => Ok(()),
    }
}

/// Releases a Secret that is being deleted, if the object may use a wider credential instead.
pub(super) async fn release_replaceable(object: &Object<'_>) -> Result<(), kube::Error> {
    let (of, terms) = (object.of, &object.of.context.provider.terms);
    let is_allowed = is_wider_allowed(object.annotations(), &object.of_namespace);
    // Tenants' spaces have no wider credential.
    if !is_allowed || !terms.has_own || of.key.space.is_some() {
        return Ok(());
    }
    let name = secret_name(object.annotations());
    if !is_valid_name(name) {
        return Ok(());
    }
    let secrets = of.secrets(of.key.namespace_or_empty());
    let found = secrets.get_metadata_opt(name).await?;
    match found.and_then(|found| found.metadata.deletion_timestamp) {
        Some(_) => release(object, name).await,
        None => Ok(()),
    }
}

/// Ends the hold on a Secret, unless another object needs it.
pub(super) async fn release(object: &Object<'_>, name: &str) -> Result<(), kube::Error> {
    let of = object.of;
    let secrets = of.secrets(of.key.namespace_or_empty());
    let held = secrets.get_metadata_opt(name).await?;
    let is_held = held.is_some_and(|secret| {
        let finalizers = secret.metadata.finalizers.unwrap_or_default();
        finalizers.iter().any(|one| one == CREDENTIAL_FINALIZER)
    });
    if is_held && !has_other_users(object, name).await? {
        let shape = of.context.provider.terms.shape;
        end_hold(&secrets, &HOLD, shape, name, false).await?;
        info!(key = %of.key, secret = name, "Secret released");
    }
    Ok(())
}

/// Returns whether another resource of the namespace needs the Secret. Only metadata is read, and
/// only when the Secret is held.
async fn has_other_users(object: &Object<'_>, secret: &str) -> Result<bool, kube::Error> {
    let of = object.of;
    for served in of.context.provider.served.iter() {
        let api: Api<DynamicObject> = of.api_of(&served.watched());
        let listed = api.list_metadata(&ListParams::default()).await?;
        let is_user = |metadata: &ObjectMeta| {
            metadata.uid != object.metadata().uid && needs(metadata, &object.of_namespace, secret)
        };
        if listed.items.iter().any(|other| is_user(&other.metadata)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether an object needs a Secret: it holds it, or will without a record of it, and may
/// not use a wider credential instead.
fn needs(metadata: &ObjectMeta, of_namespace: &Annotations, secret: &str) -> bool {
    let none = Annotations::new();
    let annotations = metadata.annotations.as_ref().unwrap_or(&none);
    let mut finalizers = metadata.finalizers.iter().flatten();
    let is_claimed = finalizers.any(|one| one == FINALIZER);
    let recorded = annotations.get(CREDENTIAL_SECRET);
    let name = recorded.map_or_else(|| secret_name(annotations), String::as_str);
    is_claimed && name == secret && !is_wider_allowed(annotations, of_namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{ALLOW_WIDER_CREDENTIAL, CREDENTIAL_FROM};

    #[test]
    fn object_needs_the_secret_that_it_records_or_refers_to() {
        let allow = (ALLOW_WIDER_CREDENTIAL, "true");
        for (is_claimed, annotations, expected) in [
            (true, vec![], true),
            (false, vec![], false),
            (true, vec![(CREDENTIAL_FROM, "own")], false),
            (true, vec![(CREDENTIAL_SECRET, "aso-credential")], true),
            (true, vec![(CREDENTIAL_SECRET, "own")], false),
            (true, vec![(CREDENTIAL_SECRET, "")], false),
            (
                true,
                vec![
                    (CREDENTIAL_FROM, "own"),
                    (CREDENTIAL_SECRET, "aso-credential"),
                ],
                true,
            ),
            (true, vec![allow], false),
        ] {
            let shown = format!("{is_claimed} {annotations:?}");
            let annotations = annotations.into_iter();
            let annotations = annotations.map(|(k, v)| (k.to_owned(), v.to_owned()));
            let metadata = ObjectMeta {
                finalizers: is_claimed.then(|| vec![FINALIZER.to_owned()]),
                annotations: Some(annotations.collect()),
                ..ObjectMeta::default()
            };
            let needed = needs(&metadata, &Annotations::new(), "aso-credential");
            assert_eq!(needed, expected, "{shown}");
            let allowed = [(ALLOW_WIDER_CREDENTIAL.to_owned(), "true".to_owned())].into();
            assert!(!needs(&metadata, &allowed, "aso-credential"), "{shown}");
        }
    }
}
