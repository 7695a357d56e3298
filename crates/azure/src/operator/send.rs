//! Sends a resource to Azure.

use insula_operator::retry::Outcome;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::info;

use super::access::{Azure, outcome, record_scope};
use super::behaviour::{self, Prepared};
use super::conclude;
use super::duplicate;
use super::inputs::Inputs;
use super::object::Object;
use super::ownership::{Admission, Answer, Record};
use super::pacing::Subject;
use super::ready::Problem;
use super::requests::{ask, failed, open, refused};
use crate::arm::client::Operated;
use crate::arm::error::Retry;
use crate::arm::throttle::{Requests, Turn};
use crate::arm::{Progress, RequestFailure, ResourceId};
use crate::names::{
    FINALIZER, LATEST_RECONCILED_GENERATION, POLLER_RESUME_ID, POLLER_RESUME_TOKEN,
    RECONCILED_INPUTS,
};

/// Sends a resource, and begins or ends the operation in Azure. The access is open already if the
/// object was claimed just now.
pub(super) async fn reconcile(
    mut object: Object<'_>,
    id: &ResourceId,
    inputs: Inputs,
    opened: Option<Azure>,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let azure = match opened {
        Some(azure) => azure,
        None => match open(&mut object, id).await? {
            Ok(azure) => azure,
            Err(outcome) => return Ok(outcome),
        },
    };
    if let Turn::Wait(delay) = ask(of, &azure, Requests::Writes) {
        object.flush().await?;
        return Ok(Outcome::Waits(delay));
    }
    let owners = &of.context.provider.owners;
    let server = azure.server();
    let reservation = match owners.reserve(of.key, id, &server, Instant::now()) {
        Ok(reservation) => reservation,
        Err(Admission::Wait(delay)) => {
            object.flush().await?;
            return Ok(Outcome::Waits(delay));
        }
        Err(Admission::Refused(owner)) if object.has_finalizer(FINALIZER) => {
            return duplicate::refuse(object, &azure, id, &owner).await;
        }
        // It is not claimed yet, and need not be.
        Err(Admission::Granted | Admission::Refused(_)) => return Ok(Outcome::Progressed),
    };
    let subject = Subject::Inputs(inputs.digest.clone());
    if !object.kind.behaviours().is_empty() {
        // Some of them send requests that change something.
        object.flush().await?;
    }
    let body = match behaviour::prepare(&object, &azure, id, inputs.body).await {
        Ok(Prepared::Send(body)) => body,
        Ok(Prepared::Blocked(problem)) => {
            return failed(object, problem, subject, Retry::Fast, None).await;
        }
        Err(failure) => return refused(object, &azure, failure, subject).await,
    };
    // Written before the request, so that a restarted operator knows that Azure may have the
    // resource. The inputs are written after it: only then need they not be sent again.
    let mut annotations = Map::new();
    let generation = object.generation().to_string();
    annotations.insert(LATEST_RECONCILED_GENERATION.to_owned(), generation.into());
    record_scope(&mut object, &azure, annotations).await?;
    let version = object.version.api_version();
    let sent = azure.session.client().put(id, &version, &body).await;
    let sent = sent.map_err(|failure| failure.without(&inputs.secrets));
    owners.answered(of.key, object.metadata(), id, &server, answer(&sent));
    drop(reservation);
    match sent {
        Ok(operated) => {
            azure.session.mark_responsive();
            info!(key = %of.key, "resource sent to Azure");
            let record = owners.record(of.key, object.metadata(), id, &server);
            proceed(object, &azure, id, operated, subject, Some(record)).await
        }
        Err(failure) => refused(object, &azure, failure, subject).await,
    }
}

/// Returns what is known about the resource after a request: it may exist unless Azure has
/// refused the request, or got none.
fn answer(sent: &Result<Operated, RequestFailure>) -> Answer {
    match sent {
        Err(RequestFailure::Refused { error, .. }) if error.status.is_client_error() => {
            Answer::Refused
        }
        Err(RequestFailure::Token(_)) => Answer::Refused,
        Ok(_) | Err(_) => Answer::Accepted,
    }
}

/// Continues after the start or a poll of an operation. Only its start is a reason for a record:
/// users can edit the annotation with the operation in progress.
pub(super) async fn proceed(
    mut object: Object<'_>,
    azure: &Azure,
    id: &ResourceId,
    operated: Operated,
    subject: Subject,
    record: Option<Record>,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let pacing = &of.context.provider.pacing;
    match operated.progress {
        Progress::Done { resource } => {
            // The URL that was polled comes from an annotation, which users can edit: the status
            // must not show another resource.
            let resource = resource.filter(|resource| {
                let named = resource["id"].as_str().map(str::parse::<ResourceId>);
                named.is_some_and(|named| named.as_ref() == Ok(id))
            });
            conclude::succeed(object, azure, id, resource, subject, record).await
        }
        Progress::InProgress { token, retry_after } => {
            let server = azure.session.client().server();
            let (method, text) = (token.method(), token.to_text(server));
            let mut annotations = Map::new();
            annotations.insert(POLLER_RESUME_TOKEN.to_owned(), text.into());
            annotations.insert(POLLER_RESUME_ID.to_owned(), method.poller_id().into());
            if let Subject::Inputs(digest) = subject {
                annotations.insert(RECONCILED_INPUTS.to_owned(), digest.into());
            }
            if let Some(record) = record {
                record.add_to(&mut annotations);
            }
            object.annotate(Value::Object(annotations)).await?;
            object.report(Some(&Problem::reconciling())).await?;
            let wait = pacing.polled(
                &of.key.text(),
                Subject::Operation,
                retry_after.or(operated.limits.retry_after),
                Instant::now(),
            );
            Ok(outcome(of, wait))
        }
    }
}
