//! Requests to ARM: turns, limits, and failures.

use std::time::Duration;

use insula_operator::outbound::RequestError;
use insula_operator::retry::Outcome;
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};

use super::Reconciliation;
use super::access::{self, Azure, outcome};
use super::object::Object;
use super::pacing::Subject;
use super::ready::{Problem, Severity};
use crate::arm::error::{Request, Retry};
use crate::arm::throttle::{Requests, Turn};
use crate::arm::{RequestFailure, ResourceId};
use crate::names::RECONCILED_INPUTS;

/// Opens the access of an object to the subscription of its resource. Reports why there is none.
pub(super) async fn open(
    object: &mut Object<'_>,
    id: &ResourceId,
) -> Result<Result<Azure, Outcome>, kube::Error> {
    let azure = match access::open(object).await? {
        Ok(azure) => azure,
        Err((problem, outcome)) => {
            if let Some(problem) = problem {
                object.report(Some(&problem)).await?;
            }
            return Ok(Err(outcome));
        }
    };
    if let Err(problem) = azure.check_subscription(id) {
        object.report(Some(&problem)).await?;
        return Ok(Err(Outcome::Waits(object.of.resync_after())));
    }
    if !azure.hold(object).await? {
        return Ok(Err(Outcome::Progressed));
    }
    Ok(Ok(azure))
}

/// Reports a failed request, and delays the next one as the error asks for.
pub(super) async fn refused(
    object: Object<'_>,
    azure: &Azure,
    failure: RequestFailure,
    subject: Subject,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    let request = match subject {
        Subject::Deletion => Request::Delete,
        Subject::Inputs(_) | Subject::Operation | Subject::Read(_) => Request::CreateOrUpdate,
    };
    let (problem, retry) = classify(&object, &failure, request);
    let mut at_least = None;
    match &failure {
        RequestFailure::Refused { error, limits } => {
            azure.session.mark_responsive();
            at_least = limits.retry_after;
            if let Some(provider) = error.missing_provider() {
                register(of, azure, provider).await;
            }
        }
        RequestFailure::Unreachable(RequestError::Unreachable(_)) => {
            azure.session.mark_unresponsive();
        }
        // A server that answers is not slow for others.
        RequestFailure::Unreachable(_) => {}
        RequestFailure::Token(_) => azure.session.mark_dead(),
        RequestFailure::InvalidAnswer(_) => {}
    }
    let done = failed(object, problem, subject, retry, at_least).await;
    let session = of.session_key(&azure.credential);
    let pacing = &of.context.provider.pacing;
    pacing.set_failed_with(&of.key.text(), session);
    done
}

/// Returns the problem of a failed request, and how it is retried.
fn classify(object: &Object<'_>, failure: &RequestFailure, request: Request) -> (Problem, Retry) {
    let Some(error) = failure.arm_error() else {
        return (Problem::warning("Failed", failure.to_string()), Retry::Slow);
    };
    let mut rules = object.kind.errors().iter();
    let rule = rules.find(|rule| rule.applies(&error.code, &error.message));
    let retry = match rule {
        Some(rule) if rule.fatal => Retry::Never,
        Some(_) => Retry::Slow,
        None => error.retry(request),
    };
    let severity = match (retry, request) {
        (Retry::Never, Request::CreateOrUpdate) => Severity::Error,
        _ => Severity::Warning,
    };
    (Problem::of_azure(severity, error), retry)
}

/// Reports a problem, and delays the next request.
pub(super) async fn failed(
    mut object: Object<'_>,
    problem: Problem,
    subject: Subject,
    retry: Retry,
    at_least: Option<Duration>,
) -> Result<Outcome, kube::Error> {
    let of = object.of;
    if let (Retry::Never, Subject::Inputs(digest)) = (retry, &subject) {
        // A restarted operator does not send them again either.
        object.annotate(json!({RECONCILED_INPUTS: digest})).await?;
    }
    let pacing = &of.context.provider.pacing;
    let wait = pacing.failed(&of.key.text(), subject, retry, at_least, Instant::now());
    object.report(Some(&problem)).await?;
    Ok(outcome(of, wait))
}

/// Registers the subscription with a provider. The resource is sent again later, whether this
/// succeeds or not.
async fn register(of: &Reconciliation<'_>, azure: &Azure, provider: &str) {
    let (client, subscription) = (azure.session.client(), azure.session.subscription());
    match client.register_provider(subscription, provider).await {
        Ok(_) => info!(key = %of.key, provider, "resource provider registered"),
        Err(error) => warn!(key = %of.key, provider, %error, "registration failed"),
    }
}

/// Asks whether a request to the subscription may be sent now.
pub(super) fn ask(of: &Reconciliation<'_>, azure: &Azure, requests: Requests) -> Turn {
    let namespace = match of.key.space {
        Some(_) => "",
        None => of.key.namespace_or_empty(),
    };
    let owner = (of.key.space.clone(), namespace.to_owned());
    let limits = azure.session.limits();
    let mut throttle = of.context.provider.throttle();
    throttle.ask(
        &[&limits.own, &limits.shared],
        requests,
        (&owner, &of.key.text()),
        Instant::now(),
    )
}
