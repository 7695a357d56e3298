//! `insula tenant`.

mod access;
pub mod amounts;
mod audit;
mod create;
mod delete;
mod get;
mod kubeconfig;
pub mod limits;
mod list;
pub mod quota;
mod restore;
mod revocation;
mod revoke;
mod set;
mod show;
mod wait;

use clap::Subcommand;
use insula_core::{NotATenantName, Space, TenantName};
use serde_json::Value;

pub use self::show::Format;
use crate::client::{self, AGENT, Client};
use crate::failure::Failure;
use crate::kubeconfig::{Source, Trust};

/// The arguments of `insula tenant`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    source: Source,
}

#[derive(Subcommand)]
enum Command {
    /// Create a tenant, and wait until it is active
    Create(create::Args),
    /// Show all tenants
    List(list::Args),
    /// Show a tenant
    Get(get::Args),
    /// Change the quota and the limits of a tenant
    Set(set::Args),
    /// Create a kubeconfig for a user of a tenant
    Kubeconfig(kubeconfig::Args),
    /// Show who has or had credentials of a tenant, and when they were last used
    Access(access::Args),
    /// Revoke credentials of a tenant, at once and until they are restored
    Revoke(revoke::Args),
    /// Accept revoked credentials of a tenant again
    Restore(restore::Args),
    /// Show the audit events of a tenant
    Audit(audit::Args),
    /// Delete a tenant with everything in it, and wait until it is gone
    Delete(delete::Args),
}

/// The server, and how to connect to it.
struct Server {
    client: Client,
    /// Its URL.
    url: String,
    /// How its certificate is verified.
    trust: Trust,
}

impl Server {
    async fn connect(source: &Source) -> Result<Self, Failure> {
        let config = source.config(AGENT).await?;
        let (url, trust) = (client::url(&config), Trust::of(&config));
        let client = Client::new(config)?;
        Ok(Self { client, url, trust })
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new("cannot start", error))?;
    runtime.block_on(async {
        let server = Server::connect(&args.source).await?;
        match args.command {
            Command::Create(args) => create::run(&server, args).await,
            Command::List(args) => list::run(&server, args).await,
            Command::Get(args) => get::run(&server, args).await,
            Command::Set(args) => set::run(&server, args).await,
            Command::Kubeconfig(args) => kubeconfig::run(&server, args).await,
            Command::Access(args) => access::run(&server, args).await,
            Command::Revoke(args) => revoke::run(&server, args).await,
            Command::Restore(args) => restore::run(&server, args).await,
            Command::Audit(args) => audit::run(&server, args).await,
            Command::Delete(args) => delete::run(&server, args).await,
        }
    })
}

/// The path of all tenants.
const TENANTS: &str = "/api/v1/tenants";

/// Returns the path of a tenant.
fn path(name: &TenantName) -> String {
    format!("{TENANTS}/{name}")
}

fn tenant_name(text: &str) -> Result<TenantName, NotATenantName> {
    TenantName::parse(text)
}

fn tenant_or_system(text: &str) -> Result<Space, NotATenantName> {
    Space::parse(text)
}

/// Returns the conditions of an object.
fn conditions(object: &Value) -> Vec<Condition<'_>> {
    let conditions = object["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    conditions
        .map(|condition| Condition {
            kind: condition["type"].as_str().unwrap_or_default(),
            status: condition["status"].as_str().unwrap_or_default(),
            message: condition["message"].as_str().unwrap_or_default(),
        })
        .collect()
}

struct Condition<'a> {
    kind: &'a str,
    status: &'a str,
    message: &'a str,
}
