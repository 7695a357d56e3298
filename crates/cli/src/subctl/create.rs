//! `subctl create tenant`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::error::ErrorKind;
use insula_broker::deploy::broker::{self, BrokerSettings};
use insula_broker::names::{InvalidTenantId, TenantId};
use insula_broker::quota::{self, Amounts};
use insula_broker::report::Report;
use insula_broker::tenant::{Isolation, TenantSpec};
use insula_broker::tenants::Tenants;

use super::deploy::broker::{BrokerArgs, report_deployed};
use super::file::FileArgs;
use super::subject::{self, Subject};
use super::{CommandContext, usage};
use crate::client;
use crate::failure::Failure;
use crate::{duration, output};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// ID of the tenant (default: generated)
    #[arg(value_name = "ID", value_parser = id)]
    id: Option<RequestedId>,

    /// How the tenant is isolated from others
    #[arg(long, value_enum, default_value = "namespace")]
    isolation: IsolationArg,

    /// Name for display
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// Owner of the tenant, as a note
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,

    /// Additional administrator of its broker: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME (repeatable)
    #[arg(long = "admin", value_name = "SUBJECT", value_parser = subject::parse)]
    admins: Vec<Subject>,

    /// Numbers of objects that its namespace may have, such as count/secrets=100,count/configmaps=20 (default: see the documentation)
    #[arg(long, value_name = "NAME=NUMBER,...", value_parser = quota::parse)]
    quota: Option<Amounts>,

    #[command(flatten)]
    file: FileArgs,

    /// How long to wait until it is provisioned
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,

    /// Also deploy its broker, so that the broker-info file is complete and clusters can join with it
    #[arg(long)]
    deploy_broker: bool,

    #[command(flatten, next_help_heading = "Broker, with --deploy-broker")]
    broker: BrokerArgs,
}

/// A given ID, or the request to generate one.
#[derive(Clone)]
enum RequestedId {
    Given(TenantId),
    Generated,
}

#[derive(Clone, Copy, ValueEnum)]
enum IsolationArg {
    /// A namespace, with permissions in that namespace only
    Namespace,
    /// A space of an Insula server
    Space,
}

/// Creates a tenant, prints its ID, waits until it is provisioned, and writes its file.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    if let Some(flag) = args.broker.given().filter(|_| !args.deploy_broker) {
        let message = format!("{flag} is about the broker: it needs --deploy-broker");
        usage(ErrorKind::MissingRequiredArgument, &message);
    }
    args.file.check()?;
    // Validated before anything is created; the file is named at the end.
    let broker = args.broker.settings(PathBuf::new())?;
    let config = cx.connection.config().await?;
    let context = client::url(&config);
    let tenants = Tenants::new(&client::connect(config)?);
    let (id, is_known) = match args.id {
        Some(RequestedId::Given(id)) => (id, true),
        Some(RequestedId::Generated) | None => (TenantId::random(), false),
    };
    if !is_known {
        // Before the request: if the response is lost, the ID is still known.
        output::print(&format!("{id}\n"))?;
    }
    let spec = TenantSpec {
        display_name: args.display_name,
        owner: args.owner,
        admins: (!args.admins.is_empty()).then_some(args.admins),
        isolation: match args.isolation {
            IsolationArg::Namespace => None,
            IsolationArg::Space => Some(Isolation::Space),
        },
        quota: args.quota,
    };
    let created = tenants.create(&id, spec).await?;
    cx.progress.done(&format!("Created tenant {id}"));
    if is_known {
        // Before the wait, and only if the tenant is the caller's.
        output::print(&format!("{id}\n"))?;
    }
    let tenant = tenants
        .await_provisioned(&created, args.timeout, &cx.progress)
        .await?;
    let url = args.file.url(&context, &cx.progress);
    let info = tenants.info(&tenant, &url).await?;
    if !args.deploy_broker {
        return args.file.write(&id, &info, &cx.progress);
    }
    let settings = BrokerSettings {
        broker_url: Some(info.url.clone()),
        output: args.file.path(&id),
        ..broker
    };
    // The tenant's own credentials, at the address that this command uses.
    let reachable = tenants.info(&tenant, &context).await?;
    match broker::deploy_with(&reachable, &settings, &cx.progress).await {
        Ok(deployed) => {
            report_deployed(&deployed, &cx.progress);
            Ok(())
        }
        Err(error) => {
            // The tenant exists: its file is not lost.
            args.file.write(&id, &info, &cx.progress)?;
            Err(error.into())
        }
    }
}

/// Parses an ID; an empty one means that it is generated.
fn id(text: &str) -> Result<RequestedId, InvalidTenantId> {
    match text {
        "" => Ok(RequestedId::Generated),
        text => text.parse().map(RequestedId::Given),
    }
}
