//! `subctl show brokers`.

use insula_broker::show;

use super::CommandContext;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Namespace of the broker (default: all namespaces, and the spaces of tenants)
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

/// Lists the brokers of a cluster.
pub async fn run(cx: &CommandContext, args: Args) -> Result<(), Failure> {
    let client = cx.connection.client().await?;
    let rows = show::brokers(&client, args.namespace.as_deref(), &cx.progress).await?;
    output::print(&show::table(&rows))
}
