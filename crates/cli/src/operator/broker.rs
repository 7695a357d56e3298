//! `insula operator broker`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Subcommand;
use insula_broker::crds;
use insula_broker::operator::{AGENT, Settings};
use insula_operator::{agent, health};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::identity;
use crate::kubeconfig::Source;
use crate::output;
use crate::stop::Stop;
use crate::subctl::axon::{self, Format, PartsArgs};
use crate::subctl::{ConnectionArgs, client};

/// What it can be told.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    source: Source,

    /// Work only while no other one does, and show in a Lease who does
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true"
    )]
    #[arg(num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    leader_elect: bool,

    /// Where to answer /healthz, /livez and /readyz; default: nowhere
    #[arg(long, value_name = "ADDR")]
    health_addr: Option<SocketAddr>,

    /// Where to answer /metrics; default: nowhere
    #[arg(long, value_name = "ADDR")]
    metrics_addr: Option<SocketAddr>,
}

#[derive(Subcommand)]
enum Command {
    /// Print what to install it with: kinds, rights and Deployment
    Manifests(PartsArgs),
    /// Print the kinds alone
    Crds,
}

/// Runs the operator until it is told to stop, or prints what it needs.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Manifests(parts)) => return axon::print(&parts.settings(), Format::Yaml),
        Some(Command::Crds) => return output::print(&output::documents(&crds::all())?),
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(operate(args))
}

async fn operate(args: Args) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let connection = ConnectionArgs::of(args.source);
    let mut config = connection.config().await?;
    agent::introduce(&mut config, AGENT);
    let client = client(config)?;
    let settings = Settings {
        leader_elect: args.leader_elect,
        definitions: crds::of_broker(),
        ..Settings::new(identity::of_this_process())
    };
    let addresses: BTreeSet<_> = [args.health_addr, args.metrics_addr]
        .into_iter()
        .flatten()
        .collect();
    // Ended with the operator.
    let mut asked = JoinSet::new();
    for address in addresses {
        let listener = health::listen(address).await;
        let listener = listener.map_err(|error| cannot_listen(&error))?;
        asked.spawn(health::serve(listener, Arc::clone(&settings.health)));
    }
    Ok(insula_broker::operator::run(client, settings, stop.told()).await?)
}

fn cannot_listen(error: &health::CannotListen) -> Failure {
    let why = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
    Failure::new(&error.to_string(), why).hint("choose another --health-addr or --metrics-addr")
}
