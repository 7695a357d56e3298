//! `subctl get tenant`.

use std::time::Duration;

use insula_broker::names::TenantId;
use insula_broker::tenants::Tenants;

use super::CommandContext;
use super::file::FileArgs;
use super::show::{self, Format};
use crate::client;
use crate::failure::Failure;
use crate::{duration, output};

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// ID of the tenant
    #[arg(value_name = "ID")]
    id: TenantId,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,

    /// Also write its broker-info file, if it is provisioned
    #[arg(long, alias = "generate_subm")]
    generate_subm: bool,

    /// Rotate the token first, which invalidates files that were written earlier
    #[arg(long, requires = "generate_subm")]
    rotate_token: bool,

    #[command(flatten)]
    file: FileArgs,

    /// How long to wait for the new token
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    timeout: Duration,
}

/// Shows a tenant, and writes its file on request.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    if args.generate_subm {
        args.file.check()?;
    }
    let config = cx.connection.config().await?;
    let context = client::url(&config);
    let tenants = Tenants::new(&client::connect(config)?);
    let tenant = tenants.get(&args.id).await?;
    output::print(&show::one(&tenant, args.output)?)?;
    if !args.generate_subm {
        return Ok(());
    }
    if args.rotate_token {
        tenants.rotate(&tenant, args.timeout, &cx.progress).await?;
    }
    let url = args.file.url(&context, &cx.progress);
    let info = tenants.info(&tenant, &url).await?;
    args.file.write(&args.id, &info, &cx.progress)
}
