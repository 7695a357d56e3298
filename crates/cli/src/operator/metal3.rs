//! `insula operator metal3`.

use clap::Subcommand;
use insula_core::TenantName;
use insula_dialer::{AddressRules, Cidr};
use insula_metal3::hosts::release::FastTrack;
use insula_metal3::manifests::{self, manifests};
use insula_metal3::operator::{AGENT, Settings, default_addresses};
use insula_metal3::{crds, webhooks};

use super::life::{self, LifeArgs};
use super::scope::ScopeArgs;
use super::webhooks::{Served, WebhookArgs};
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::stop::Stop;
use crate::subctl::axon::IMAGE;

/// The arguments.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    life: LifeArgs,

    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    hosts: HostArgs,

    #[command(flatten)]
    webhooks: WebhookArgs,
}

/// The hosts of teams, and the API servers that their kubeconfigs may name.
#[derive(clap::Args)]
struct HostArgs {
    /// Leave hosts switched on between two machines, unless their disks are not cleaned
    #[arg(long)]
    fast_track: bool,

    /// Accept kubeconfigs with insecure-skip-tls-verify, and report them
    #[arg(long)]
    allow_insecure_hosts: bool,

    /// Addresses around the operator that API servers of hosts may have, besides private networks
    /// (default: none)
    #[arg(long = "allow-address", value_name = "CIDR", value_delimiter = ',')]
    allow_addresses: Vec<Cidr>,

    /// Addresses that API servers of hosts may not have; takes precedence over --allow-address
    #[arg(long = "deny-address", value_name = "CIDR", value_delimiter = ',')]
    deny_addresses: Vec<Cidr>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the manifests to install it: kinds, RBAC roles, validation and Deployment
    Manifests(ManifestsArgs),
    /// Print the kinds only
    Crds,
}

#[derive(clap::Args)]
struct ManifestsArgs {
    /// Only the account and the rights for a kubeconfig that reaches the hosts of this namespace,
    /// to be applied where the hosts are
    #[arg(long, value_name = "NAMESPACE")]
    #[arg(conflicts_with_all = ["tenant", "tenants", "without_deployment"])]
    host_access: Option<String>,

    /// Only the manifests for this tenant's space, to be applied there
    #[arg(long, value_name = "NAME", value_parser = TenantName::parse)]
    #[arg(conflicts_with_all = ["tenants", "without_deployment"])]
    tenant: Option<TenantName>,

    /// For an operator that works in the spaces of all tenants of an Insula server too
    #[arg(long)]
    tenants: bool,

    /// Image of the operator, with the binary `insula`
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    operator_image: String,

    /// Service account of each namespace that the operator acts as there
    #[arg(long, value_name = "NAME", conflicts_with = "tenant")]
    service_account: Option<String>,

    /// Print no Deployment: the operator runs elsewhere, such as in `insula serve --operators metal3`
    #[arg(long)]
    without_deployment: bool,
}

/// Runs the operator until a stop signal, or prints its manifests.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Manifests(args)) => print(args),
        Some(Command::Crds) => output::print(&output::documents(&crds::all())?),
        None => life::run(operate(args)),
    }
}

/// Returns the addresses that API servers of hosts may have.
pub fn addresses(allow: Vec<Cidr>, deny: Vec<Cidr>) -> AddressRules {
    let mut rules = default_addresses();
    rules.allow.extend(allow);
    rules.deny.extend(deny);
    rules
}

async fn operate(args: Args) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let mut settings = Settings::new(process::name());
    settings.shell.leader_elect = args.life.leader_elect;
    args.scope.apply(&mut settings.shell);
    settings.addresses = addresses(args.hosts.allow_addresses, args.hosts.deny_addresses);
    settings.allow_insecure_hosts = args.hosts.allow_insecure_hosts;
    settings.fast_track = FastTrack::from_flag(args.hosts.fast_track);
    let life = args.life.begin(AGENT, &settings.shell.health).await?;
    let webhooks = args.webhooks.serve(&life.client, served()).await?;
    insula_metal3::operator::run(life.client.clone(), settings, stop.recv()).await;
    webhooks.end().await
}

fn served() -> Served {
    Served {
        service: webhooks::service(),
        router: webhooks::router(),
        targets: webhooks::targets(),
        certificate_secret: webhooks::CERTIFICATE_SECRET,
        tls13_only: false,
    }
}

fn print(args: ManifestsArgs) -> Result<(), Failure> {
    if let Some(namespace) = args.host_access {
        let text = output::documents(&manifests::host_access(&namespace))?;
        return output::print(&format!(
            "# For the API server of the hosts in namespace {namespace}.\n{text}"
        ));
    }
    if let Some(tenant) = args.tenant {
        let text = output::documents(&manifests::tenant_manifests())?;
        return output::print(&format!("# For the space of tenant {tenant}.\n{text}"));
    }
    let settings = manifests::Settings {
        image: (!args.without_deployment).then_some(args.operator_image),
        tenants: args.tenants,
        service_account: args.service_account,
    };
    output::print(&output::documents(&manifests(&settings))?)
}
