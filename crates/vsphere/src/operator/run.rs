//! Settings and start of the operator.

use std::path::Path;
use std::time::Duration;

use insula_dialer::{AddressRules, PRIVATE_NETWORKS};
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::Concurrency;
use insula_operator::provider::{
    self, CredentialsFile, SessionLiveness, StaticCredentials, account_file,
};
use kube::Client;
use tokio::sync::watch;

use super::context::VSphere;
use super::intervals::Intervals;
use crate::names;
use crate::vcenter::VCenters;

/// The settings of the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings that all providers have.
    pub shell: provider::Settings,
    /// The addresses of vCenters that teams choose. Those of `default_bound` may have any.
    pub addresses: AddressRules,
    /// Certificate authorities to trust besides the system's, as DER.
    pub extra_roots: Vec<Vec<u8>>,
    /// How often states are polled that are not watched.
    pub intervals: Intervals,
}

impl Settings {
    /// Returns the default settings. Those of sessions suit a vCenter: it locks accounts for some
    /// minutes after a handful of wrong passwords, ends idle sessions after half an hour, and old
    /// ones after a day.
    pub fn new(
        identity: impl Into<String>,
        static_credentials: watch::Receiver<Option<StaticCredentials>>,
    ) -> Self {
        Self {
            shell: provider::Settings {
                static_credentials,
                ..provider::Settings::new(identity, names::NAMESPACE, VCENTER_TIMEOUT)
            },
            addresses: default_addresses(),
            extra_roots: Vec::new(),
            intervals: Intervals::default(),
        }
    }
}

/// Returns a reader for the file with the operator's own account, for clusters that reference no
/// identity. The account may be sent to these servers if the file names none.
pub fn credentials_file(file: &Path, default_bound: AllowedEndpoints) -> CredentialsFile {
    account_file(file, default_bound, names::PORT)
}

/// Returns the default rules for addresses of vCenters: most are in private networks. Those of
/// the loopback interface and of the link, with the metadata of clouds, are refused.
pub fn default_addresses() -> AddressRules {
    AddressRules {
        allow: PRIVATE_NETWORKS
            .iter()
            .filter_map(|block| block.parse().ok())
            .collect(),
        ..AddressRules::default()
    }
}

/// The default timeout of a request to a vCenter.
const VCENTER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long pending logins are awaited at the end, to log them out.
const LATE_LOGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the operator until the stop signal. Running reconciliations may end within the closing
/// time, and all sessions are logged out.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    let mut shell = settings.shell;
    let vcenters = VCenters::new(shell.sessions.request_timeout, settings.extra_roots)
        .restricted(settings.addresses, shell.default_bound.clone());
    let provider = VSphere {
        liveness: SessionLiveness::new(shell.sessions.check_after),
        intervals: settings.intervals,
    };
    // Workers that wait for vCenters must not occupy all of them.
    let per_endpoint = shell.sessions.concurrency.per_endpoint;
    let per_endpoint = per_endpoint.min(shell.concurrency / 4).max(1);
    shell.sessions.concurrency = Concurrency::of_many_endpoints(per_endpoint);
    provider::run(client, provider, vcenters.clone(), shell, stop).await;
    vcenters.drain(LATE_LOGIN_TIMEOUT).await;
}
