//! `insula identity`.

mod explain;
mod users;

use clap::Subcommand;
use insula_operator::provider::explain::Error;

use crate::client::{self, AGENT};
use crate::failure::Failure;
use crate::kubeconfig::Source;

/// The arguments of `insula identity`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    source: Source,
}

#[derive(Subcommand)]
enum Command {
    /// Show which credential an object gets, from where and why, or why it gets none
    Explain(explain::Args),
    /// Show which objects use an identity, and which namespaces may
    Users(users::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(async {
        let client = client::connect(args.source.config(AGENT).await?)?;
        match args.command {
            Command::Explain(args) => explain::run(&client, args).await,
            Command::Users(args) => users::run(&client, args).await,
        }
    })
}

/// Joins names for a sentence, as in `a, b and c`.
fn join(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Converts an error, with the server's message.
fn to_failure(error: &Error) -> Failure {
    match error {
        Error::NotFound(_) => Failure::message(error.to_string()),
        Error::Read { source, .. } => {
            let why = match source {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            };
            Failure::new(&error.to_string(), why)
        }
    }
}
