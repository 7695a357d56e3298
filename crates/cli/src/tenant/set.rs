//! `insula tenant set`.

use insula_core::TenantName;
use serde_json::Value;

use super::limits::Limits;
use super::quota::Quota;
use super::{Server, path, tenant_name};
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct Args {
    /// Name of the tenant
    #[arg(value_parser = tenant_name)]
    name: TenantName,

    /// Quota to change, such as `objects=1000,bytes=1Gi`; `none` is unlimited, `default` is the server's
    #[arg(long, value_name = "NAME=AMOUNT,...", value_parser = Quota::parse, group = "change")]
    quota: Option<Quota>,

    /// Limits to change, such as `watches=100,requestsPerSecond=50`; `default` is the server's
    #[arg(long, value_name = "NAME=AMOUNT,...", value_parser = Limits::parse, group = "change")]
    limits: Option<Limits>,
}

/// How often a change is repeated that met another one.
const ATTEMPTS: usize = 5;

/// Changes the quota and the limits of a tenant, and prints its name.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let name = &args.name;
    let attempted = format!("cannot change tenant {name}");
    let mut attempts = 1;
    loop {
        let tenant = server.client.get(&path(name)).await;
        let mut tenant = tenant.map_err(|error| error.to_failure(&attempted))?;
        change(&mut tenant, &args);
        match server.client.put(&path(name), &tenant).await {
            Ok(_) => return output::print(&format!("{name}\n")),
            Err(error) if error.is_conflict() && attempts < ATTEMPTS => attempts += 1,
            Err(error) => return Err(error.to_failure(&attempted)),
        }
    }
}

fn change(tenant: &mut Value, args: &Args) {
    let spec = &mut tenant["spec"];
    if let Some(quota) = &args.quota {
        spec["quota"] = quota.apply_to(&spec["quota"]);
    }
    if let Some(limits) = &args.limits {
        spec["limits"] = limits.apply_to(&spec["limits"]);
    }
}
