//! An example: a controller that serves all tenants with one watch.
//!
//! A *Site* is a host and a text. The system publishes the kind, so that every tenant has
//! it. For each Site the controller keeps a page in the tenant's space, and a claim on the
//! host in the system's, because two tenants must not have the same host: that is what no
//! controller inside a single tenant could know.
//!
//! | module | is |
//! |---|---|
//! | [`spaces`] | clients for one space and for all of them, over one connection pool |
//! | [`place`] | whose an object is, and how equal names of two tenants are told apart |
//! | [`site`] | the kind |
//! | [`claim`] | who has a host |
//! | [`reconcile`] | what is done for one Site |
//! | [`controller`] | the watches, and what they set going |

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
    let client = Client::try_default().await.context("no way to a server")?;
    tokio::select! {
        () = controller::run(Spaces::new(client)) => Ok(()),
        ended = tokio::signal::ctrl_c() => ended.context("cannot wait for a signal"),
    }
}
