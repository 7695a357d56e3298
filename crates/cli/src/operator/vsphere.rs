//! `insula operator vsphere`.

mod server;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use insula_core::TenantName;
use insula_identity::endpoint::Bound;
use insula_vsphere::crds;
use insula_vsphere::manifests::{self, CREDENTIALS_FILE, manifests};
use insula_vsphere::operator::{AGENT, Given, Settings, Static};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::watch;

pub use self::server::AllowedServer;
use super::life::{self, LifeArgs};
use crate::failure::Failure;
use crate::output;
use crate::process;
use crate::stop::Stop;
use crate::subctl::axon::IMAGE;

/// What it can be told.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    life: LifeArgs,

    #[command(flatten)]
    work: WorkArgs,

    #[command(flatten)]
    given: GivenArgs,
}

/// What it works on.
#[derive(clap::Args)]
struct WorkArgs {
    /// Work in all tenants' spaces of an Insula too
    #[arg(long)]
    tenants: bool,

    /// Work only in these namespaces; default: all
    #[arg(long, value_name = "NAME", value_delimiter = ',', alias = "namespace")]
    namespaces: Vec<String>,

    /// Work only on what has this value of the label cluster.x-k8s.io/watch-filter
    #[arg(long, value_name = "VALUE")]
    watch_filter: Option<String>,

    /// How it learns of changes; there is one way
    #[arg(long, value_name = "MODE", default_value = "watchers", value_parser = mode)]
    mode: Mode,

    /// On how many objects it works at the same time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = at_least_one)]
    concurrency: usize,

    /// How long one request to a vCenter may take
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = crate::duration::parse)]
    vcenter_timeout: Duration,

    /// CAs to recognise vCenters by, in PEM, beside the machine's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// What it was given for those who have nothing of their own.
#[derive(clap::Args)]
struct GivenArgs {
    /// A file with username, password and servers, for clusters that name no identity; default:
    /// /etc/capv/credentials.yaml
    #[arg(long, value_name = "FILE")]
    credentials_file: Option<PathBuf>,

    /// A vCenter that credentials may be sent to which do not say where themselves: HOST,
    /// HOST=THUMBPRINT, or HOST=insecure to believe whoever answers; may be repeated
    #[arg(long = "allowed-server", value_name = "SERVER", value_parser = AllowedServer::parse)]
    allowed_servers: Vec<AllowedServer>,

    /// Send Secrets of namespaces too only to the vCenters of --allowed-server
    #[arg(long, requires = "allowed_servers")]
    only_allowed_servers: bool,

    /// Tenants whose clusters may use the credentials file too; default: none
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "tenants", value_parser = TenantName::parse)]
    static_credentials_tenants: Vec<TenantName>,
}

/// How it learns of changes.
#[derive(Clone, Copy)]
struct Mode;

#[derive(Subcommand)]
enum Command {
    /// Print what to install it with: kinds, policies, rights and Deployment
    Manifests(ManifestsArgs),
    /// Print the kinds alone
    Crds,
}

#[derive(clap::Args)]
struct ManifestsArgs {
    /// Only what this tenant's space needs, to be applied there
    #[arg(long, value_name = "NAME", value_parser = TenantName::parse)]
    #[arg(conflicts_with_all = ["tenants", "without_deployment"])]
    tenant: Option<TenantName>,

    /// For an operator that works in all tenants' spaces of an Insula too
    #[arg(long)]
    tenants: bool,

    /// The image that the operator runs from: one with the binary `insula`
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    operator_image: String,

    /// No Deployment: the operator runs elsewhere, as in `insula serve --operators vsphere`
    #[arg(long)]
    without_deployment: bool,
}

/// How soon a change of the credentials file is seen.
pub const LOOK: Duration = Duration::from_secs(1);

/// Runs the operator until it is told to stop, or prints what it needs.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Manifests(args)) => print(args),
        Some(Command::Crds) => output::print(&output::documents(&crds::all())?),
        None => life::run(operate(args.life, args.work, args.given)),
    }
}

/// Where the credentials file is, if it is to be looked for.
pub fn follow(file: &Path, bound: &Bound) -> watch::Receiver<Option<Static>> {
    let (say, given) = watch::channel(None);
    let mut file = Given::new(file, bound.clone());
    // Before anything is decided: nobody is refused because the file was not read yet.
    file.look(&say);
    tokio::spawn(file.follow(say, LOOK));
    given
}

/// Where credentials may be sent that do not say where themselves.
pub fn bound(servers: Vec<AllowedServer>) -> Bound {
    match servers.is_empty() {
        true => Bound::Nowhere,
        false => Bound::Only(servers.into_iter().map(AllowedServer::into_end).collect()),
    }
}

async fn operate(life: LifeArgs, work: WorkArgs, given: GivenArgs) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let default_bound = bound(given.allowed_servers);
    let file = given.credentials_file.as_deref();
    let file = file.unwrap_or(Path::new(CREDENTIALS_FILE));
    let mut settings = Settings {
        leader_elect: life.leader_elect,
        concurrency: work.concurrency,
        vcenter_patience: work.vcenter_timeout,
        tenants: work.tenants,
        namespaces: work.namespaces.into_iter().collect(),
        watch_filter: work.watch_filter,
        only_allowed_servers: given.only_allowed_servers,
        given_for: names(&given.static_credentials_tenants),
        roots: work
            .ca_file
            .as_deref()
            .map_or(Ok(Vec::new()), authorities)?,
        ..Settings::new(process::name(), follow(file, &default_bound))
    };
    settings.sessions.patience = work.vcenter_timeout;
    settings.default_bound = default_bound;
    let life = life.begin(AGENT, &settings.health).await?;
    insula_vsphere::operator::run(life.client.clone(), settings, stop.told()).await;
    Ok(())
}

fn names(tenants: &[TenantName]) -> BTreeSet<String> {
    tenants.iter().map(ToString::to_string).collect()
}

fn authorities(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let attempted = format!("cannot read the CAs in {}", file.display());
    let read =
        CertificateDer::pem_file_iter(file).map_err(|error| Failure::new(&attempted, error))?;
    let read: Result<Vec<_>, _> = read.map(|one| one.map(|one| one.to_vec())).collect();
    match read {
        Ok(all) if all.is_empty() => Err(Failure::new(&attempted, "there is none in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(Failure::new(&attempted, error)),
    }
}

fn print(args: ManifestsArgs) -> Result<(), Failure> {
    if let Some(tenant) = args.tenant {
        let text = output::documents(&manifests::of_tenant())?;
        return output::print(&format!("# For the space of tenant {tenant}.\n{text}"));
    }
    let settings = manifests::Settings {
        image: (!args.without_deployment).then_some(args.operator_image),
        tenants: args.tenants,
    };
    output::print(&output::documents(&manifests(&settings))?)
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "watchers" => Ok(Mode),
        _ => Err(
            "there are no webhooks: rules in its definitions and policies take their place, \
            so that `watchers` is the only mode"
                .to_owned(),
        ),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| "it is a number from 1 on".to_owned())
}
