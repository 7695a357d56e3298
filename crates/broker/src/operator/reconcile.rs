//! The steps for one tenant, from top to bottom.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tracing::{info, warn};

use super::act::{Field, Hold, hold, report};
use super::conclude::conclude;
use super::observe::{Ground, observe};
use super::plan::{Going, Plan, State};
use super::problem::{Problem, is_terminating};
use super::run::Context;
use super::wanted::Wanted;
use super::{event, plan, remove};
use crate::error::Error;
use crate::names::{AXON, FINALIZER, NotAnId, TenantId};
use crate::tenant::{Phase, Tenant};

/// The resync interval of a tenant without events.
const ANYWAY: Duration = Duration::from_secs(3600);
/// The interval while a tenant waits for something that also triggers an event.
const WAITING: Duration = Duration::from_secs(5);
/// The interval while a token is about to be issued.
const SOON: Duration = Duration::from_secs(1);
/// The space, its kinds, the contents, and the final check.
const STEPS: usize = 4;
/// The number of transient failures before a problem is reported.
const HICCUPS: u32 = 2;
/// The number of write conflicts before a problem is reported.
const RACES: u32 = 5;

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
        Err(error) => return misnamed(context, tenant, error).await,
    };
    if tenant.metadata.deletion_timestamp.is_some() && !is_held(&tenant) {
        // Other finalizers hold it, or it is gone in a moment.
        return Ok(Outcome::Waits(ANYWAY));
    }
    match go_on(context, &mut tenant, &id).await {
        Ok(outcome) => Ok(outcome),
        Err(error) if is_hiccup(&error, failures) => Err(error),
        Err(error) => {
            let problem = Problem::of(&error, &id.namespace());
            warn!(tenant = name, reason = problem.reason(), %error, "tenant provisioning failed");
            fail(context, &mut tenant, &id, problem).await
        }
    }
}

/// Reports a tenant whose name cannot be part of a namespace name.
async fn misnamed(context: &Context, mut tenant: Tenant, error: NotAnId) -> Result<Outcome, Error> {
    // Only the status is written, which does not depend on the ID.
    let anyone = TenantId::random();
    let problem = Problem::InvalidName(error);
    fail(context, &mut tenant, &anyone, problem).await
}

/// Returns whether the Tenant has our finalizer.
fn is_held(tenant: &Tenant) -> bool {
    tenant.finalizers().iter().any(|held| held == FINALIZER)
}

/// Advances a tenant as long as there is progress: when many tenants are created at once, some
/// are ready early instead of all late.
async fn go_on(context: &Context, tenant: &mut Tenant, id: &TenantId) -> Result<Outcome, Error> {
    if !is_held(tenant) {
        *tenant = hold(context, tenant, Hold::On).await?;
    }
    for _ in 0..STEPS {
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
    let going = tenant.metadata.deletion_timestamp.is_some();
    let wanted = Wanted { tenant, id };
    let ground = match going {
        true => Ground::of_status(wanted).unwrap_or(Ground::wanted(wanted)),
        false => Ground::wanted(wanted),
    };
    let observed = observe(context, wanted, ground).await?;
    let plan = match going {
        true => remove::plan(wanted, &observed, now),
        false => plan::plan(wanted, &observed, now),
    };
    let seen = observed.namespace.and_then(|namespace| namespace.uid());
    let field = Field {
        context,
        ground: &ground.client(context, wanted),
        namespace: &id.namespace(),
        seen: seen.as_deref(),
    };
    carry_out(&field, tenant, id, plan).await
}

/// Writes the status before the actions, so that it never promises too much; during a deletion
/// credentials are deleted first, whether or not the status can be written.
async fn carry_out(
    field: &Field<'_>,
    tenant: &mut Tenant,
    id: &TenantId,
    plan: Plan,
) -> Result<Outcome, Error> {
    let context = field.context;
    let status = tenant.status.as_ref();
    let was_ready = status.is_some_and(|status| status.provisioned_at.is_some());
    let was_placed = status.is_some_and(|status| status.namespace.is_some());
    let is_told = is_to_be_told(tenant, &plan);
    let going = tenant.metadata.deletion_timestamp.is_some();
    let told = match is_told && !going {
        true => tell(context, tenant, id, &plan.state).await,
        false => Ok(()),
    };
    if told.is_err() && !was_placed && !going {
        return told.map(|()| Outcome::Progressed);
    }
    let done = field.carry_out(&plan.acts).await;
    let told = match is_told && going {
        true => tell(context, tenant, id, &plan.state).await,
        false => told,
    };
    done.and(told)?;
    let acted = !plan.acts.is_empty();
    Ok(match plan.state {
        State::Removed => {
            hold(context, tenant, Hold::Off).await?;
            info!(tenant = id.as_str(), "tenant deleted");
            Outcome::Gone
        }
        State::Provisioned if acted => {
            info!(tenant = id.as_str(), acts = ?plan.acts, "tenant repaired");
            Outcome::Repaired
        }
        // Limits the pace if a user deletes the namespace repeatedly.
        State::Provisioning | State::Hindered(_) if acted && was_ready => Outcome::Repaired,
        State::Provisioning | State::Hindered(_) if acted => Outcome::Progressed,
        State::Provisioning => Outcome::Waits(SOON),
        State::Provisioned => Outcome::Settled(spread(id)),
        State::Hindered(problem) if problem.passes() => Outcome::Waits(WAITING),
        State::Hindered(problem) => Outcome::Failed(problem.class()),
        State::Deleting(_) => Outcome::Waits(WAITING),
    })
}

/// Returns whether the status is written now. A failed tenant stays failed until the actions
/// have succeeded; otherwise its status would flap with every attempt.
fn is_to_be_told(tenant: &Tenant, plan: &Plan) -> bool {
    let Some(status) = &tenant.status else {
        return true;
    };
    let same_spec = status.observed_generation == tenant.metadata.generation;
    let failed = status.phase == Some(Phase::Failed) && same_spec;
    let tries = !plan.acts.is_empty() && !matches!(plan.state, State::Deleting(_));
    !(failed && tries)
}

async fn tell(
    context: &Context,
    tenant: &mut Tenant,
    id: &TenantId,
    state: &State,
) -> Result<(), Error> {
    let wanted = Wanted { tenant, id };
    let Some(status) = conclude(wanted, state, Timestamp::now()) else {
        return Ok(());
    };
    let phase = status.phase;
    let told = report(context, tenant, status).await?;
    let before = std::mem::replace(tenant, told).status;
    info!(tenant = tenant.name_any(), ?phase, "tenant status changed");
    event::tell(context, before.as_ref(), tenant).await;
    Ok(())
}

/// Reports a problem. A tenant that is being deleted stays in phase Deleting, and the message
/// contains the problem.
async fn fail(
    context: &Context,
    tenant: &mut Tenant,
    id: &TenantId,
    problem: Problem,
) -> Result<Outcome, Error> {
    let class = problem.class();
    let state = match tenant.metadata.deletion_timestamp {
        Some(_) => State::Deleting(Going {
            reason: problem.reason(),
            message: problem.to_string(),
        }),
        None => State::Hindered(problem),
    };
    tell(context, tenant, id, &state).await?;
    Ok(Outcome::Failed(class))
}

/// Returns whether an error is retried before it is reported: a write conflict, an unavailable
/// server, or a grant that has not reached all API servers yet.
fn is_hiccup(error: &Error, failures: u32) -> bool {
    match error {
        error if is_terminating(error) => false,
        Error::Server { source, .. } => match &**source {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => failures < HICCUPS,
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => failures < RACES,
            source => Class::of(source) == Class::Transient && failures < HICCUPS,
        },
        _ => false,
    }
}

/// Spreads the resyncs of tenants over time.
fn spread(id: &TenantId) -> Duration {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    ANYWAY + Duration::from_secs(hasher.finish() % 600)
}
