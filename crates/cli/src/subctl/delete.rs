//! `subctl delete tenant`.

use std::time::Duration;

use insula_broker::names::TenantId;
use insula_broker::tenants::Tenants;

use super::CommandContext;
use crate::duration;
use crate::failure::Failure;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// ID of the tenant
    #[arg(value_name = "ID")]
    id: TenantId,

    /// How long to wait until it is gone
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
}

/// Deletes a tenant and waits until it is gone.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let tenants = Tenants::new(&cx.connection.client().await?);
    let deleted = tenants.delete(&args.id, args.timeout, &cx.progress);
    Ok(deleted.await?)
}
