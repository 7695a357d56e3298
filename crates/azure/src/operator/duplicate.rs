//! Objects with the ARM id of a resource that belongs to another object.

use insula_operator::key::Key;
use insula_operator::read::is_valid_name;
use insula_operator::retry::Outcome;
use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

use super::access::{Azure, has_another_credential, outcome};
use super::credentials::secret_name;
use super::held_secret;
use super::object::Object;
use super::ownership::{Admission, is_near};
use super::pacing::Subject;
use super::policy::is_skipped;
use super::ready::Problem;
use super::requests::{ask, refused};
use crate::arm::throttle::{Requests, Turn};
use crate::arm::{RequestFailure, ResourceId};
use crate::mapping::export::has_exports;
use crate::names::{
    ACCEPTED_ID, ACCEPTED_PROOF, FINALIZER, LATEST_RECONCILED_GENERATION, POLLER_RESUME_ID,
    POLLER_RESUME_TOKEN, RECONCILED_INPUTS,
};

/// The reason of an object with the resource of another one.
const DUPLICATE: &str = "DuplicateResource";

/// Refuses an object, because its resource belongs to another one. An object of another namespace
/// learns that only if Azure shows it the resource.
pub(super) async fn refuse(
    mut object: Object<'_>,
    azure: &Azure,
    id: &ResourceId,
    owner: &Key,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let (pacing, name) = (&of.context.provider.pacing, of.key.text());
    let subject = Subject::Read(object.generation());
    if !is_near(of.key, owner) {
        let wait = pacing.wait(&name, &subject, Instant::now());
        if let Some(wait) = wait
            && !has_another_credential(&object).await?
        {
            return Ok(outcome(of, wait));
        }
        if let Turn::Wait(delay) = ask(of, azure, Requests::Reads) {
            return Ok(Outcome::Waits(delay));
        }
        if let Err(failure) = check_visible(&object, azure, id, owner).await {
            return refused(object, azure, failure, subject).await;
        }
        pacing.synced(&name, subject, Instant::now());
    }
    remove_records(&mut object, id, owner).await?;
    let problem = Problem::warning(DUPLICATE, message(of.key, owner, id));
    object.report(Some(&problem)).await?;
    Ok(Outcome::Waits(of.resync_after()))
}

/// Checks that Azure shows a resource of another namespace to an object, or that it does not exist:
/// otherwise the existence of its owner would say which resources other tenants have.
///
/// # Errors
///
/// If Azure does not.
pub(super) async fn check_visible(
    object: &Object<'_>,
    azure: &Azure,
    id: &ResourceId,
    owner: &Key,
) -> Result<(), RequestFailure> {
    if is_near(object.of.key, owner) {
        return Ok(());
    }
    let version = object.version.api_version();
    match azure.session.client().get(id, &version).await {
        Err(failure) if !failure.is_not_found() => Err(failure),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Removes the record of an object that only reads its resource from now on, so that it does not
/// take it from the next owner when it is managed again.
pub(super) async fn give_up(object: &mut Object<'_>) -> Result<(), kube::Error> {
    let records = match is_skipped(object.annotations()) {
        true => json!({ACCEPTED_ID: null, ACCEPTED_PROOF: null}),
        false => json!({}),
    };
    object.annotate(records).await
}

/// Returns whether an object that only reads its resource may export values of it.
pub(super) fn check_export(object: &Object<'_>, azure: &Azure, id: &ResourceId) -> Admission {
    if !has_exports(object.value()) {
        return Admission::Granted;
    }
    let of = object.of;
    let owners = &of.context.provider.owners;
    owners.admit_export(of.key, id, &azure.server(), Instant::now())
}

/// Returns the problem of exports of a resource of another namespace.
pub(super) fn no_export(object: &Object<'_>, owner: &Key, id: &ResourceId) -> Problem {
    let key = object.of.key;
    warn!(%key, %owner, id = id.as_str(), "values of another object's resource not exported");
    let message = format!(
        "{:?} belongs to an object of another namespace: only that one exports values of it; \
         remove the exports from spec.operatorSpec, and the resource is only read",
        id.as_str()
    );
    Problem::warning(DUPLICATE, message)
}

/// Removes every record that an object was sent, so that its deletion concerns nothing in Azure,
/// also after a restart.
async fn remove_records(
    object: &mut Object<'_>,
    id: &ResourceId,
    owner: &Key,
) -> Result<(), kube::Error> {
    let is_reported = object.ready().is_some_and(|it| it.has_reason(DUPLICATE));
    if !is_reported {
        let key = object.of.key;
        warn!(%key, %owner, id = id.as_str(), "resource belongs to another object");
    }
    object
        .annotate(json!({
            LATEST_RECONCILED_GENERATION: null, RECONCILED_INPUTS: null, ACCEPTED_ID: null,
            ACCEPTED_PROOF: null, POLLER_RESUME_TOKEN: null, POLLER_RESUME_ID: null,
        }))
        .await?;
    object.of.context.provider.owners.withdraw(object.of.key);
    let secret = secret_name(object.annotations()).to_owned();
    if !is_reported && !object.has_finalizer(FINALIZER) && is_valid_name(&secret) {
        // It may have been held a moment before another object was faster.
        held_secret::release(object, &secret).await?;
    }
    Ok(())
}

/// Returns the message about the owner of a resource. Objects of other namespaces are not named:
/// they may be those of another tenant.
fn message(key: &Key, owner: &Key, id: &ResourceId) -> String {
    let owner = match is_near(key, owner) {
        true => format!("{} {:?} of this namespace", owner.kind.kind, owner.name),
        false => "an object of another namespace".to_owned(),
    };
    format!(
        "{:?} belongs to {owner}: delete one of the two, or set the annotation \
         serviceoperator.azure.com/reconcile-policy of one to skip",
        id.as_str()
    )
}

#[cfg(test)]
mod tests {
    use insula_operator::key::GroupKind;

    use super::*;

    #[test]
    fn owner_is_named_only_in_its_own_namespace() {
        let key = |space: Option<&str>, namespace: &str, name: &str| {
            let kind = GroupKind {
                kind: "ResourceGroup".into(),
                group: "resources.azure.com".into(),
            };
            Key::namespaced(kind, space.map(Into::into), namespace, name)
        };
        let id: ResourceId = "/subscriptions/s/resourceGroups/shop".parse().unwrap();
        let own = key(Some("acme"), "red", "mine");
        for (owner, is_named) in [
            (key(Some("acme"), "red", "theirs"), true),
            (key(Some("acme"), "blue", "theirs"), false),
            (key(Some("other"), "red", "theirs"), false),
            (key(None, "red", "theirs"), false),
        ] {
            let message = message(&own, &owner, &id);
            let begin = "\"/subscriptions/s/resourceGroups/shop\" belongs to ";
            assert!(message.starts_with(begin), "{message}");
            assert_eq!(message.contains("theirs"), is_named, "{message}");
            assert_eq!(
                message.contains("another namespace"),
                !is_named,
                "{message}"
            );
            assert!(
                !message.contains("blue") && !message.contains("other\""),
                "{message}"
            );
        }
    }
}
