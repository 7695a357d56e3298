//! A server on loopback, with or without TLS, that can be down or silent.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use insula_access::{Authority, Validity};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::faults::Availability;

/// Answers requests. An error closes the connection.
pub(super) type Handler =
    Arc<dyn Fn(Parts, Bytes) -> BoxFuture<'static, anyhow::Result<HttpResponse>> + Send + Sync>;

/// A response in the form of the transport.
pub(super) type HttpResponse = http::Response<Full<Bytes>>;

/// A server. Dropping it stops the server.
pub(super) struct Server {
    pub address: SocketAddr,
    wanted: watch::Sender<Availability>,
    actual: watch::Receiver<Availability>,
    serving: JoinHandle<()>,
}

/// A CA and the TLS settings of a server with its certificate.
pub(super) struct ServerTls {
    pub acceptor: TlsAcceptor,
    pub ca_pem: String,
}

/// The number of connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// How long a change of availability may take.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(20);

impl ServerTls {
    /// Creates a CA and a certificate for loopback.
    pub fn generate() -> anyhow::Result<Self> {
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate("fake Azure", validity)?;
        let key = rcgen::KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let certificate = authority.issue_server(&names, &key, validity)?;
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        Ok(Self {
            acceptor: Arc::new(config).into(),
            ca_pem: authority.certificate_pem().to_owned(),
        })
    }
}

impl Server {
    /// Starts one on a free port of loopback.
    pub fn start(tls: Option<TlsAcceptor>, handler: Handler) -> anyhow::Result<Self> {
        let listener = bind((Ipv4Addr::LOCALHOST, 0).into())?.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let (wanted, wishes) = watch::channel(Availability::Up);
        let (shown, actual) = watch::channel(Availability::Up);
        let serving = tokio::spawn(serve(listener, address, tls, handler, wishes, shown));
        Ok(Self {
            address,
            wanted,
            actual,
            serving,
        })
    }

    /// Changes whether connections are accepted. Existing ones are closed.
    pub async fn set_availability(&self, availability: Availability) {
        self.wanted.send_replace(availability);
        let mut actual = self.actual.clone();
        let changed = actual.wait_for(|actual| *actual == availability);
        tokio::time::timeout(CHANGE_TIMEOUT, changed).await.ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Binds an address, which stays reserved while the server does not listen.
fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn serve(
    first: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    handler: Handler,
    mut wishes: watch::Receiver<Availability>,
    shown: watch::Sender<Availability>,
) {
    let mut connections = JoinSet::new();
    let mut listener = Some(first);
    loop {
        let availability = *wishes.borrow_and_update();
        if *shown.borrow() != availability {
            connections.shutdown().await;
        }
        if availability == Availability::Down {
            drop(listener.take());
            let Ok(_reserved) = bind(address) else { return };
            shown.send_replace(availability);
            if wishes.changed().await.is_err() {
                return;
            }
            continue;
        }
        if listener.is_none() {
            listener = bind(address).and_then(|socket| socket.listen(BACKLOG)).ok();
        }
        let Some(listening) = &listener else { return };
        shown.send_replace(availability);
        tokio::select! {
            accepted = listening.accept() => {
                let Ok((stream, _)) = accepted else { return };
                while connections.try_join_next().is_some() {}
                connections.spawn(receive(stream, availability, tls.clone(), Arc::clone(&handler)));
            }
            changed = wishes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

async fn receive(
    stream: TcpStream,
    availability: Availability,
    tls: Option<TlsAcceptor>,
    handler: Handler,
) {
    if availability == Availability::Silent {
        // The connection is closed when the availability changes.
        std::future::pending::<()>().await;
    }
    stream.set_nodelay(true).ok();
    match tls {
        None => serve_connection(stream, handler).await,
        // A client that does not trust the certificate closes the connection.
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                serve_connection(stream, handler).await;
            }
        }
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send, handler: Handler) {
    let service = service_fn(|request: http::Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            handler(parts, body).await
        }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    // A client that has read enough closes the connection.
    connection.await.ok();
}
