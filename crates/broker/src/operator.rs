//! The tenant operator.

use std::net::SocketAddr;

use kube::Client;

use crate::error::Error;

/// How it is to run.
pub struct Settings {
    /// Who it is among others like it.
    pub identity: String,
    /// Whether there may be others.
    pub leader_elect: bool,
    /// Where to say how it is.
    pub health_addr: Option<SocketAddr>,
    /// Where to say what it did.
    pub metrics_addr: Option<SocketAddr>,
}

/// Runs until it is told to stop.
pub async fn run(
    client: Client,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    drop((client, settings));
    stop.await;
    Ok(())
}
