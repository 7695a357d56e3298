//! The steps for one tenant, from top to bottom.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tracing::{info, warn};

use super::context::Context;
use super::desired::Desired;
use super::execute::{Executor, FinalizerState, set_finalizer, write_status};
use super::observe::{Location, Observed, observe};
use super::plan::{DeletionProgress, Plan, State};
use super::problem::{Problem, is_terminating};
use super::status::desired_status;
use super::{event, plan, remove};
use crate::error::Error;
use crate::names::{AXON, FINALIZER, InvalidTenantId, TenantId};
use crate::tenant::{Phase, Tenant};

/// The resync interval of a tenant without events.
const RESYNC_INTERVAL: Duration = Duration::from_secs(3600);
/// The interval while a tenant waits for something that also triggers an event.
const WAIT_INTERVAL: Duration = Duration::from_secs(5);
/// The interval while a token is about to be issued.
const TOKEN_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The space, its kinds, the contents, and the final check.
const MAX_STEPS: usize = 4;
/// The number of transient failures before a problem is reported.
const MAX_TRANSIENT_FAILURES: u32 = 2;
/// The number of write conflicts before a problem is reported.
const MAX_CONFLICTS: u32 = 5;

/// Runs all steps for one tenant. An error that cannot be reported is retried.
pub(super) async fn reconcile(
    context: &Context,
    name: &str,
    failures: u32,
) -> Result<Outcome, Error> {
    let tenants: Api<Tenant> = Api::namespaced(context.client.clone(), AXON);
    let found = tenants.get_opt(name).await;
    let found = found.map_err(Error::when(format!("read tenant {name}")))?;
    let Some(mut tenant) = found else {
        return Ok(Outcome::Gone);
    };
    let id = match name.parse::<TenantId>() {
        Ok(id) => id,
        Err(error) => return report_invalid_name(context, tenant, error).await,
    };
    if tenant.metadata.deletion_timestamp.is_some() && !has_finalizer(&tenant) {
        // Other finalizers hold it, or it is gone in a moment.
        return Ok(Outcome::Waits(RESYNC_INTERVAL));
    }
    match advance_all(context, &mut tenant, &id).await {
        Ok(outcome) => Ok(outcome),
        Err(error) if is_retried(&error, failures) => Err(error),
        Err(error) => {
            let problem = Problem::of(&error, &id.namespace());
            warn!(tenant = name, reason = problem.reason(), %error, "tenant provisioning failed");
            publish_problem(context, &mut tenant, &id, problem).await
        }
    }
}

/// Reports a tenant with a name that cannot be part of a namespace name.
async fn report_invalid_name(
    context: &Context,
    mut tenant: Tenant,
    error: InvalidTenantId,
) -> Result<Outcome, Error> {
    // Only the status is written, which does not depend on the ID.
    let placeholder = TenantId::random();
    let problem = Problem::InvalidName(error);
    publish_problem(context, &mut tenant, &placeholder, problem).await
}

/// Returns whether the Tenant has our finalizer.
fn has_finalizer(tenant: &Tenant) -> bool {
    tenant.finalizers().iter().any(|held| held == FINALIZER)
}

/// Advances a tenant as long as there is progress: when many tenants are created at once, some
/// are ready early instead of all late.
async fn advance_all(
    context: &Context,
    tenant: &mut Tenant,
    id: &TenantId,
) -> Result<Outcome, Error> {
    if !has_finalizer(tenant) {
        *tenant = set_finalizer(context, tenant, FinalizerState::Present).await?;
    }
    for _ in 0..MAX_STEPS {
        let outcome = advance(context, tenant, id).await?;
        if outcome != Outcome::Progressed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Progressed)
}

/// Observes, plans, writes the status and executes the plan.
async fn advance(context: &Context, tenant: &mut Tenant, id: &TenantId) -> Result<Outcome, Error> {
    let now = Timestamp::now();
    let deleting = tenant.metadata.deletion_timestamp.is_some();
    let desired = Desired { tenant, id };
    let location = match deleting {
        true => Location::from_status(desired).unwrap_or(Location::desired(desired)),
        false => Location::desired(desired),
    };
    let observed = match observe(context, desired, location).await {
        // The status names the location before the first object is created: this tenant has
        // none, such as one with a space if the operator never had the right to create spaces.
        Err(error) if deleting && error.is_forbidden() && is_unplaced(desired) => {
            Observed::default()
        }
        observed => observed?,
    };
    let plan = match deleting {
        true => remove::plan(desired, &observed, now),
        false => plan::plan(desired, &observed, now),
    };
    let seen = observed.namespace.and_then(|namespace| namespace.uid());
    let executor = Executor {
        context,
        location: &location.client(context, desired),
        namespace: &id.namespace(),
        seen: seen.as_deref(),
    };
    execute(&executor, tenant, id, plan).await
}

/// Returns whether no object was created for a tenant so far.
fn is_unplaced(desired: Desired<'_>) -> bool {
    Location::from_status(desired).is_none()
}

/// Writes the status before the actions, so that it never promises too much; during a deletion
/// credentials are deleted first, whether or not the status can be written.
async fn execute(
    executor: &Executor<'_>,
    tenant: &mut Tenant,
    id: &TenantId,
    plan: Plan,
) -> Result<Outcome, Error> {
    let context = executor.context;
    let status = tenant.status.as_ref();
    let was_ready = status.is_some_and(|status| status.provisioned_at.is_some());
    let was_placed = status.is_some_and(|status| status.namespace.is_some());
    let publishes = should_publish(tenant, &plan);
    let deleting = tenant.metadata.deletion_timestamp.is_some();
    let published = match publishes && !deleting {
        true => publish_status(context, tenant, id, &plan.state).await,
        false => Ok(()),
    };
    if published.is_err() && !was_placed && !deleting {
        return published.map(|()| Outcome::Progressed);
    }
    let done = executor.execute(&plan.actions).await;
    let published = match publishes && deleting {
        true => publish_status(context, tenant, id, &plan.state).await,
        false => published,
    };
    done.and(published)?;
    let acted = !plan.actions.is_empty();
    Ok(match plan.state {
        State::Removed => {
            set_finalizer(context, tenant, FinalizerState::Absent).await?;
            info!(tenant = id.as_str(), "tenant deleted");
            Outcome::Gone
        }
        State::Provisioned if acted => {
            info!(tenant = id.as_str(), actions = ?plan.actions, "tenant repaired");
            Outcome::Repaired
        }
        // Limits the pace if a user deletes the namespace repeatedly.
        State::Provisioning | State::Problem(_) if acted && was_ready => Outcome::Repaired,
        State::Provisioning | State::Problem(_) if acted => Outcome::Progressed,
        State::Provisioning => Outcome::Waits(TOKEN_POLL_INTERVAL),
        State::Provisioned => Outcome::Settled(resync_after(id)),
        State::Problem(problem) if problem.resolves_itself() => Outcome::Waits(WAIT_INTERVAL),
        State::Problem(problem) => Outcome::Failed(problem.class()),
        State::Deleting(_) => Outcome::Waits(WAIT_INTERVAL),
    })
}

/// Returns whether the status is written now. A failed tenant stays failed until the actions
/// have succeeded; otherwise its status would flap with every attempt.
fn should_publish(tenant: &Tenant, plan: &Plan) -> bool {
    let Some(status) = &tenant.status else {
        return true;
    };
    let same_spec = status.observed_generation == tenant.metadata.generation;
    let failed = status.phase == Some(Phase::Failed) && same_spec;
    let retries = !plan.actions.is_empty() && !matches!(plan.state, State::Deleting(_));
    !(failed && retries)
}

async fn publish_status(
    context: &Context,
    tenant: &mut Tenant,
    id: &TenantId,
    state: &State,
) -> Result<(), Error> {
    let desired = Desired { tenant, id };
    let Some(status) = desired_status(desired, state, Timestamp::now()) else {
        return Ok(());
    };
    let phase = status.phase;
    let published = write_status(context, tenant, status).await?;
    let before = std::mem::replace(tenant, published).status;
    info!(tenant = tenant.name_any(), ?phase, "tenant status changed");
    event::emit(context, before.as_ref(), tenant).await;
    Ok(())
}

/// Reports a problem. A tenant that is being deleted stays in phase Deleting, and the message
/// contains the problem.
async fn publish_problem(
    context: &Context,
    tenant: &mut Tenant,
    id: &TenantId,
    problem: Problem,
) -> Result<Outcome, Error> {
    let class = problem.class();
    let state = match tenant.metadata.deletion_timestamp {
        Some(_) => State::Deleting(DeletionProgress {
            reason: problem.reason(),
            message: problem.to_string(),
        }),
        None => State::Problem(problem),
    };
    publish_status(context, tenant, id, &state).await?;
    Ok(Outcome::Failed(class))
}

/// Returns whether an error is retried before it is reported: a write conflict, an unavailable
/// server, or a grant that has not reached all API servers yet.
fn is_retried(error: &Error, failures: u32) -> bool {
    match error {
        error if is_terminating(error) => false,
        Error::Server { source, .. } => match &**source {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                failures < MAX_TRANSIENT_FAILURES
            }
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => {
                failures < MAX_CONFLICTS
            }
            source => Class::of(source) == Class::Transient && failures < MAX_TRANSIENT_FAILURES,
        },
        _ => false,
    }
}

/// Spreads the resyncs of tenants over time.
fn resync_after(id: &TenantId) -> Duration {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    RESYNC_INTERVAL + Duration::from_secs(hasher.finish() % 600)
}
