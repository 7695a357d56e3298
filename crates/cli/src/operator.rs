//! `insula operator`.

mod broker;
mod life;
pub mod vsphere;

use clap::Subcommand;

use crate::failure::Failure;

/// What `insula operator` can be told.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    operator: Operator,
}

#[derive(Subcommand)]
enum Operator {
    /// Make the tenants of `subctl create tenant`: Submariner brokers for many
    Broker(broker::Args),
    /// Make clusters on vSphere, each with the credentials that are its own
    Vsphere(Box<vsphere::Args>),
}

/// Does what it is told to.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.operator {
        Operator::Broker(args) => broker::run(args),
        Operator::Vsphere(args) => vsphere::run(*args),
    }
}
