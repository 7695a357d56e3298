//! `insula operator vsphere`.

mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use insula_core::TenantName;
use insula_dialer::{AddressRules, Cidr};
use insula_identity::endpoint::AllowedEndpoints;
use insula_operator::provider;
use insula_vsphere::manifests::{self, CREDENTIALS_FILE, manifests};
use insula_vsphere::operator::{
    AGENT, Settings, StaticCredentials, credentials_file, default_addresses,
};
use insula_vsphere::{crds, webhooks};
use tokio::sync::watch;

pub use self::server::AllowedServer;
use super::life::{self, LifeArgs};
use super::scope::ScopeArgs;
use super::webhooks::{Served, WebhookArgs};
use crate::certificate_file::certificates;
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
    work: WorkArgs,

    #[command(flatten)]
    given: GivenArgs,

    #[command(flatten)]
    webhooks: WebhookArgs,
}

/// The work of the operator.
#[derive(clap::Args)]
struct WorkArgs {
    /// Source of changes; there is only one
    #[arg(long, value_name = "MODE", default_value = "watchers", value_parser = mode)]
    mode: Mode,

    /// Timeout of a single request to a vCenter
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = crate::duration::parse)]
    vcenter_timeout: Duration,

    /// File with additional CAs of vCenters, in PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// The credentials for clusters without an identity.
#[derive(clap::Args)]
struct GivenArgs {
    /// File with username, password and servers for clusters without an identity (default:
    /// /etc/capv/credentials.yaml)
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,

    /// vCenter that credentials without a `server` key may be sent to: HOST, HOST=THUMBPRINT,
    /// or HOST=insecure to skip verification (repeatable)
    #[arg(long = "allowed-server", value_name = "SERVER", value_parser = AllowedServer::parse)]
    allowed_servers: Vec<AllowedServer>,

    /// Send Secrets in namespaces only to the vCenters of --allowed-server as well
    #[arg(long, requires = "allowed_servers")]
    only_allowed_servers: bool,

    /// Addresses around the operator that vCenters of teams may have, besides private networks
    /// (default: none; vCenters of --allowed-server may have any)
    #[arg(long = "allow-address", value_name = "CIDR", value_delimiter = ',')]
    allow_addresses: Vec<Cidr>,

    /// Addresses that vCenters of teams may not have; takes precedence over --allow-address
    #[arg(long = "deny-address", value_name = "CIDR", value_delimiter = ',')]
    deny_addresses: Vec<Cidr>,

    /// Tenants whose clusters may use the credentials file too (default: none)
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "tenants", value_parser = TenantName::parse)]
    static_credentials_tenants: Vec<TenantName>,
}

/// The source of changes.
#[derive(Clone, Copy)]
struct Mode;

#[derive(Subcommand)]
enum Command {
    /// Print the manifests to install it: kinds, policies, RBAC roles and Deployment
    Manifests(ManifestsArgs),
    /// Print the kinds only
    Crds,
}

#[derive(clap::Args)]
struct ManifestsArgs {
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

    /// Print no Deployment: the operator runs elsewhere, such as in `insula serve --operators vsphere`
    #[arg(long)]
    without_deployment: bool,
}

/// The interval at which the credentials file is checked.
pub const LOOK: Duration = Duration::from_secs(1);

/// Runs the operator until a stop signal, or prints its manifests.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Manifests(args)) => print(args),
        Some(Command::Crds) => output::print(&output::documents(&crds::all())?),
        None => life::run(operate(args)),
    }
}

/// Follows the credentials file.
pub fn follow(file: &Path, bound: &AllowedEndpoints) -> watch::Receiver<Option<StaticCredentials>> {
    let (say, given) = watch::channel(None);
    let mut file = credentials_file(file, bound.clone());
    // Before any decision: no cluster is refused because the file was not read yet.
    file.poll(&say);
    tokio::spawn(file.watch(say, LOOK));
    given
}

/// Returns the vCenters that credentials without a server may be sent to.
pub fn bound(servers: Vec<AllowedServer>) -> AllowedEndpoints {
    match servers.is_empty() {
        true => AllowedEndpoints::Nowhere,
        false => AllowedEndpoints::Only(servers.into_iter().map(AllowedServer::into_end).collect()),
    }
}

/// Returns the addresses that vCenters of teams may have.
pub fn addresses(allow: Vec<Cidr>, deny: Vec<Cidr>) -> AddressRules {
    let mut rules = default_addresses();
    rules.allow.extend(allow);
    rules.deny.extend(deny);
    rules
}

async fn operate(args: Args) -> Result<(), Failure> {
    let Args {
        life,
        scope,
        work,
        given,
        ..
    } = args;
    let mut stop = Stop::listen()?;
    let default_bound = bound(given.allowed_servers);
    let file = given.credentials_file.as_deref();
    let file = file.unwrap_or(Path::new(CREDENTIALS_FILE));
    let extra_roots = work.ca_file.as_deref();
    let extra_roots = extra_roots.map_or(Ok(Vec::new()), certificates)?;
    let defaults = Settings::new(process::name(), follow(file, &default_bound));
    let mut settings = Settings {
        shell: provider::Settings {
            leader_elect: life.leader_elect,
            only_allowed_servers: given.only_allowed_servers,
            static_credentials_for: names(&given.static_credentials_tenants),
            default_bound,
            ..defaults.shell
        },
        addresses: addresses(given.allow_addresses, given.deny_addresses),
        extra_roots: extra_roots.iter().map(|der| der.to_vec()).collect(),
        ..defaults
    };
    scope.apply(&mut settings.shell);
    settings.shell.sessions.request_timeout = work.vcenter_timeout;
    let life = life.begin(AGENT, &settings.shell.health).await?;
    let webhooks = args.webhooks.serve(&life.client, served()).await?;
    insula_vsphere::operator::run(life.client.clone(), settings, stop.recv()).await;
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

/// Returns the names of tenants as text.
pub fn names(tenants: &[TenantName]) -> BTreeSet<String> {
    tenants.iter().map(ToString::to_string).collect()
}

fn print(args: ManifestsArgs) -> Result<(), Failure> {
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

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "watchers" => Ok(Mode),
        _ => Err("webhooks convert versions only, see --webhook-addr: \
            `watchers` is the only mode"
            .to_owned()),
    }
}
