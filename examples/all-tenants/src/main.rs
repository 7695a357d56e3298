//! An example: a controller that serves all tenants with one watch.
//!
//! A *Site* is a host and a text. The system publishes the kind, so that every tenant has
//! it. For each Site the controller maintains a page in the tenant's space, and a claim on the
//! host in the system's, because two tenants must not have the same host: a controller inside
//! a single tenant could not check that.
//!
//! | module | contents |
//! |---|---|
//! | [`spaces`] | clients for one space and for all of them, over one connection pool |
//! | [`place`] | the tenant of an object, and how equal names of two tenants are distinguished |
//! | [`site`] | the kind |
//! | [`claim`] | claims of hosts |
//! | [`reconcile`] | reconciliation of one Site |
//! | [`controller`] | the watches, and the reconciliations that they trigger |

mod claim;
mod controller;
mod place;
mod reconcile;
mod site;
mod spaces;

use anyhow::Context as _;
use kube::Client;
use tracing_subscriber::EnvFilter;

use crate::spaces::Spaces;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .init();
    let client = Client::try_default()
        .await
        .context("cannot configure a client")?;
    tokio::select! {
        () = controller::run(Spaces::new(client)) => Ok(()),
        ended = tokio::signal::ctrl_c() => ended.context("cannot wait for a signal"),
    }
}
