//! `insula operator azure`.

mod manifests;
mod release;
mod storage;
mod upgrade;
mod webhooks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use insula_azure::names::AGENT;
use insula_azure::operator::{NotStarted, Operator, run_reloading};
use insula_azure::settings::Settings;
use insula_azure::settings_secret::{self, SettingsSecret};
use insula_dialer::{AddressRules, Cidr};
use insula_operator::health::Health;
use kube::Client;
use tokio::sync::watch;

use self::manifests::ManifestsArgs;
use self::webhooks::WebhookArgs;
pub use self::webhooks::router;
use super::life::{self, LifeArgs};
use crate::certificate_file::certificates;
use crate::failure::Failure;
use crate::process;
use crate::stop::Stop;

/// The arguments. Settings of Azure Service Operator are environment variables, and keys of the
/// Secret azureoperatorsettings in the operator's namespace.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    life: LifeArgs,

    /// Work in the spaces of all tenants of an Insula server too
    #[arg(long)]
    tenants: bool,

    #[command(flatten)]
    azure: AzureArgs,

    #[command(flatten)]
    webhooks: WebhookArgs,
}

/// The endpoints of Azure.
#[derive(clap::Args)]
struct AzureArgs {
    /// File with additional CAs of Azure endpoints, in PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Addresses around the operator that endpoints in Secrets of namespaces may have, with
    /// ALLOW_MULTI_ENV_MANAGEMENT, separated by commas (default: none)
    #[arg(long = "allow-address", value_name = "CIDR", value_delimiter = ',')]
    allow_addresses: Vec<Cidr>,

    /// Addresses that endpoints in Secrets of namespaces may not have, separated by commas; takes
    /// precedence over --allow-address
    #[arg(long = "deny-address", value_name = "CIDR", value_delimiter = ',')]
    deny_addresses: Vec<Cidr>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the manifests to install it: kinds, webhooks, RBAC roles and Deployment
    Manifests(ManifestsArgs),
    /// Print the kinds only
    Crds,
    /// Show what can be upgraded or removed, and what holds it back
    Upgrade(upgrade::Args),
    /// Migrate stored objects to the version that is stored now
    Storage(storage::Args),
    /// Release the Secrets that an operator held before it was removed, so that they can be deleted
    Release(release::Args),
}

/// The exit code of an operator with definitions that are older than itself.
const OUTDATED: u8 = 78;

/// Runs the operator until a stop signal, or prints its manifests.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Some(Command::Manifests(args)) => args.print(),
        Some(Command::Crds) => manifests::print_crds(),
        Some(Command::Upgrade(args)) => upgrade::run(args),
        Some(Command::Storage(args)) => storage::run(args),
        Some(Command::Release(args)) => release::run(args),
        None => life::run(operate(args)),
    }
}

/// Returns the addresses that endpoints in Secrets of namespaces may have.
pub fn addresses(allow: Vec<Cidr>, deny: Vec<Cidr>) -> AddressRules {
    let mut rules = AddressRules::default();
    rules.allow.extend(allow);
    rules.deny.extend(deny);
    rules
}

/// Converts the failure of a start, with the exit code of outdated definitions.
fn not_started(error: &NotStarted) -> Failure {
    let failure = Failure::message(error.to_string());
    match error {
        NotStarted::Outdated(_) => failure.code(OUTDATED),
        _ => failure,
    }
}

async fn operate(args: Args) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let authorities = args.azure.ca_file.as_deref();
    let authorities = authorities.map_or(Ok(Vec::new()), certificates)?;
    let health: Arc<Health> = Arc::default();
    let leader_elect = args.life.leader_elect;
    let life = args.life.begin(AGENT, &health).await?;
    let (settings, source) = read_settings(&life.client).await?;
    let mode = settings.mode;
    let webhooks = match mode.has_webhooks() {
        true => Some(args.webhooks.serve(&life.client, &settings).await?),
        false => None,
    };
    if mode.has_watchers() {
        let (sender, settings) = watch::channel(settings);
        let following = source.map(|source| tokio::spawn(source.follow(sender)));
        let build = |settings: Settings| {
            let mut operator = Operator::new(process::name(), settings);
            operator.shell.leader_elect = leader_elect;
            operator.shell.tenants = args.tenants;
            operator.shell.health = Arc::clone(&health);
            operator.addresses = addresses(
                args.azure.allow_addresses.clone(),
                args.azure.deny_addresses.clone(),
            );
            operator.authorities = authorities.iter().map(|der| der.to_vec()).collect();
            operator
        };
        let ended = run_reloading(life.client.clone(), settings, build, stop.recv()).await;
        following.inspect(tokio::task::JoinHandle::abort);
        ended.map_err(|error| not_started(&error))?;
    } else {
        stop.recv().await;
    }
    match webhooks {
        Some(webhooks) => webhooks.end().await,
        None => Ok(()),
    }
}

/// Reads the settings of the environment, and of the Secret unless only webhooks are served.
async fn read_settings(client: &Client) -> Result<(Settings, Option<SettingsSecret>), Failure> {
    let environment = environment();
    let (source, parsed) = match settings_secret::webhooks_only(&environment) {
        Some(parsed) => (None, parsed),
        None => {
            let opened = SettingsSecret::open(client, environment).await;
            let (source, parsed) = opened.map_err(|error| Failure::message(error.to_string()))?;
            (Some(source), parsed)
        }
    };
    settings_secret::announce(&parsed);
    Ok((parsed.settings, source))
}

/// Returns the variables of the environment that are texts.
fn environment() -> BTreeMap<String, String> {
    let all = std::env::vars_os();
    let texts =
        all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.collect()
}
