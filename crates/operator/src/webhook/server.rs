//! The HTTPS server of webhooks, over HTTP/1.1 and HTTP/2.
//!
//! API servers show no credential to webhooks, so every client that reaches the port is served.
//! All that a client can make the server hold is bounded: connections, bytes of bodies, requests
//! that run, and the time of each step.

mod connection;

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::version::{TLS12, TLS13};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::certificate::Certificates;
use super::router::Router;
use connection::Limits;

/// The limits of a webhook server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The maximum number of connections; further ones wait.
    pub max_connections: usize,
    /// The maximum number of requests that run; further ones wait.
    pub max_requests: usize,
    /// The maximum size of a body; larger ones get 413.
    pub max_body_bytes: usize,
    /// The maximum size of all bodies together; requests beyond it get 503.
    pub max_buffered_bytes: usize,
    /// The timeout of the TLS handshake, and of the headers of a connection's first request.
    pub header_timeout: Duration,
    /// The timeout of a body.
    pub body_timeout: Duration,
    /// The timeout of a handler, including the time that its request waits.
    pub handler_timeout: Duration,
    /// The time after which a connection without requests is closed.
    pub idle_timeout: Duration,
    /// The time for running requests to end when the server stops.
    pub shutdown_timeout: Duration,
    /// Whether TLS 1.2 is refused.
    pub tls13_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_connections: 256,
            max_requests: 64,
            // A conversion review of a page of large objects has several megabytes.
            max_body_bytes: 16 << 20,
            max_buffered_bytes: 64 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            // API servers wait for 30 seconds at most.
            handler_timeout: Duration::from_secs(30),
            // Clients in Go keep idle connections for 90 seconds.
            idle_timeout: Duration::from_secs(120),
            shutdown_timeout: Duration::from_secs(10),
            tls13_only: false,
        }
    }
}

/// The pause after an error of the listener, such as too many open files.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Serves webhooks until `stop` completes, and then lets running requests end.
///
/// # Errors
///
/// If TLS cannot be configured.
pub async fn serve(
    listener: TcpListener,
    certificates: Arc<Certificates>,
    router: Arc<Router>,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Result<(), rustls::Error> {
    let acceptor = acceptor(certificates, settings.tls13_only)?;
    if let Ok(address) = listener.local_addr() {
        info!(%address, "webhook server started");
    }
    let seats = Arc::new(Semaphore::new(settings.max_connections));
    let limits = Arc::new(Limits::new(settings));
    let (stopper, stopped) = watch::channel(false);
    // Connections end when the set is dropped.
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let seat = Arc::clone(&seats).acquire_owned().await;
            (seat, listener.accept().await)
        };
        let (seat, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            continue;
        };
        let (acceptor, router) = (acceptor.clone(), Arc::clone(&router));
        let (limits, stopped) = (Arc::clone(&limits), stopped.clone());
        connections.spawn(async move {
            connection::serve(stream, acceptor, router, limits, stopped).await;
            drop(seat);
        });
    }
    drop(listener);
    stopper.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    let shutdown_timeout = limits.settings.shutdown_timeout;
    if tokio::time::timeout(shutdown_timeout, ended).await.is_err() {
        warn!("webhook requests aborted at shutdown");
    }
    Ok(())
}

fn acceptor(
    certificates: Arc<Certificates>,
    tls13_only: bool,
) -> Result<TlsAcceptor, rustls::Error> {
    let versions: &[_] = match tls13_only {
        true => &[&TLS13],
        false => &[&TLS13, &TLS12],
    };
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

#[cfg(test)]
mod tests;
