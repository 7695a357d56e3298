//! The operator's life, and the steps for one tenant.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::BoxStream;
use insula_operator::deadline;
use insula_operator::health::Health;
use insula_operator::lease::{Candidate, Times};
use insula_operator::queue::Trigger;
use insula_operator::retry::{Class, Outcome};
use insula_operator::run::{self, Work};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use tracing::{debug, info, warn};

use super::act::{Field, Hold, hold, report};
use super::conclude::conclude;
use super::observe::{Ground, observe};
use super::plan::{Going, Plan, State};
use super::problem::Problem;
use super::wanted::Wanted;
use super::{event, plan, remove, watch};
use crate::crds;
use crate::error::Error;
use crate::names::{AXON, FINALIZER, TenantId};
use crate::tenant::{Phase, Tenant};

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who it is, in the Lease: the name of its pod or machine. It is made unique.
    pub identity: String,
    /// Whether it works only while it holds the Lease. Without, nobody else may run one, and
    /// nobody can see that it runs.
    pub leader_elect: bool,
    /// How long everything about the Lease takes.
    pub times: Times,
    /// On how many tenants it works at the same time.
    pub concurrency: usize,
    /// How long a request, and the work on a tenant, may take until it is begun anew.
    pub patience: Duration,
    /// The kinds that a broker needs, for tenants with a space of their own.
    pub definitions: Vec<CustomResourceDefinition>,
    /// How it says how it is.
    pub health: Arc<Health>,
}

impl Settings {
    /// As it works if nothing else is said.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            leader_elect: true,
            times: Times::default(),
            concurrency: 16,
            patience: Duration::from_secs(20),
            definitions: crds::of_broker(),
            health: Arc::default(),
        }
    }
}

/// Runs the operator until it is told to stop; what is being done then is finished. It waits
/// for everything that it needs, and so may be started before it was deployed.
///
/// # Errors
///
/// None so far: whatever fails is tried again.
pub async fn run(
    client: Client,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let client = deadline::within(&client, settings.patience);
    let identity = format!("{}_{}", settings.identity, uuid::Uuid::new_v4());
    let candidate = settings
        .leader_elect
        .then(|| Candidate::new(client.clone(), AXON, AXON, &identity, settings.times));
    let context = Arc::new(Context {
        client,
        identity,
        definitions: settings.definitions,
        serves_spaces: AtomicBool::new(false),
    });
    let how = run::Settings {
        candidate,
        concurrency: settings.concurrency.max(1),
        patience: settings.patience,
    };
    run::run(context, how, settings.health, stop).await;
    Ok(())
}

/// What all work stands on.
pub(super) struct Context {
    pub client: Client,
    pub identity: String,
    pub definitions: Vec<CustomResourceDefinition>,
    serves_spaces: AtomicBool,
}

impl Context {
    /// Whether the server is an Insula, and this its system: nothing else has tenants in its
    /// core group. One that has does not lose them, so it is asked once.
    pub async fn serves_spaces(&self) -> Result<bool, Error> {
        if self.serves_spaces.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let served = self.client.list_core_api_resources("v1").await;
        let served = served.map_err(Error::when("ask what the server has"))?;
        let serves = served.resources.iter().any(|kind| kind.name == "tenants");
        self.serves_spaces.store(serves, Ordering::Relaxed);
        Ok(serves)
    }
}

impl Work for Context {
    async fn is_served(&self) -> Result<(), String> {
        let tenants: Api<PartialObjectMeta<Tenant>> = Api::namespaced(self.client.clone(), AXON);
        let listed = tenants.list(&ListParams::default().limit(1)).await;
        let listed = listed.map_err(Error::when("list tenants"));
        listed.map(drop).map_err(|error| error.to_string())
    }

    async fn triggers(self: Arc<Self>) -> BoxStream<'static, Trigger> {
        watch::triggers(self).await
    }

    async fn reconcile(&self, name: &str, failures: u32) -> Outcome {
        match reconcile(self, name, failures).await {
            Ok(outcome) => outcome,
            Err(error) => {
                debug!(tenant = name, %error, "is tried again");
                Outcome::Failed(Problem::of(&error).class())
            }
        }
    }
}

/// How often a tenant is looked at even if nothing happened.
const ANYWAY: Duration = Duration::from_secs(3600);
/// How often a tenant is looked at that waits for something that will be seen.
const WAITING: Duration = Duration::from_secs(5);
/// How often something may go wrong that may go well the next time before it is told.
const HICCUPS: u32 = 2;
/// How often others may be faster before that is told.
const RACES: u32 = 5;

/// All steps for one tenant. What fails on the way to being told is tried again.
async fn reconcile(context: &Context, name: &str, failures: u32) -> Result<Outcome, Error> {
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
    let going = tenant.metadata.deletion_timestamp.is_some();
    let held = tenant.finalizers().iter().any(|held| held == FINALIZER);
    match (going, held) {
        // Others hold it, or it goes this moment.
        (true, false) => return Ok(Outcome::Waits(ANYWAY)),
        (false, false) => tenant = hold(context, &tenant, Hold::On).await?,
        (_, true) => {}
    }
    match advance(context, &mut tenant, &id).await {
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
async fn misnamed(
    context: &Context,
    mut tenant: Tenant,
    error: crate::names::NotAnId,
) -> Result<Outcome, Error> {
    // Only its status is about to be made, and that does not depend on the ID.
    let anyone = TenantId::random();
    let problem = Problem::InvalidName(error);
    fail(context, &mut tenant, &anyone, problem).await
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
        State::Provisioning => Outcome::Progressed,
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
