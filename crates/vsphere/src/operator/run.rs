//! The operator's life: how it is started.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::BoxStream;
use insula_identity::endpoint::Bound;
use insula_identity::session::{self, Sessions};
use insula_operator::deadline;
use insula_operator::depends::Depends;
use insula_operator::event::Ration;
use insula_operator::health::Health;
use insula_operator::lease::{Candidate, Times};
use insula_operator::queue::Trigger;
use insula_operator::retry::{Class, Outcome};
use insula_operator::run::{self, Work};
use kube::api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, Resource};
use tokio::sync::watch;
use tracing::debug;

use super::context::{Context, Static};
use super::heard::Heard;
use super::identify::Bounds;
use super::key::{Key, Kind};
use super::pace::Pace;
use super::watch::is_ours;
use super::{cluster, identity, machine, secret, vm, zone};
use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereMachine, VSphereVM,
};
use crate::names;
use crate::vcenter::VCenters;

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who it is, in the Lease: the name of its pod or machine. It is made unique.
    pub identity: String,
    /// Whether it works only while it holds the Lease.
    pub leader_elect: bool,
    /// How long everything about the Lease takes.
    pub times: Times,
    /// On how many objects it works at the same time.
    pub concurrency: usize,
    /// How long a request to the API server, and the work on an object, may take.
    pub patience: Duration,
    /// How long what is being done may take to end when it is told to stop.
    pub closing: Duration,
    /// How long a request to a vCenter may take.
    pub vcenter_patience: Duration,
    /// How sessions are kept.
    pub sessions: session::Settings,
    /// Whether it works in all tenants' spaces of an Insula too.
    pub tenants: bool,
    /// Only in these namespaces; everywhere if there are none.
    pub namespaces: BTreeSet<String>,
    /// Only on what has this value of the label `cluster.x-k8s.io/watch-filter`.
    pub watch_filter: Option<String>,
    /// Where it is, and the Secrets of identities.
    pub home: String,
    /// What it was given; changes are used from then on.
    pub given: watch::Receiver<Option<Static>>,
    /// In which tenants' spaces what it was given may be used too.
    pub given_for: BTreeSet<String>,
    /// Where credentials of identities may be sent that say nothing about it themselves.
    pub default_bound: Bound,
    /// Whether Secrets of namespaces too may be sent to these servers only.
    pub only_allowed_servers: bool,
    /// Authorities to believe beside the machine's, as DER.
    pub roots: Vec<Vec<u8>>,
    /// How long an object is left alone that is as it should be.
    pub resync: Duration,
    /// How often is looked at what nobody tells of.
    pub pace: Pace,
    /// How it says how it is.
    pub health: Arc<Health>,
}

impl Settings {
    /// As it works if nothing else is said.
    pub fn new(identity: impl Into<String>, given: watch::Receiver<Option<Static>>) -> Self {
        let vcenter_patience = Duration::from_secs(15);
        Self {
            identity: identity.into(),
            leader_elect: true,
            times: Times::default(),
            concurrency: 32,
            patience: Duration::from_secs(20),
            closing: Duration::from_secs(5),
            vcenter_patience,
            sessions: sessions(vcenter_patience),
            tenants: false,
            namespaces: BTreeSet::new(),
            watch_filter: None,
            home: names::NAMESPACE.to_owned(),
            given,
            given_for: BTreeSet::new(),
            default_bound: Bound::Nowhere,
            only_allowed_servers: false,
            roots: Vec::new(),
            resync: Duration::from_secs(600),
            pace: Pace::default(),
            health: Arc::default(),
        }
    }
}

/// How sessions are kept if nothing else is said. Accounts are locked after a handful of
/// wrong passwords, and forgiven after some minutes; vCenters end idle sessions after half an
/// hour, and old ones after a day.
pub fn sessions(patience: Duration) -> session::Settings {
    session::Settings {
        patience,
        check_after: Duration::from_secs(60),
        lifetime: Duration::from_secs(8 * 3600),
        refused_for: Duration::from_secs(180),
        unreachable_for: (Duration::from_secs(1), Duration::from_secs(60)),
        at_once: 8,
    }
}

/// How long logins are waited for that nobody needs any more, when all else is closed.
const LATE: Duration = Duration::from_secs(1);

/// Runs the operator until it is told to stop; what is being done then is finished if that is
/// soon, and all sessions are closed.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let client = deadline::within(&client, settings.patience);
    let instance = format!("{}_{}", settings.identity, uuid::Uuid::new_v4());
    let candidate = settings.leader_elect.then(|| {
        let (home, times) = (&settings.home, settings.times);
        Candidate::new(client.clone(), home, names::LEASE, &instance, times)
    });
    let vcenters = VCenters::new(settings.vcenter_patience, settings.roots);
    let concurrency = settings.concurrency.max(1);
    let how = session::Settings {
        // However many vCenters keep somebody waiting, some work goes on.
        at_once: settings.sessions.at_once.min(concurrency / 4).max(1),
        ..settings.sessions
    };
    let sessions = Sessions::new(vcenters.clone(), how);
    let figures = Arc::clone(&sessions);
    settings.health.also(move || figures.metrics());
    let context = Arc::new(Context {
        client,
        tenants: settings.tenants,
        namespaces: settings.namespaces,
        watch_filter: settings.watch_filter,
        home: settings.home,
        sessions: Arc::clone(&sessions),
        depends: Depends::default(),
        heard: Heard::new(settings.sessions.check_after),
        using: Mutex::default(),
        given: settings.given,
        given_for: settings.given_for,
        bounds: Bounds {
            own: match settings.only_allowed_servers {
                true => settings.default_bound.clone(),
                false => Bound::Anywhere,
            },
            unsaid: settings.default_bound,
        },
        resync: settings.resync,
        pace: settings.pace,
        instance,
        ration: Ration::default(),
        wakes: Arc::default(),
    });
    let how = run::Settings {
        candidate,
        concurrency,
        // A few requests to a vCenter may be part of it.
        patience: settings.patience + settings.vcenter_patience * 4,
        closing: settings.closing,
    };
    run::run(context, how, settings.health, stop).await;
    sessions.close().await;
    vcenters.finish(LATE).await;
}

impl Work for Context {
    async fn is_served(&self) -> Result<(), String> {
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
        match self.is_for_us(&key).await {
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
            debug!(%key, %error, "is tried again");
            Outcome::Failed(Class::of(&error))
        })
    }
}

impl Context {
    /// Whether an object is still for this one of several operators: who has taken its label
    /// away has given it to another. Secrets have none, and are whose their holders are.
    async fn is_for_us(&self, key: &Key) -> Result<bool, kube::Error> {
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

    /// What is gone is left to who worked on it.
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
        Ok(found.is_none_or(|found| is_ours(self, &found.metadata)))
    }
}
