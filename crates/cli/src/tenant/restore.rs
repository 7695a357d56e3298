//! `insula tenant restore`.

use insula_core::Space;
use serde_json::Value;

use super::Server;
use super::revocation::{self, Target};
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant, or `system`
    #[arg(value_parser = revocation::space)]
    name: Space,

    #[command(flatten)]
    target: Target,
}

/// Deletes the revocations of exactly these credentials.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let space = &args.name;
    let selector = args.target.resolve(&server.client).await;
    let failed = |error: crate::client::ClientError| {
        error.to_failure(&format!("cannot restore credentials of tenant {space}"))
    };
    let selector = selector.map_err(failed)?;
    let what = selector.describe();
    let attempted = format!("cannot restore {what} of tenant {space}");
    let path = revocation::path(space);
    let failed = |error: crate::client::ClientError| error.to_failure(&attempted);
    let list = server.client.get(&path).await.map_err(failed)?;
    let revocations = list["items"].as_array().into_iter().flatten();
    let of_target = revocations.filter(|revocation| selector.is_of(revocation));
    let names: Vec<&str> = of_target
        .filter_map(|revocation| revocation["metadata"]["name"].as_str())
        .collect();
    if names.is_empty() {
        let hint = format!("insula tenant access {space}");
        return Err(Failure::new(&attempted, "it is not revoked").hint(hint));
    }
    for name in names {
        let deleted = server.client.delete(&format!("{path}/{name}")).await;
        let _: Value = deleted.map_err(failed)?;
    }
    output::print(&format!("{what} of tenant {space} restored\n"))
}
