//! `insula tenant get`.

use insula_core::TenantName;

use super::show::{self, Format};
use super::{Server, path, tenant_name};
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant
    #[arg(value_parser = tenant_name)]
    name: TenantName,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// Shows a tenant.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let attempted = format!("cannot get tenant {}", args.name);
    let tenant = server.client.get(&path(&args.name)).await;
    let tenant = tenant.map_err(|error| error.to_failure(&attempted))?;
    output::print(&show::one(&tenant, args.output)?)
}
