//! `insula operator broker`.

use clap::Subcommand;
use insula_broker::crds;
use insula_broker::operator::{AGENT, Settings};

use super::life::{self, LifeArgs};
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::stop::Stop;
use crate::subctl::axon::{self, Format, PartsArgs};

/// The arguments.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    life: LifeArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Print the manifests to install it: kinds, RBAC roles and Deployment
    Manifests(PartsArgs),
    /// Print the kinds only
    Crds,
}

/// Runs the operator until a stop signal, or prints its manifests.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Manifests(parts)) => axon::print(&parts.settings(), Format::Yaml),
        Some(Command::Crds) => output::print(&output::documents(&crds::all())?),
        None => life::run(operate(args.life)),
    }
}

async fn operate(life: LifeArgs) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let settings = Settings {
        leader_elect: life.leader_elect,
        definitions: crds::broker_kinds(),
        ..Settings::new(process::name())
    };
    let life = life.begin(AGENT, &settings.health).await?;
    Ok(insula_broker::operator::run(life.client.clone(), settings, stop.recv()).await?)
}
