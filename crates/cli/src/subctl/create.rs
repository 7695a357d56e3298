//! `subctl create tenant`.

use std::time::Duration;

use clap::ValueEnum;
use insula_broker::names::{InvalidTenantId, TenantId};
use insula_broker::report::Report;
use insula_broker::tenant::{Isolation, TenantSpec};
use insula_broker::tenants::Tenants;

use super::CommandContext;
use super::file::FileArgs;
use super::subject::{self, Subject};
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

    #[command(flatten)]
    file: FileArgs,

    /// How long to wait until it is provisioned
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
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
    args.file.check()?;
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
    args.file.write(&id, &info, &cx.progress)
}

/// Parses an ID; an empty one means that it is generated.
fn id(text: &str) -> Result<RequestedId, InvalidTenantId> {
    match text {
        "" => Ok(RequestedId::Generated),
        text => text.parse().map(RequestedId::Given),
    }
}
