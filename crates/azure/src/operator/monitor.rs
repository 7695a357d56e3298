//! Continues an operation in Azure.

use insula_operator::retry::Outcome;
use tokio::time::Instant;
use tracing::warn;

use super::access::{Azure, has_another_credential, outcome};
use super::duplicate;
use super::object::Object;
use super::ownership::Admission;
use super::pacing::Subject;
use super::requests::{ask, open, refused};
use super::send::proceed;
use crate::arm::throttle::{Requests, Turn};
use crate::arm::{Method, Progress, ResourceId, ResumeToken};
use crate::names::{POLLER_RESUME_ID, POLLER_RESUME_TOKEN, RECONCILED_INPUTS};

/// Polls the operation that created or updated a resource.
pub(super) async fn reconcile(
    mut object: Object<'_>,
    id: &ResourceId,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let pacing = &of.context.provider.pacing;
    let wait = pacing.wait(&of.key.text(), &Subject::Operation, Instant::now());
    if let Some(wait) = wait
        && !has_another_credential(&object).await?
    {
        return Ok(outcome(of, wait));
    }
    let azure = match open(&mut object, id).await? {
        Ok(azure) => azure,
        Err(outcome) => return Ok(outcome),
    };
    let owners = &of.context.provider.owners;
    match owners.admit(of.key, id, &azure.server(), Instant::now()) {
        Admission::Granted => {}
        Admission::Wait(delay) => return Ok(Outcome::Waits(delay)),
        Admission::Refused(owner) => {
            return duplicate::refuse(object, &azure, id, &owner).await;
        }
    }
    let Some(token) = token(&object, &azure, Method::CreateOrUpdate) else {
        warn!(key = %of.key, "operation of another method, server or subscription dropped");
        object.clear_operation().await?;
        return Ok(Outcome::Progressed);
    };
    if let Turn::Wait(delay) = ask(of, &azure, Requests::Reads) {
        return Ok(Outcome::Waits(delay));
    }
    let digest = object.annotation(RECONCILED_INPUTS).unwrap_or_default();
    let subject = Subject::Inputs(digest.to_owned());
    match azure.session.client().poll(token).await {
        Ok(polled) => {
            azure.session.mark_responsive();
            let is_done = matches!(polled.progress, Progress::Done { .. });
            let outcome = proceed(object, &azure, id, polled, subject, None).await?;
            // The inputs may have changed during the operation.
            Ok(match is_done {
                true => Outcome::Progressed,
                false => outcome,
            })
        }
        Err(failure) if failure.arm_error().is_none() => {
            refused(object, &azure, failure, Subject::Operation).await
        }
        Err(failure) => {
            // The operation has failed: the resource is sent again.
            object.clear_operation().await?;
            refused(object, &azure, failure, subject).await
        }
    }
}

/// Returns the operation in progress, if it is one of this method, server and subscription.
pub(super) fn token(object: &Object<'_>, azure: &Azure, method: Method) -> Option<ResumeToken> {
    let text = object.annotation(POLLER_RESUME_TOKEN)?;
    let poller = object.annotation(POLLER_RESUME_ID)?;
    let token = ResumeToken::parse(poller, text, azure.session.client().server()).ok()?;
    let is_own = token.method() == method && token.is_of_subscription(azure.session.subscription());
    is_own.then_some(token)
}
