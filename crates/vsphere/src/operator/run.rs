//! Settings and start of the operator.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use insula_dialer::{AddressRules, PRIVATE_NETWORKS};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::{self, Sessions};
use insula_operator::deadline;
use insula_operator::dependencies::DependencyIndex;
use insula_operator::event::EventRateLimit;
use insula_operator::health::Health;
use insula_operator::lease::{Candidate, Times};
use insula_operator::queue::Trigger;
use insula_operator::retry::{Class, Outcome};
use insula_operator::run::{self, Reconciler};
use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tracing::debug;

use super::context::{Context, StaticCredentials};
use super::intervals::Intervals;
use super::key::{Key, Kind};
use super::resolve::Bounds;
use super::session_liveness::SessionLiveness;
use super::watch::is_assigned;
use super::{cluster, identity, machine, secret, vm, zone};
use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine, VSphereVM,
};
use crate::names;
use crate::vcenter::VCenters;

/// The settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of its pod or machine, for the Lease. A unique suffix is added.
    pub identity: String,
    /// Whether it works only while it holds the Lease.
    pub leader_elect: bool,
    /// The durations of the leader election.
    pub times: Times,
    /// How many objects are reconciled at the same time.
    pub concurrency: usize,
    /// The timeout of a request to the API server, and of a reconciliation.
    pub request_timeout: Duration,
    /// How long reconciliations may take to end after the stop signal.
    pub shutdown_timeout: Duration,
    /// The timeout of a request to a vCenter.
    pub vcenter_timeout: Duration,
    /// The settings of vCenter sessions.
    pub sessions: session::Settings,
    /// Whether it also works in all tenants' spaces of an Insula.
    pub tenants: bool,
    /// The only namespaces to work in; all if empty.
    pub namespaces: BTreeSet<String>,
    /// The required value of the label `cluster.x-k8s.io/watch-filter`.
    pub watch_filter: Option<String>,
    /// The namespace of the operator and of the Secrets of identities.
    pub operator_namespace: String,
    /// The static credentials; changes take effect at once.
    pub static_credentials: watch::Receiver<Option<StaticCredentials>>,
    /// The tenants' spaces in which the static credentials may be used too.
    pub static_credentials_for: BTreeSet<String>,
    /// The servers that identities without servers of their own may be sent to.
    pub default_bound: AllowedEndpoints,
    /// Whether Secrets of namespaces may be sent to these servers only.
    pub only_allowed_servers: bool,
    /// The addresses of vCenters that teams choose. Those of `default_bound` may have any.
    pub addresses: AddressRules,
    /// Certificate authorities to trust besides the system's, as DER.
    pub extra_roots: Vec<Vec<u8>>,
    /// How long an object is left alone that is in order.
    pub resync: Duration,
    /// How often states are polled that are not watched.
    pub intervals: Intervals,
    /// The health and metrics of the operator.
    pub health: Arc<Health>,
}

impl Settings {
    /// Returns the default settings.
    pub fn new(
        identity: impl Into<String>,
        static_credentials: watch::Receiver<Option<StaticCredentials>>,
    ) -> Self {
        let vcenter_timeout = Duration::from_secs(15);
        Self {
            identity: identity.into(),
            leader_elect: true,
            times: Times::default(),
            concurrency: 32,
            request_timeout: Duration::from_secs(20),
            shutdown_timeout: Duration::from_secs(5),
            vcenter_timeout,
            sessions: session_settings(vcenter_timeout),
            tenants: false,
            namespaces: BTreeSet::new(),
            watch_filter: None,
            operator_namespace: names::NAMESPACE.to_owned(),
            static_credentials,
            static_credentials_for: BTreeSet::new(),
            default_bound: AllowedEndpoints::Nowhere,
            only_allowed_servers: false,
            addresses: default_addresses(),
            extra_roots: Vec::new(),
            resync: Duration::from_secs(600),
            intervals: Intervals::default(),
            health: Arc::default(),
        }
    }
}

/// Returns the default rules for addresses of vCenters: most are in private networks. Those of
/// this machine and of its link, with the metadata of clouds, are refused.
pub fn default_addresses() -> AddressRules {
    AddressRules {
        allow: PRIVATE_NETWORKS
            .iter()
            .filter_map(|block| block.parse().ok())
            .collect(),
        ..AddressRules::default()
    }
}

/// Returns the default settings of sessions. A vCenter locks accounts for some minutes after a
/// handful of wrong passwords, ends idle sessions after half an hour, and old ones after a day.
pub fn session_settings(timeout: Duration) -> session::Settings {
    session::Settings {
        request_timeout: timeout,
        check_after: Duration::from_secs(60),
        lifetime: Duration::from_secs(8 * 3600),
        refused_backoff: Duration::from_secs(180),
        unreachable_backoff: (Duration::from_secs(1), Duration::from_secs(60)),
        max_per_endpoint: 8,
    }
}

/// How long pending logins are awaited at the end, to log them out.
const LATE_LOGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the operator until the stop signal. Running reconciliations may end within the closing
/// time, and all sessions are logged out.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let client = deadline::with_timeout(&client, settings.request_timeout);
    let instance = format!("{}_{}", settings.identity, uuid::Uuid::new_v4());
    let candidate = settings.leader_elect.then(|| {
        let (namespace, times) = (&settings.operator_namespace, settings.times);
        Candidate::new(client.clone(), namespace, names::LEASE, &instance, times)
    });
    let vcenters = VCenters::new(settings.vcenter_timeout, settings.extra_roots)
        .restricted(settings.addresses, settings.default_bound.clone());
    let concurrency = settings.concurrency.max(1);
    let session_settings = session::Settings {
        // Workers that wait for vCenters must not occupy all of them.
        max_per_endpoint: settings
            .sessions
            .max_per_endpoint
            .min(concurrency / 4)
            .max(1),
        ..settings.sessions
    };
    let sessions = Sessions::new(vcenters.clone(), session_settings);
    let metrics_source = Arc::clone(&sessions);
    settings
        .health
        .add_metrics(move || metrics_source.metrics());
    let context = Arc::new(Context {
        client,
        tenants: settings.tenants,
        namespaces: settings.namespaces,
        watch_filter: settings.watch_filter,
        operator_namespace: settings.operator_namespace,
        sessions: Arc::clone(&sessions),
        depends: DependencyIndex::default(),
        liveness: SessionLiveness::new(settings.sessions.check_after),
        identities_in_use: Mutex::default(),
        static_credentials: settings.static_credentials,
        static_credentials_for: settings.static_credentials_for,
        bounds: Bounds {
            namespace_secrets: match settings.only_allowed_servers {
                true => settings.default_bound.clone(),
                false => AllowedEndpoints::Anywhere,
            },
            default: settings.default_bound,
        },
        resync: settings.resync,
        intervals: settings.intervals,
        instance,
        event_rate_limit: EventRateLimit::default(),
        requeue: Arc::default(),
    });
    let run_settings = run::Settings {
        candidate,
        concurrency,
        // A reconciliation may make a few requests to a vCenter.
        reconcile_timeout: settings.request_timeout + settings.vcenter_timeout * 4,
        shutdown_timeout: settings.shutdown_timeout,
    };
    run::run(context, run_settings, settings.health, stop).await;
    sessions.close().await;
    vcenters.drain(LATE_LOGIN_TIMEOUT).await;
}

impl Reconciler for Context {
    async fn check_available(&self) -> Result<(), String> {
        let one = ListParams::default().limit(1);
        let identities: Api<PartialObjectMeta<VSphereClusterIdentity>> =
            Api::all(self.client.clone());
        let listed = identities.list(&one).await.map(drop);
        listed.map_err(|error| format!("list identities: {error}"))?;
        let clusters: Api<PartialObjectMeta<VSphereCluster>> = match self.namespaces.first() {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let listed = clusters.list(&one).await.map(drop);
        listed.map_err(|error| format!("list clusters: {error}"))
    }

    async fn triggers(self: Arc<Self>) -> BoxStream<'static, Trigger> {
        super::watch::triggers(self).await
    }

    async fn reconcile(&self, name: &str, failures: u32) -> Outcome {
        let Ok(key) = name.parse::<Key>() else {
            return Outcome::Gone;
        };
        match self.is_assigned_to_this(&key).await {
            Ok(true) => {}
            Ok(false) => {
                self.forget(&key);
                return Outcome::Gone;
            }
            Err(error) => return Outcome::Failed(Class::of(&error)),
        }
        let done = match key.kind {
            Kind::Identity => identity::reconcile(self, &key, failures).await,
            Kind::Cluster => cluster::reconcile(self, &key, failures).await,
            Kind::Zone => zone::reconcile(self, &key, failures).await,
            Kind::Secret => secret::reconcile(self, &key, failures).await,
            Kind::Machine => machine::reconcile(self, &key, failures).await,
            Kind::Vm => vm::reconcile(self, &key, failures).await,
        };
        done.unwrap_or_else(|error| {
            debug!(%key, %error, "reconciliation failed");
            Outcome::Failed(Class::of(&error))
        })
    }
}

impl Context {
    /// Returns whether an object is still assigned to this operator: a user may have changed its
    /// label. Secrets have no label, and belong to the operator of their claimants.
    async fn is_assigned_to_this(&self, key: &Key) -> Result<bool, kube::Error> {
        if self.watch_filter.is_none() {
            return Ok(true);
        }
        match key.kind {
            Kind::Secret => Ok(true),
            Kind::Identity => self.is_labelled::<VSphereClusterIdentity>(key).await,
            Kind::Cluster => self.is_labelled::<VSphereCluster>(key).await,
            Kind::Zone => self.is_labelled::<VSphereDeploymentZone>(key).await,
            Kind::Machine => self.is_labelled::<VSphereMachine>(key).await,
            Kind::Vm => self.is_labelled::<VSphereVM>(key).await,
        }
    }

    /// Returns whether the label of an object matches. A deleted object is handled as before.
    async fn is_labelled<K>(&self, key: &Key) -> Result<bool, kube::Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let kind = ApiResource::erase::<K>(&());
        let client = self.client(key.space.as_deref());
        let api: Api<DynamicObject> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let found = api.get_metadata_opt(&key.name).await?;
        Ok(found.is_none_or(|found| is_assigned(self, &found.metadata)))
    }
}
