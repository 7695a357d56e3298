//! The binaries of Insula: `insula`, and `subctl` for Submariner's users.
//!
//! Arguments become settings, settings a command, and what a command has to say is printed
//! at the end: data to stdout, everything else to stderr. What is done is in the crates
//! below; here is only how it is asked for and told.

pub mod insula;
pub mod subctl;

mod client;
mod duration;
mod failure;
mod identity;
mod kubeconfig;
mod operator;
mod output;
mod pki;
mod private_file;
mod process;
mod relocate;
mod secret;
mod serve;
mod stop;
mod tenant;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// 0: done. 1: a failure that was explained. 2: a wrong command line, from clap.
fn exit(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::FAILURE
        }
    }
}

/// What is said without `RUST_LOG`: warnings and worse. Requests that fail are told by
/// whoever made them.
const USUAL_LOG: &str = "warn,kube_client::client::builder=off";

/// What `RUST_LOG` asks for.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(USUAL_LOG));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
