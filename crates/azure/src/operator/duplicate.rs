//! Objects with the ARM id of a resource that belongs to another object.

use insula_operator::key::Key;
use insula_operator::read::is_valid_name;
use insula_operator::retry::Outcome;
use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

use super::access::NoAccess;
use super::credentials::secret_name;
use super::held_secret;
use super::object::Object;
use super::ownership::Admission;
use super::ready::Problem;
use crate::arm::ResourceId;
use crate::names::{
    ACCEPTED_ID, FINALIZER, LATEST_RECONCILED_GENERATION, POLLER_RESUME_ID, POLLER_RESUME_TOKEN,
    RECONCILED_INPUTS,
};
use crate::settings::ReconcilePolicy;

/// The reason of an object with the resource of another one.
const DUPLICATE: &str = "DuplicateResource";

/// Returns why an object may not change a resource, if it belongs to another object or that is not
/// known yet. Objects that only read it may share it.
pub(super) async fn check(
    object: &mut Object<'_>,
    id: &ResourceId,
    policy: ReconcilePolicy,
) -> Result<Option<NoAccess>, kube::Error> {
    if policy == ReconcilePolicy::Skip {
        return Ok(None);
    }
    let of = object.of;
    let owners = &of.context.provider.owners;
    match owners.admit(of.key, id, Instant::now()) {
        Admission::Granted => {
            record_accepted(object, id).await?;
            Ok(None)
        }
        Admission::Wait(delay) => Ok(Some((None, Outcome::Waits(delay)))),
        Admission::Refused(owner) => {
            refuse(object, id, &owner).await?;
            let problem = Problem::warning(DUPLICATE, message(of.key, &owner, id));
            Ok(Some((Some(problem), Outcome::Waits(of.resync_after()))))
        }
    }
}

/// Records that an object owns its resource, which an operator without this record has created.
async fn record_accepted(object: &mut Object<'_>, id: &ResourceId) -> Result<(), kube::Error> {
    let is_sent = object.annotation(LATEST_RECONCILED_GENERATION).is_some();
    let is_recorded = object.annotation(ACCEPTED_ID).is_some();
    let generation = object.generation();
    let ready = object.ready();
    let is_ready = ready.is_some_and(|ready| ready.is_true_at(generation));
    match is_sent && is_ready && !is_recorded {
        true => object.annotate(json!({ACCEPTED_ID: id.as_str()})).await,
        false => Ok(()),
    }
}

/// Removes every record that an object was sent, so that its deletion concerns nothing in Azure,
/// also after a restart.
async fn refuse(object: &mut Object<'_>, id: &ResourceId, owner: &Key) -> Result<(), kube::Error> {
    let is_reported = object.ready().is_some_and(|it| it.has_reason(DUPLICATE));
    if !is_reported {
        let key = object.of.key;
        warn!(%key, %owner, id = id.as_str(), "resource belongs to another object");
    }
    object
        .annotate(json!({
            LATEST_RECONCILED_GENERATION: null, RECONCILED_INPUTS: null, ACCEPTED_ID: null,
            POLLER_RESUME_TOKEN: null, POLLER_RESUME_ID: null,
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
    let is_near = (&key.space, &key.namespace) == (&owner.space, &owner.namespace);
    let owner = match is_near {
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
