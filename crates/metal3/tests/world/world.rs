//! API servers for tests of the operator, and helpers.
//!
//! | server | content |
//! |---|---|
//! | [`Management`] | the kinds, Cluster API, and the namespaces `team-a` and `team-b`; no hosts |
//! | [`HostSide`] | hosts in the namespaces `pool-a`, `pool-b` and `shared`, and a fake Bare Metal Operator |
//! | [`Workload`] | the nodes of workload clusters |
//! | [`Tenants`] | one server with hosts in a tenant's space, and clusters in those of others |
//!
//! A second [`Management`] is the target of a move.
//!
//! Test targets include it with `#[path = "../world/world.rs"] mod world;`.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses what it needs of it"
)]

mod core_driver;
mod gate;
mod host_side;
mod killing;
mod kubeconfig;
mod management;
mod requests;
mod running;
mod space;
mod team;
mod tenants;
mod workload;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_dialer::AddressRules;
use insula_identity::session;
use insula_metal3::operator::Settings;
use insula_operator::lease::Times;
use insula_operator::provider;
use insula_testkit::server::TestServer;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::{Instant, sleep};

pub use gate::Gate;
pub use host_side::{HostSide, USERS, account, grant};
pub use killing::{KillPoint, KillRecord, Side, killing_client, killing_relay};
pub use kubeconfig::{Entry, kubeconfig};
pub use management::Management;
pub use requests::Request;
pub use running::Running;
pub use space::{HasConditions, Space, condition};
pub use team::bootstrap_data;
pub use tenants::Tenants;
pub use workload::Workload;

/// The deadline of every wait. A wait takes a second or two, unless the machine is busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Short durations for the leader election.
const TIMES: Times = Times {
    duration: Duration::from_secs(4),
    renew: Duration::from_millis(300),
    give_up: Duration::from_secs(2),
    look: Duration::from_millis(50),
};

/// Durations of sessions. A credential that was refused is not tried again during a test, unless
/// it changes.
pub const SESSIONS: session::Settings = session::Settings {
    request_timeout: Duration::from_secs(3),
    check_after: Duration::from_secs(60),
    lifetime: Duration::from_secs(3600),
    refused_backoff: Duration::from_secs(600),
    unreachable_backoff: (Duration::from_millis(200), Duration::from_secs(1)),
    concurrency: session::Concurrency::of_many_endpoints(8),
};

/// A management cluster, and hosts at another API server. The operator does not run yet.
pub struct World {
    pub management: Management,
    pub hosts: HostSide,
}

impl World {
    /// Starts both servers.
    pub async fn new() -> anyhow::Result<Self> {
        log_to_test();
        let (management, hosts) = tokio::try_join!(Management::start(), HostSide::start())?;
        Ok(Self { management, hosts })
    }

    /// Runs the operator on the management cluster.
    pub fn start(&self) -> Running {
        self.start_with(settings())
    }

    /// Runs the operator with these settings.
    pub fn start_with(&self, settings: Settings) -> Running {
        Running::new(self.management.operator.clone(), settings)
    }

    /// Creates a kubeconfig of a user of the hosts in a namespace of the management cluster.
    pub async fn identity(
        &self,
        namespace: &str,
        name: &str,
        (user, pool): (&str, &str),
    ) -> anyhow::Result<()> {
        let kubeconfig = self.hosts.kubeconfig(user, pool)?;
        self.management.identity(namespace, name, &kubeconfig).await
    }
}

/// Returns settings for an operator that works in all spaces.
pub fn settings() -> Settings {
    let defaults = Settings::new("operator");
    Settings {
        shell: provider::Settings {
            leader_elect: false,
            times: TIMES,
            request_timeout: Duration::from_secs(10),
            sessions: SESSIONS,
            tenants: true,
            ..defaults.shell
        },
        // Where the servers of the tests are.
        addresses: AddressRules {
            allow: vec!["127.0.0.0/8".parse().expect("a block")],
            ..AddressRules::default()
        },
        ..defaults
    }
}

/// Writes the log to the output of the test. `RUST_LOG` selects what is logged.
pub fn log_to_test() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_test_writer()
        .try_init()
        .ok();
}

/// Polls until there is a value, and fails after the deadline.
pub async fn eventually<T>(
    mut poll: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = poll().await? {
            return Ok(found);
        }
        anyhow::ensure!(Instant::now() < deadline, "did not happen in time");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Returns a client with this token.
pub async fn client(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    let entry = Entry::new("test", token, "default");
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig(server, &[entry]))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Client::try_from(config)?)
}
