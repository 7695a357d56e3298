//! `subctl create tenant`.

use std::time::Duration;

use clap::ValueEnum;
use insula_broker::names::{NotAnId, TenantId};
use insula_broker::report::Report;
use insula_broker::tenant::{Isolation, TenantSpec};
use insula_broker::tenants::Tenants;

use super::Scene;
use super::connection::{self, client};
use super::file::FileArgs;
use super::subject::{self, Subject};
use crate::failure::Failure;
use crate::{duration, output};

/// What it can be told.
#[derive(clap::Args)]
pub struct Args {
    /// The tenant's ID; default: one that nobody has
    #[arg(value_name = "ID", value_parser = id)]
    id: Option<Chosen>,

    /// What keeps it apart from the others
    #[arg(long, value_enum, default_value = "namespace")]
    isolation: How,

    /// What people call it
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,

    /// Whose it is; a remark
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,

    /// Who else administers its broker: user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME; may be repeated
    #[arg(long = "admin", value_name = "WHO", value_parser = subject::parse)]
    admins: Vec<Subject>,

    #[command(flatten)]
    file: FileArgs,

    /// How long to wait until it is provisioned
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
}

/// An ID, or the wish for one.
#[derive(Clone)]
enum Chosen {
    This(TenantId),
    Any,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// A namespace, and rights in it and nowhere else
    Namespace,
    /// A whole space of an Insula
    Space,
}

/// Creates a tenant, prints its ID, waits until it is provisioned, and writes its file.
pub async fn run(scene: &Scene, args: Args) -> Result<(), Failure> {
    args.file.check()?;
    let config = scene.connection.config().await?;
    let context = connection::url(&config);
    let tenants = Tenants::new(&client(config)?);
    let (id, is_known) = match args.id {
        Some(Chosen::This(id)) => (id, true),
        Some(Chosen::Any) | None => (TenantId::random(), false),
    };
    if !is_known {
        // Before it is asked for: should the answer be lost, there is something to look for.
        output::print(&format!("{id}\n"))?;
    }
    let spec = TenantSpec {
        display_name: args.display_name,
        owner: args.owner,
        admins: (!args.admins.is_empty()).then_some(args.admins),
        isolation: match args.isolation {
            How::Namespace => None,
            How::Space => Some(Isolation::Space),
        },
    };
    let created = tenants.create(&id, spec).await?;
    scene.progress.done(&format!("Created tenant {id}"));
    if is_known {
        // Before the waiting, and only if it is the caller's.
        output::print(&format!("{id}\n"))?;
    }
    let tenant = tenants
        .await_provisioned(&created, args.timeout, &scene.progress)
        .await?;
    let url = args.file.url(&context, &scene.progress);
    let info = tenants.info(&tenant, &url).await?;
    args.file.write(&id, &info, &scene.progress)
}

/// The proposal's "empty" is none.
fn id(text: &str) -> Result<Chosen, NotAnId> {
    match text {
        "" => Ok(Chosen::Any),
        text => text.parse().map(Chosen::This),
    }
}
