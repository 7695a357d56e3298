//! Settings and start of the operator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_dialer::{AddressRules, PRIVATE_NETWORKS};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::{self, Concurrency};
use insula_operator::health::Health;
use insula_operator::lease::Times;
use insula_operator::provider::{self, SessionLiveness, StaticCredentials};
use kube::Client;
use tokio::sync::watch;

use super::context::VSphere;
use super::intervals::Intervals;
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
        concurrency: Concurrency::of_many_endpoints(8),
    }
}

/// How long pending logins are awaited at the end, to log them out.
const LATE_LOGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the operator until the stop signal. Running reconciliations may end within the closing
/// time, and all sessions are logged out.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let vcenters = VCenters::new(settings.vcenter_timeout, settings.extra_roots)
        .restricted(settings.addresses, settings.default_bound.clone());
    let provider = VSphere {
        liveness: SessionLiveness::new(settings.sessions.check_after),
        intervals: settings.intervals,
    };
    // Workers that wait for vCenters must not occupy all of them.
    let per_endpoint = settings.sessions.concurrency.per_endpoint;
    let per_endpoint = per_endpoint.min(settings.concurrency / 4).max(1);
    let shell_settings = provider::Settings {
        identity: settings.identity,
        leader_elect: settings.leader_elect,
        times: settings.times,
        concurrency: settings.concurrency,
        request_timeout: settings.request_timeout,
        // A reconciliation may make a few requests to a vCenter.
        reconcile_timeout: settings.request_timeout + settings.vcenter_timeout * 4,
        shutdown_timeout: settings.shutdown_timeout,
        sessions: session::Settings {
            concurrency: Concurrency::of_many_endpoints(per_endpoint),
            ..settings.sessions
        },
        tenants: settings.tenants,
        namespaces: settings.namespaces,
        watch_filter: settings.watch_filter,
        operator_namespace: settings.operator_namespace,
        static_credentials: settings.static_credentials,
        static_credentials_for: settings.static_credentials_for,
        default_bound: settings.default_bound,
        only_allowed_servers: settings.only_allowed_servers,
        resync: settings.resync,
        health: settings.health,
    };
    provider::run(client, provider, vcenters.clone(), shell_settings, stop).await;
    vcenters.drain(LATE_LOGIN_TIMEOUT).await;
}
