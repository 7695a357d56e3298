//! Settings and start of the operator.

use std::sync::Arc;
use std::time::Duration;

use insula_dialer::{AddressRules, PRIVATE_NETWORKS};
use insula_identity::session::Concurrency;
use insula_operator::outbound::HttpClients;
use insula_operator::provider::{self, SessionLiveness};
use kube::Client;

use super::Metal3;
use super::reported::ReportedProblems;
use super::workload::{REQUEST_TIMEOUT, Workloads};
use crate::hosts::release::FastTrack;
use crate::kubeconfig::Kubeconfig;
use crate::names;
use crate::pool::Pools;

/// The settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings that all providers have.
    pub shell: provider::Settings,
    /// The addresses of API servers that kubeconfigs name. Those of `default_bound` may have any.
    pub addresses: AddressRules,
    /// Whether kubeconfigs may say that a server's certificate is not verified.
    pub allow_insecure_hosts: bool,
    /// Whether hosts stay on between two machines.
    pub fast_track: FastTrack,
    /// The timeout of requests to workload clusters.
    pub workload_timeout: Duration,
}

/// The timeout of opening a pool: its rights are checked, and its hosts are listed.
const POOL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an object is left alone that is in order. Credentials are verified again then.
const RESYNC: Duration = Duration::from_secs(300);
/// How long a credential that the server refused is not tried again, unless it changes.
const REFUSED_BACKOFF: Duration = Duration::from_secs(30);
/// The age at which a pool is opened anew.
const POOL_LIFETIME: Duration = Duration::from_secs(24 * 3600);

impl Settings {
    /// Returns the default settings.
    pub fn new(identity: impl Into<String>) -> Self {
        let mut shell = provider::Settings::new(identity, names::NAMESPACE, POOL_TIMEOUT);
        shell.resync = RESYNC;
        shell.sessions.refused_backoff = REFUSED_BACKOFF;
        shell.sessions.lifetime = POOL_LIFETIME;
        Self {
            shell,
            addresses: default_addresses(),
            allow_insecure_hosts: false,
            fast_track: FastTrack::Off,
            workload_timeout: REQUEST_TIMEOUT,
        }
    }
}

/// Returns the default rules for addresses of API servers: many are in private networks. Those of
/// the loopback interface and of the link, with the metadata of clouds, are refused.
pub fn default_addresses() -> AddressRules {
    let private = PRIVATE_NETWORKS.iter();
    AddressRules {
        allow: private.filter_map(|block| block.parse().ok()).collect(),
        ..AddressRules::default()
    }
}

/// Runs the operator until the stop signal. Running reconciliations may end within the closing
/// time, and all watches of hosts end.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let mut shell = settings.shell;
    let clients =
        HttpClients::new(Vec::new()).restricted(settings.addresses, shell.default_bound.clone());
    let pools = Pools {
        own: client.clone(),
        clients: clients.clone(),
        requeue: Arc::clone(&shell.requeue),
        memory: Arc::default(),
    };
    let provider = Metal3 {
        kubeconfigs: match settings.allow_insecure_hosts {
            true => Kubeconfig::ANY_IF_ASKED,
            false => Kubeconfig::VERIFIED,
        },
        fast_track: settings.fast_track,
        clients,
        workloads: Workloads::new(settings.workload_timeout, shell.concurrency),
        reported: ReportedProblems::default(),
        liveness: SessionLiveness::new(shell.sessions.check_after),
        requeue: Arc::clone(&shell.requeue),
    };
    // Workers that wait for API servers of hosts must not occupy all of them.
    shell.sessions.concurrency = Concurrency::of_many_endpoints((shell.concurrency / 4).max(1));
    provider::run(client, provider, pools, shell, stop).await;
}
