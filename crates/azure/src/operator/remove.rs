//! Deletes a resource in Azure.

use std::collections::BTreeSet;

use insula_operator::retry::Outcome;
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};

use super::access::{Azure, has_another_credential, outcome};
use super::behaviour;
use super::credentials::secret_name;
use super::duplicate;
use super::held_secret;
use super::inputs;
use super::monitor::token;
use super::object::Object;
use super::ownership::Admission;
use super::pacing::Subject;
use super::ready::Problem;
use super::requests::{ask, failed, open, refused};
use crate::arm::client::Operated;
use crate::arm::error::Retry;
use crate::arm::throttle::{Requests, Turn};
use crate::arm::{Method, Progress, ResourceId};
use crate::names::{
    CREDENTIAL_SECRET, FINALIZER, LATEST_RECONCILED_GENERATION, POLLER_RESUME_ID,
    POLLER_RESUME_TOKEN, RECONCILED_INPUTS,
};
use crate::settings::ReconcilePolicy;

/// Deletes the resource of an object that is being deleted, and then lets the object go.
pub(super) async fn reconcile(
    mut object: Object<'_>,
    policy: ReconcilePolicy,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    if !object.has_finalizer(FINALIZER) {
        of.context.provider.forget(of.key);
        return Ok(Outcome::Gone);
    }
    // What was never sent does not exist, and a credential may have been lacking all the time.
    let was_sent = held_secret::was_sent(object.annotations());
    let id = object.arm_id().filter(|_| was_sent);
    let Some(id) = id.filter(|_| policy == ReconcilePolicy::Manage) else {
        return release(&mut object).await;
    };
    if !object.kind.can_delete() {
        return without_delete(object).await;
    }
    let pacing = &of.context.provider.pacing;
    let wait = pacing.wait(&of.key.text(), &Subject::Deletion, Instant::now());
    if let Some(wait) = wait
        && !has_another_credential(&object).await?
    {
        return Ok(outcome(of, wait));
    }
    let azure = match open(&mut object, &id).await? {
        Ok(azure) => azure,
        Err(outcome) => return Ok(outcome),
    };
    let owners = &of.context.provider.owners;
    match owners.admit(of.key, &id, &azure.server(), Instant::now()) {
        Admission::Granted => delete(object, &azure, &id).await,
        Admission::Wait(delay) => Ok(Outcome::Waits(delay)),
        Admission::Refused(owner) => {
            if let Turn::Wait(delay) = ask(of, &azure, Requests::Reads) {
                return Ok(Outcome::Waits(delay));
            }
            if let Err(failure) = duplicate::check_visible(&object, &azure, &id, &owner).await {
                return refused(object, &azure, failure, Subject::Deletion).await;
            }
            warn!(key = %of.key, %owner, "resource of another object left in Azure");
            release(&mut object).await
        }
    }
}

/// Begins or continues the deletion in Azure.
async fn delete(
    mut object: Object<'_>,
    azure: &Azure,
    id: &ResourceId,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let in_progress = token(&object, azure, Method::Delete);
    let requests = match in_progress {
        Some(_) => Requests::Reads,
        None => Requests::Deletes,
    };
    if let Turn::Wait(delay) = ask(of, azure, requests) {
        return Ok(Outcome::Waits(delay));
    }
    let is_poll = in_progress.is_some();
    let done = match in_progress {
        Some(token) => azure.session.client().poll(token).await,
        None => behaviour::delete(&object, azure, id).await,
    };
    match done {
        Ok(operated) => {
            azure.session.mark_responsive();
            proceed(object, azure, operated).await
        }
        // The URL may be gone together with the resource, or before it: a DELETE shows which.
        Err(failure) if is_poll && failure.is_not_found() => {
            object.clear_operation().await?;
            Ok(Outcome::Progressed)
        }
        Err(failure) => {
            if is_poll && failure.arm_error().is_some() {
                object.clear_operation().await?;
            }
            refused(object, azure, failure, Subject::Deletion).await
        }
    }
}

async fn proceed(
    mut object: Object<'_>,
    azure: &Azure,
    operated: Operated,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let Progress::InProgress { token, retry_after } = operated.progress else {
        info!(key = %of.key, "resource deleted in Azure");
        return release(&mut object).await;
    };
    let text = token.to_text(azure.session.client().server());
    let poller = token.method().poller_id();
    let annotations = json!({POLLER_RESUME_TOKEN: text, POLLER_RESUME_ID: poller});
    object.annotate(annotations).await?;
    object.report(Some(&Problem::deleting())).await?;
    let wait = of.context.provider.pacing.polled(
        &of.key.text(),
        Subject::Deletion,
        retry_after.or(operated.limits.retry_after),
        Instant::now(),
    );
    Ok(outcome(of, wait))
}

/// Handles a kind that Azure cannot delete: it goes with its owner.
async fn without_delete(mut object: Object<'_>) -> Result<Outcome, kube::Error> {
    let is_owner_staying = inputs::is_owner_staying(&object).await?;
    if !is_owner_staying {
        return release(&mut object).await;
    }
    let problem = Problem::warning(
        "DeletionNotSupportedInAzure",
        "Azure cannot delete this resource: delete its owner, or set the annotation \
         serviceoperator.azure.com/reconcile-policy to detach-on-delete",
    );
    failed(object, problem, Subject::Deletion, Retry::Slow, None).await
}

/// Lets an object go, and its credential if it was the last one that needed it. The object is
/// marked first, so that a restarted operator does not need the credential again, and other objects
/// do not count it. The name of the Secret stays recorded until the object is gone.
async fn release(object: &mut Object<'_>) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let recorded = object.annotation(CREDENTIAL_SECRET);
    // The reference may have changed after the last write.
    let held = recorded
        .into_iter()
        .chain([secret_name(object.annotations())]);
    let held: BTreeSet<String> = held.map(str::to_owned).collect();
    object
        .annotate(json!({
            RECONCILED_INPUTS: null, LATEST_RECONCILED_GENERATION: null,
        }))
        .await?;
    for name in &held {
        held_secret::release(object, name).await?;
    }
    object.remove_finalizer(FINALIZER).await?;
    of.release_session();
    of.context.provider.forget(of.key);
    Ok(Outcome::Gone)
}
