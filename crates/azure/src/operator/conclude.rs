//! Concludes a reconciliation: status, exports and `Ready`.

use insula_operator::retry::Outcome;
use serde_json::Value;
use tokio::time::Instant;
use tracing::info;

use super::access::{Azure, has_another_credential, outcome};
use super::behaviour;
use super::duplicate;
use super::export;
use super::object::Object;
use super::ownership::{Admission, Record};
use super::pacing::Subject;
use super::ready::Problem;
use super::requests::{ask, failed, open, refused};
use crate::arm::error::Retry;
use crate::arm::throttle::{Requests, Turn};
use crate::arm::{RequestFailure, ResourceId};
use crate::mapping;
use crate::names::{LATEST_RECONCILED_GENERATION, POLLER_RESUME_TOKEN};

/// Concludes a successful operation.
pub(super) async fn succeed(
    mut object: Object<'_>,
    azure: &Azure,
    id: &ResourceId,
    resource: Option<Value>,
    subject: Subject,
    record: Option<Record>,
) -> Result<Outcome, kube::Error> {
    let version = object.version.api_version();
    let resource = match resource {
        Some(resource) => resource,
        None => match azure.session.client().get(id, &version).await {
            Ok(response) => response.body,
            Err(failure) => return unread(object, azure, failure, subject).await,
        },
    };
    object.conclude_operation(&subject, record).await?;
    finish(object, azure, &resource, subject, None).await
}

/// Handles a resource that cannot be read after its operation. It is polled and read again, unless
/// it does not exist.
async fn unread(
    mut object: Object<'_>,
    azure: &Azure,
    failure: RequestFailure,
    subject: Subject,
) -> Result<Outcome, kube::Error> {
    if failure.is_not_found() {
        object.clear_operation().await?;
    }
    let subject = match object.annotation(POLLER_RESUME_TOKEN) {
        Some(_) => Subject::Operation,
        None => subject,
    };
    refused(object, azure, failure, subject).await
}

/// Reads a resource that the operator may not change.
pub(super) async fn read_only(
    mut object: Object<'_>,
    id: &ResourceId,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let subject = Subject::Read(object.generation());
    let pacing = &of.context.provider.pacing;
    let wait = pacing.wait(&of.key.text(), &subject, Instant::now());
    if let Some(wait) = wait
        && !has_another_credential(&object).await?
    {
        return Ok(outcome(of, wait));
    }
    let azure = match open(&mut object, id).await? {
        Ok(azure) => azure,
        Err(outcome) => return Ok(outcome),
    };
    if let Turn::Wait(delay) = ask(of, &azure, Requests::Reads) {
        return Ok(Outcome::Waits(delay));
    }
    let no_export = match duplicate::check_export(&object, &azure, id) {
        Admission::Granted => None,
        Admission::Wait(delay) => return Ok(Outcome::Waits(delay)),
        Admission::Refused(owner) => Some(duplicate::no_export(&object, &owner, id)),
    };
    let version = object.version.api_version();
    match azure.session.client().get(id, &version).await {
        Ok(response) => finish(object, &azure, &response.body, subject, no_export).await,
        Err(failure) if failure.is_not_found() => {
            let problem = Problem::warning("AzureResourceNotFound", failure.to_string());
            failed(object, problem, subject, Retry::Slow, None).await
        }
        Err(failure) => refused(object, &azure, failure, subject).await,
    }
}

/// Writes what is known of a resource, and that it is ready. Nothing is exported if that is a
/// problem.
async fn finish(
    mut object: Object<'_>,
    azure: &Azure,
    resource: &Value,
    subject: Subject,
    no_export: Option<Problem>,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let mut status = mapping::status(object.kind, object.version, resource);
    behaviour::trim_status(object.kind, &mut status);
    if let Err(problem) = behaviour::check_status(object.kind, &status) {
        behaviour::request_sync(&object, azure, &status).await;
        object.write_status(Some(status), Some(&problem)).await?;
        return failed(object, problem, subject, Retry::Slow, None).await;
    }
    let exported = match no_export {
        Some(problem) => Err(export::Failed::Problem(problem)),
        None => export::write(&object, azure, &status).await?,
    };
    match exported {
        Ok(()) => {}
        Err(export::Failed::Azure(failure)) => {
            return refused(object, azure, *failure, subject).await;
        }
        Err(export::Failed::Problem(problem)) => {
            object.write_status(Some(status), Some(&problem)).await?;
            return failed(object, problem, subject, Retry::Slow, None).await;
        }
    }
    let was_ready = is_ready(&object);
    let outdated = is_outdated(&object, &subject).then(Problem::reconciling);
    object.write_status(Some(status), outdated.as_ref()).await?;
    if !was_ready && outdated.is_none() {
        info!(key = %of.key, "resource ready");
    }
    let pacing = &of.context.provider.pacing;
    let wait = pacing.synced(&of.key.text(), subject, Instant::now());
    Ok(outcome(of, wait))
}

/// Returns whether the object has changed since it was sent. It is sent again then.
fn is_outdated(object: &Object<'_>, subject: &Subject) -> bool {
    let sent = object.annotation(LATEST_RECONCILED_GENERATION);
    let is_sent = sent.is_some_and(|sent| sent == object.generation().to_string());
    matches!(subject, Subject::Inputs(_)) && !is_sent
}

fn is_ready(object: &Object<'_>) -> bool {
    let generation = object.generation();
    object
        .ready()
        .is_some_and(|ready| ready.is_true_at(generation))
}
