//! Insula: a multi-tenant Kubernetes control plane in one binary.

mod client;
mod duration;
mod failure;
mod kubeconfig;
mod output;
mod pki;
mod private_file;
mod secret;
mod serve;
mod tenant;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A multi-tenant Kubernetes control plane in one binary.
#[derive(Parser)]
#[command(name = "insula", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the control plane
    Serve(Box<serve::Args>),
    /// Create, show and delete tenants
    Tenant(tenant::Args),
}

/// 0: done. 1: a failure that was explained. 2: a wrong command line, from clap.
fn main() -> ExitCode {
    let args = Args::parse();
    log_to_stderr();
    let done = match args.command {
        Command::Serve(args) => serve::run(*args),
        Command::Tenant(args) => tenant::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::FAILURE
        }
    }
}

/// What `RUST_LOG` asks for; warnings and worse without it.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
