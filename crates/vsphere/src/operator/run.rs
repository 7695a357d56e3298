//! The operator's life: how it is started.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_identity::endpoint::Bound;
use insula_operator::health::Health;
use insula_operator::lease::Times;
use kube::Client;
use tokio::sync::watch;

use super::context::Static;

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who it is, in the Lease: the name of its pod or machine. It is made unique.
    pub identity: String,
    pub leader_elect: bool,
    pub times: Times,
    /// On how many objects it works at the same time.
    pub concurrency: usize,
    /// How long a request to the API server, and the work on an object, may take.
    pub patience: Duration,
    /// How long a request to a vCenter may take.
    pub vcenter_patience: Duration,
    /// Whether it works in all tenants' spaces of an Insula too.
    pub tenants: bool,
    pub namespaces: BTreeSet<String>,
    pub watch_filter: Option<String>,
    /// Where it is, and the Secrets of identities.
    pub home: String,
    /// What it was given; changes are used from then on.
    pub given: watch::Receiver<Option<Static>>,
    pub given_for: BTreeSet<String>,
    pub default_bound: Bound,
    /// Authorities to believe beside the machine's, as DER.
    pub roots: Vec<Vec<u8>>,
    pub health: Arc<Health>,
}

/// Runs the operator until it is told to stop; what is being done then is finished, and all
/// sessions are closed.
pub async fn run(client: Client, settings: Settings, stop: impl Future<Output = ()>) {
    drop((client, settings));
    stop.await;
    todo!()
}
