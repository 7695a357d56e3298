//! `subctl list tenants`.

use insula_broker::tenants::Tenants;

use super::CommandContext;
use super::show::{self, Format};
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// Lists all tenants.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let tenants = Tenants::new(&cx.connection.client().await?);
    let all = tenants.list().await?;
    output::print(&show::many(&all, args.output)?)
}
