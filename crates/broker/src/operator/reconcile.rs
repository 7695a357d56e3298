//! The steps for one tenant; read it top to bottom.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use tracing::{info, warn};

use super::act::{Field, Hold, hold, report};
use super::conclude::conclude;
use super::observe::{Ground, observe};
use super::plan::{Going, Plan, State};
use super::problem::Problem;
use super::run::Context;
use super::wanted::Wanted;
use super::{event, plan, remove};
use crate::error::Error;
use crate::names::{AXON, FINALIZER, NotAnId, TenantId};
use crate::tenant::{Phase, Tenant};

/// How often a tenant is looked at even if nothing happened.
const ANYWAY: Duration = Duration::from_secs(3600);
/// How often a tenant is looked at that waits for something that will be seen.
const WAITING: Duration = Duration::from_secs(5);
/// How soon a tenant is looked at again whose token should be there any moment.
const SOON: Duration = Duration::from_secs(1);
/// A space, its kinds, what is in it, and whether all of it is right.
const STEPS: usize = 4;
/// How often something may go wrong that may go well the next time before it is told.
const HICCUPS: u32 = 2;
/// How often others may be faster before that is told.
const RACES: u32 = 5;

/// All steps for one tenant. What fails on the way to being told is tried again.
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
        // Others hold it, or it goes this moment.
        return Ok(Outcome::Waits(ANYWAY));
    }
    match go_on(context, &mut tenant, &id).await {
        Ok(outcome) => Ok(outcome),
        Err(error) if is_hiccup(&error, failures) => Err(error),
        Err(error) => {
            let problem = Problem::of(&error);
            warn!(tenant = name, reason = problem.reason(), %error, "a tenant is in trouble");
            fail(context, &mut tenant, &id, problem).await
        }
    }
}

/// A tenant that can have no namespace: it is told so, and nothing is done.
async fn misnamed(context: &Context, mut tenant: Tenant, error: NotAnId) -> Result<Outcome, Error> {
    // Only its status is about to be made, and that does not depend on the ID.
    let anyone = TenantId::random();
    let problem = Problem::InvalidName(error);
    fail(context, &mut tenant, &anyone, problem).await
}

/// Whether it does not go before we have cleaned up.
fn is_held(tenant: &Tenant) -> bool {
    tenant.finalizers().iter().any(|held| held == FINALIZER)
}

/// Advances for as long as that leads somewhere: when many tenants come at once, some are
/// ready soon instead of all of them late.
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

/// Observes, plans, tells and acts.
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
    drop(observed);
    let client = ground.client(context, wanted);
    carry_out(context, tenant, id, &client, plan).await
}

async fn carry_out(
    context: &Context,
    tenant: &mut Tenant,
    id: &TenantId,
    client: &Client,
    plan: Plan,
) -> Result<Outcome, Error> {
    let was_ready = tenant.status.as_ref();
    let was_ready = was_ready.is_some_and(|status| status.provisioned_at.is_some());
    if is_to_be_told(tenant, &plan) {
        tell(context, tenant, id, &plan.state).await?;
    }
    let namespace = id.namespace();
    let field = Field {
        context,
        ground: client,
        namespace: &namespace,
    };
    for act in &plan.acts {
        field.act(act).await?;
    }
    let acted = !plan.acts.is_empty();
    Ok(match plan.state {
        State::Removed => {
            hold(context, tenant, Hold::Off).await?;
            info!(tenant = id.as_str(), "is gone");
            Outcome::Gone
        }
        State::Provisioned if acted => {
            info!(tenant = id.as_str(), acts = ?plan.acts, "was put right");
            Outcome::Repaired
        }
        // Who deletes a namespace again and again is not followed as fast as they can go.
        State::Provisioning if acted && was_ready => Outcome::Repaired,
        State::Provisioning if acted => Outcome::Progressed,
        State::Provisioning => Outcome::Waits(SOON),
        State::Provisioned => Outcome::Settled(spread(id)),
        State::Hindered(problem) if problem.passes() => Outcome::Waits(WAITING),
        State::Hindered(problem) => Outcome::Failed(problem.class()),
        State::Deleting(_) => Outcome::Waits(WAITING),
    })
}

/// A tenant that failed is said to have failed until what is to be done has been done;
/// otherwise its status would go to and fro with every try.
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
    info!(tenant = tenant.name_any(), ?phase, "is now");
    event::tell(context, before.as_ref(), tenant).await;
    Ok(())
}

/// Tells what is in the way. While a tenant goes it is not said to have failed: it is still
/// going, and the message says why it does not get on.
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

/// Whether it is too early to say that something failed: somebody was faster, or the server
/// did not answer once.
fn is_hiccup(error: &Error, failures: u32) -> bool {
    match error {
        Error::Server { source, .. } => match &**source {
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => failures < RACES,
            source => Class::of(source) == Class::Transient && failures < HICCUPS,
        },
        _ => false,
    }
}

/// Not all tenants at once.
fn spread(id: &TenantId) -> Duration {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    ANYWAY + Duration::from_secs(hasher.finish() % 600)
}
