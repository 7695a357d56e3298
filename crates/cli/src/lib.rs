//! The binaries of Insula: `insula`, and `subctl` for Submariner's users.
//!
//! Arguments become settings, settings a command, and its output is printed at the end: data
//! to stdout, everything else to stderr. The crates below do the work; this crate contains
//! only arguments and output.

pub mod insula;
pub mod subctl;

mod azure_import;
mod byte_size;
mod certificate_file;
mod client;
mod duration;
mod encryption;
mod failure;
mod identity;
mod keys;
mod kubeconfig;
mod operator;
mod output;
mod pki;
mod private_file;
mod process;
mod providers;
mod relocate;
mod secret;
mod serve;
mod stop;
mod tenant;
mod terminal;
mod token_keys;

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// Exit codes: 0 for success, 1 for an explained failure, 2 for a wrong command line (from
/// clap), 78 for an operator that is newer than its kinds on the server.
fn exit(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The default log filter: warnings and errors, and the settings of the Azure operator, which come
/// from several places. Failed requests are reported by their callers.
const DEFAULT_LOG_FILTER: &str =
    "warn,insula_azure::settings_secret=info,kube_client::client::builder=off";

/// Logs to stderr as `RUST_LOG` says.
fn log_to_stderr() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG_FILTER));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
