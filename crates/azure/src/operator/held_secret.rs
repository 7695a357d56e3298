//! The Secret with the credential of an object, which is held while a resource needs it.
//!
//! An object is a user of a Secret from the moment on in which it has the finalizer and refers to
//! the Secret; the Secret is held afterwards. An annotation records which Secret an object holds, so
//! that a Secret is released when the object refers to another one. An object that is deleted, and
//! has nothing in Azure any more, is no user: of several objects that are deleted at the same time,
//! the last one finds no other user.

use insula_identity::claim::Hold;
use insula_identity::credential::{Credential, Source};
use insula_operator::provider::{Dependency, announce_hold_end, end_shared_hold};
use insula_operator::read::is_valid_name;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta};
use tracing::info;

use super::credentials::{is_wider_allowed, secret_name};
use super::object::Object;
use super::policy::Annotations;
use crate::names::{
    CREDENTIAL_FINALIZER, CREDENTIAL_SECRET, FINALIZER, LATEST_RECONCILED_GENERATION,
    RECONCILED_INPUTS,
};

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

/// Ends the hold on a Secret, unless another object needs it. The name may come from an annotation,
/// which users can edit.
pub(super) async fn release(object: &Object<'_>, name: &str) -> Result<(), kube::Error> {
    let of = object.of;
    if !is_valid_name(name) {
        return Ok(());
    }
    let secrets = of.secrets(of.key.namespace_or_empty());
    let held = secrets.get_metadata_opt(name).await?;
    let is_held = held.is_some_and(|secret| {
        let finalizers = secret.metadata.finalizers.unwrap_or_default();
        finalizers.iter().any(|one| one == CREDENTIAL_FINALIZER)
    });
    if !is_held || has_other_users(object, name).await? {
        return Ok(());
    }
    let Some(ending) = announce_hold_end(&secrets, &HOLD, name).await? else {
        return Ok(());
    };
    // One that became a user before the announcement is found now, and a later one finds it.
    if !has_other_users(object, name).await? {
        end_shared_hold(&secrets, &HOLD, ending).await?;
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

/// Returns whether an object needs a Secret: it holds it, or refers to it and will hold it, and may
/// not use a wider credential instead.
fn needs(metadata: &ObjectMeta, of_namespace: &Annotations, secret: &str) -> bool {
    let none = Annotations::new();
    let annotations = metadata.annotations.as_ref().unwrap_or(&none);
    let mut finalizers = metadata.finalizers.iter().flatten();
    let is_claimed = finalizers.any(|one| one == FINALIZER);
    let is_over = metadata.deletion_timestamp.is_some() && !was_sent(annotations);
    let recorded = annotations.get(CREDENTIAL_SECRET).map(String::as_str);
    let is_named = recorded == Some(secret) || secret_name(annotations) == secret;
    is_claimed && !is_over && is_named && !is_wider_allowed(annotations, of_namespace)
}

/// Returns whether a resource may be in Azure: it was sent, and not deleted since.
pub(super) fn was_sent(annotations: &Annotations) -> bool {
    let records = [LATEST_RECONCILED_GENERATION, RECONCILED_INPUTS];
    let mut values = records.iter().filter_map(|name| annotations.get(*name));
    values.any(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::names::{ALLOW_WIDER_CREDENTIAL, CREDENTIAL_FROM};

    #[test]
    fn object_needs_the_secret_that_it_records_or_refers_to() {
        const SECRET: &str = "aso-credential";
        let own = (CREDENTIAL_FROM, "own");
        let sent = (RECONCILED_INPUTS, "digest");
        for (is_claimed, is_deleted, annotations, expected) in [
            (true, false, vec![], true),
            (false, false, vec![], false),
            (true, false, vec![own], false),
            (true, false, vec![(CREDENTIAL_SECRET, SECRET)], true),
            // It will hold the one that it refers to now.
            (true, false, vec![(CREDENTIAL_SECRET, "own")], true),
            (true, false, vec![(CREDENTIAL_SECRET, "")], true),
            (true, false, vec![own, (CREDENTIAL_SECRET, SECRET)], true),
            (true, false, vec![(ALLOW_WIDER_CREDENTIAL, "true")], false),
            (true, true, vec![sent], true),
            (true, true, vec![(LATEST_RECONCILED_GENERATION, "1")], true),
            (true, true, vec![(CREDENTIAL_SECRET, SECRET)], false),
        ] {
            let shown = format!("{is_claimed} {is_deleted} {annotations:?}");
            let annotations = annotations.into_iter();
            let annotations = annotations.map(|(k, v)| (k.to_owned(), v.to_owned()));
            let metadata = ObjectMeta {
                finalizers: is_claimed.then(|| vec![FINALIZER.to_owned()]),
                annotations: Some(annotations.collect()),
                deletion_timestamp: is_deleted.then_some(Time(Timestamp::UNIX_EPOCH)),
                ..ObjectMeta::default()
            };
            let needed = needs(&metadata, &Annotations::new(), SECRET);
            assert_eq!(needed, expected, "{shown}");
            let allowed = [(ALLOW_WIDER_CREDENTIAL.to_owned(), "true".to_owned())].into();
            assert!(!needs(&metadata, &allowed, SECRET), "{shown}");
        }
    }
}
