//! `insula tenant delete`.

use std::time::Duration;

use insula_core::TenantName;
use serde_json::Value;

use super::wait::{TimedOut, Wait};
use super::{Server, conditions, path, tenant_name};
use crate::duration;
use crate::failure::Failure;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant
    #[arg(value_parser = tenant_name)]
    name: TenantName,

    /// How long to wait until it is gone
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    timeout: Duration,
}

/// Deletes a tenant and waits until it is gone.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let name = &args.name;
    let attempted = format!("cannot delete tenant {name}");
    let path = path(name);
    // Exactly this tenant: another of the same name may follow.
    let tenant = server.client.get(&path).await;
    let tenant = tenant.map_err(|error| error.to_failure(&attempted))?;
    let deleted = server.client.delete(&path).await;
    match deleted {
        Err(error) if !error.is_not_found() => return Err(error.to_failure(&attempted)),
        _ => {}
    }
    let mut wait = Wait::with_timeout(args.timeout);
    loop {
        let left = match server.client.get(&path).await {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.to_failure(&attempted)),
            Ok(left) => left,
        };
        if left["metadata"]["uid"] != tenant["metadata"]["uid"] {
            return Ok(());
        }
        let remains = remains(&left);
        let waiting = wait
            .pause(&format!("tenant {name} to be gone{remains}"))
            .await;
        waiting.map_err(|TimedOut| timed_out(name, &args.timeout, &remains))?;
    }
}

fn timed_out(name: &TenantName, timeout: &Duration, remains: &str) -> Failure {
    let seconds = timeout.as_secs();
    Failure::message(format!(
        "tenant {name} is not gone after {seconds}s{remains}"
    ))
    .hint("the deletion continues; wait again with `insula tenant delete`, and a longer --timeout")
}

/// Returns what blocks the deletion, as reported by the server.
fn remains(tenant: &Value) -> String {
    let remains = conditions(tenant).into_iter();
    let remains = remains.filter(|condition| condition.status == "True");
    let remains: Vec<_> = remains
        .map(|condition| match condition.message {
            "" => condition.kind.to_owned(),
            message => format!("{}: {message}", condition.kind),
        })
        .collect();
    match remains[..] {
        [] => String::new(),
        _ => format!(" ({})", remains.join("; ")),
    }
}
