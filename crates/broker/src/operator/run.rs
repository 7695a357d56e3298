//! Startup of the operator.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use insula_operator::deadline;
use insula_operator::health::Health;
use insula_operator::lease::{Candidate, Times};
use insula_operator::queue::Trigger;
use insula_operator::retry::Outcome;
use insula_operator::run::{self, Reconciler};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client};
use tracing::debug;

use super::context::Context;
use super::problem::Problem;
use super::reconcile::reconcile;
use super::watch;
use crate::crds;
use crate::error::Error;
use crate::names::AXON;
use crate::tenant::Tenant;

/// The settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The holder identity in the Lease: the name of the pod or machine. A suffix makes it
    /// unique.
    pub identity: String,
    /// Whether it works only while it holds the Lease. Without the Lease no second instance
    /// may run, and clients cannot see that one is running.
    pub leader_elect: bool,
    /// The durations of the Lease.
    pub times: Times,
    /// The number of tenants that are reconciled concurrently.
    pub concurrency: usize,
    /// The timeout of a request, and of the reconciliation of one tenant.
    pub timeout: Duration,
    /// The kinds that a broker needs, for tenants with a space of their own.
    pub definitions: Vec<CustomResourceDefinition>,
    /// Where the operator reports its health.
    pub health: Arc<Health>,
}

impl Settings {
    /// Returns the default settings.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            identity: identity.into(),
            leader_elect: true,
            times: Times::default(),
            concurrency: 16,
            timeout: Duration::from_secs(20),
            definitions: crds::broker_kinds(),
            health: Arc::default(),
        }
    }
}

/// Runs the operator until `stop`; reconciliations in progress are finished. It waits for
/// everything that it needs, and so may be started before it is deployed.
///
/// # Errors
///
/// None so far: every failure is retried.
pub async fn run(
    client: Client,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let client = deadline::with_timeout(&client, settings.timeout);
    let identity = format!("{}_{}", settings.identity, uuid::Uuid::new_v4());
    let candidate = settings
        .leader_elect
        .then(|| Candidate::new(client.clone(), AXON, AXON, &identity, settings.times));
    let context = Arc::new(Context::new(client, identity, settings.definitions));
    let how = run::Settings {
        candidate,
        concurrency: settings.concurrency.max(1),
        reconcile_timeout: settings.timeout,
        shutdown_timeout: settings.timeout,
    };
    run::run(context, how, settings.health, stop).await;
    Ok(())
}

impl Reconciler for Context {
    async fn check_available(&self) -> Result<(), String> {
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
                debug!(tenant = name, %error, "reconciliation failed");
                Outcome::Failed(Problem::of(&error, name).class())
            }
        }
    }
}
