//! `insula operator`.

pub mod azure;
mod broker;
mod life;
pub mod metal3;
mod scope;
pub mod vsphere;
mod webhooks;

use clap::Subcommand;

use crate::failure::Failure;

/// The arguments of `insula operator`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    operator: Operator,
}

#[derive(Subcommand)]
enum Operator {
    /// Create Azure resources from the kinds of Azure Service Operator, each with its credential
    Azure(Box<azure::Args>),
    /// Provision the tenants of `subctl create tenant`: Submariner brokers for many tenants
    Broker(broker::Args),
    /// Provision bare-metal clusters with Metal3, each with the hosts that its kubeconfig reaches
    Metal3(Box<metal3::Args>),
    /// Provision clusters on vSphere, each with its own credentials
    Vsphere(Box<vsphere::Args>),
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.operator {
        Operator::Azure(args) => azure::run(*args),
        Operator::Broker(args) => broker::run(args),
        Operator::Metal3(args) => metal3::run(*args),
        Operator::Vsphere(args) => vsphere::run(*args),
    }
}
