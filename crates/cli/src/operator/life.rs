//! The common arguments of all operators.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use insula_operator::health;
use insula_operator::health::Health;
use kube::Client;
use tokio::task::JoinSet;

use crate::client;
use crate::failure::Failure;
use crate::kubeconfig::Source;

/// The common arguments of all operators.
#[derive(clap::Args)]
pub struct LifeArgs {
    #[command(flatten)]
    source: Source,

    /// Work only while holding a Lease
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true"
    )]
    #[arg(num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Listen address of /healthz, /livez and /readyz (default: none)
    #[arg(long, value_name = "ADDR")]
    health_addr: Option<SocketAddr>,

    /// Listen address of /metrics (default: none)
    #[arg(long, value_name = "ADDR")]
    metrics_addr: Option<SocketAddr>,
}

/// The resources of a running operator.
pub struct Life {
    /// The client of the cluster.
    pub client: Client,
    /// Dropped with the operator.
    _asked: JoinSet<()>,
}

impl LifeArgs {
    /// Connects, and starts the health and metrics servers.
    pub async fn begin(self, program: &'static str, health: &Arc<Health>) -> Result<Life, Failure> {
        let addresses: BTreeSet<_> = [self.health_addr, self.metrics_addr]
            .into_iter()
            .flatten()
            .collect();
        let client = client::connect(self.source.config(program).await?)?;
        let mut asked = JoinSet::new();
        for address in addresses {
            let listener = health::listen(address).await;
            let listener = listener.map_err(|error| cannot_listen(&error))?;
            asked.spawn(health::serve(listener, Arc::clone(health)));
        }
        Ok(Life {
            client,
            _asked: asked,
        })
    }
}

/// Runs an operator to its end.
pub fn run(operator: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(operator)
}

fn cannot_listen(error: &health::CannotListen) -> Failure {
    let why = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
    Failure::new(&error.to_string(), why).hint("choose another --health-addr or --metrics-addr")
}
