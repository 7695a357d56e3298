//! `insula tenant create`.

use std::path::PathBuf;
use std::time::Duration;

use insula_core::TenantName;
use serde_json::{Value, json};

use super::kubeconfig::KubeconfigRequest;
use super::limits::Limits;
use super::quota::Quota;
use super::wait::{TimedOut, Wait};
use super::{Server, TENANTS, kubeconfig, path, tenant_name};
use crate::failure::Failure;
use crate::output;
use crate::private_file;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant
    #[arg(value_parser = tenant_name)]
    name: TenantName,

    /// Quota of the tenant, such as `objects=1000,bytes=100Mi,namespaces=10`
    #[arg(long, value_name = "NAME=AMOUNT,...", value_parser = Quota::parse)]
    quota: Option<Quota>,

    /// Limits of the tenant, such as `watches=100,requestsPerSecond=50`
    #[arg(long, value_name = "NAME=AMOUNT,...", value_parser = Limits::parse)]
    limits: Option<Limits>,

    /// Also write a kubeconfig for its user `admin`
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,

    /// With --kubeconfig-out: lifetime of the credential
    #[arg(long, value_name = "DURATION", default_value = kubeconfig::DEFAULT_LIFETIME)]
    #[arg(value_parser = kubeconfig::expiration, requires = "kubeconfig_out")]
    expires: Duration,
}

/// A healthy server creates a tenant in one transaction; this is for a busy one.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a tenant, waits until it is active, and prints its name.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let name = &args.name;
    let attempted = format!("cannot create tenant {name}");
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Tenant",
        "metadata": { "name": name.as_str() },
    });
    if let Some(quota) = &args.quota {
        object["spec"]["quota"] = quota.value();
    }
    if let Some(limits) = &args.limits {
        object["spec"]["limits"] = limits.value();
    }
    let created = server.client.post(TENANTS, &object).await;
    let created = created.map_err(|error| error.to_failure(&attempted))?;
    wait_until_active(server, name, created, &attempted).await?;
    if let Some(file) = &args.kubeconfig_out {
        let requested = KubeconfigRequest::admin_of(name, args.expires);
        let kubeconfig = kubeconfig::create(server, &requested).await?;
        private_file::write(file, &kubeconfig.to_yaml(None)?)?;
        kubeconfig.print_expiration();
    }
    output::print(&format!("{name}\n"))
}

async fn wait_until_active(
    server: &Server,
    name: &TenantName,
    mut tenant: Value,
    attempted: &str,
) -> Result<(), Failure> {
    let mut wait = Wait::with_timeout(TIMEOUT);
    loop {
        match tenant["status"]["phase"].as_str() {
            Some("Active") => return Ok(()),
            Some("Terminating") => {
                return Err(Failure::new(attempted, "it is being deleted"));
            }
            _ => {}
        }
        let waiting = wait.pause(&format!("tenant {name} to be active")).await;
        waiting.map_err(|TimedOut| {
            Failure::new(attempted, "it is not active after a minute")
                .hint(format!("insula tenant get {name} -o yaml"))
        })?;
        let looked = server.client.get(&path(name)).await;
        tenant = looked.map_err(|error| error.to_failure(attempted))?;
    }
}
