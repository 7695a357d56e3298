//! `subctl`: Submariner brokers for many tenants.

mod broker_file;
mod brokers;
mod connection;
mod create;
mod delete;
mod deploy;
mod diagnose;
mod file;
mod flag;
mod get;
mod join;
mod list;
mod progress;
mod recover;
mod show;
mod subject;
mod unjoin;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use self::connection::ConnectionArgs;
pub(crate) use self::deploy::axon;
pub(crate) use self::progress::Progress;
use crate::failure::Failure;
use crate::{exit, log_to_stderr, output};

/// Submariner brokers for many tenants.
#[derive(Parser)]
#[command(name = "subctl", version)]
struct Args {
    #[command(subcommand)]
    command: Command,

    #[command(flatten, next_help_heading = "Connection")]
    connection: ConnectionArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Deploy the Axon control plane, or a broker
    #[command(subcommand)]
    Deploy(Deploy),
    /// Alias of `deploy broker`
    #[command(hide = true)]
    DeployBroker(Box<deploy::broker::Args>),
    /// Join a cluster to the ClusterSet of a broker-info file
    Join(Box<join::Args>),
    /// Remove a cluster from its ClusterSet: the reverse of `join`
    Unjoin(unjoin::Args),
    /// Check a broker and the clusters that have joined it
    Diagnose(diagnose::Args),
    /// Create a tenant: a ClusterSet with a broker of its own
    #[command(subcommand)]
    Create(Create),
    /// Show a tenant, or write its broker-info file again
    #[command(subcommand)]
    Get(Get),
    /// Show all tenants
    #[command(subcommand)]
    List(List),
    /// Delete a tenant with its broker
    #[command(subcommand)]
    Delete(Delete),
    /// Show the brokers of a cluster
    #[command(subcommand)]
    Show(Show),
    /// Recover a lost broker-info file from a cluster that has joined
    RecoverBrokerInfo(recover::Args),
    /// Show the version of this program
    Version,
}

#[derive(Subcommand)]
enum Deploy {
    /// Install the kinds, the RBAC roles and the operator that tenants need
    AxonCp(Box<deploy::axon::Args>),
    /// Deploy a broker, and write the broker-info file that clusters join with
    Broker(Box<deploy::broker::Args>),
}

#[derive(Subcommand)]
enum Create {
    /// Create a tenant, wait until it is provisioned, and write its broker-info file
    #[command(alias = "tenants")]
    Tenant(Box<create::Args>),
}

#[derive(Subcommand)]
enum Get {
    /// Show a tenant; with --generate-subm, write its broker-info file too
    #[command(alias = "tenants")]
    Tenant(get::Args),
}

#[derive(Subcommand)]
enum List {
    /// Show all tenants
    #[command(alias = "tenant")]
    Tenants(list::Args),
}

#[derive(Subcommand)]
enum Delete {
    /// Delete a tenant with its broker, and wait until it is gone
    #[command(alias = "tenants")]
    Tenant(delete::Args),
}

#[derive(Subcommand)]
enum Show {
    /// Show the brokers of a cluster
    #[command(alias = "broker")]
    Brokers(brokers::Args),
}

/// The line of `subctl version`, as in Submariner's own program.
const VERSION: &str = concat!("subctl version: v", env!("CARGO_PKG_VERSION"), "\n");

/// The context of every command.
pub(crate) struct CommandContext {
    connection: ConnectionArgs,
    progress: Progress,
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let args = Args::parse();
    log_to_stderr();
    let cx = CommandContext {
        connection: args.connection,
        progress: Progress::to_stderr(),
    };
    let done = run(args.command, &cx);
    cx.progress.end(done.is_ok());
    exit(done)
}

/// Exits with a usage error that only the whole command line shows.
fn usage(kind: ErrorKind, message: &str) -> ! {
    Args::command().error(kind, message).exit()
}

fn run(command: Command, cx: &CommandContext) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(async {
        match command {
            Command::Deploy(Deploy::AxonCp(args)) => deploy::axon::run(cx, *args).await,
            Command::Deploy(Deploy::Broker(args)) | Command::DeployBroker(args) => {
                deploy::broker::run(cx, *args).await
            }
            Command::Join(args) => join::run(cx, *args).await,
            Command::Unjoin(args) => unjoin::run(cx, args).await,
            Command::Diagnose(args) => diagnose::run(cx, args).await,
            Command::Create(Create::Tenant(args)) => create::run(cx, *args).await,
            Command::Get(Get::Tenant(args)) => get::run(cx, args).await,
            Command::List(List::Tenants(args)) => list::run(cx, args).await,
            Command::Delete(Delete::Tenant(args)) => delete::run(cx, args).await,
            Command::Show(Show::Brokers(args)) => brokers::run(cx, args).await,
            Command::RecoverBrokerInfo(args) => recover::run(cx, args).await,
            Command::Version => output::print(VERSION),
        }
    })
}
