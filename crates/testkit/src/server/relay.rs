//! An HTTPS server in front of a test server, which sees each request before the server does.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Request;
use http::request::Parts;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use insula_access::{Authority, Validity};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::client;

/// Returns whether a request is forwarded. One that is not is never answered.
type Admit = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

/// A relay, with a certificate of the server's CA. Dropping it closes all connections.
pub struct Relay {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Relay {
    pub(super) async fn start(
        authority: &Authority,
        server: Server,
        admit: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let acceptor = acceptor(authority, address)?;
        let admit: Admit = Arc::new(admit);
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (tls, server) = (acceptor.clone(), server.clone());
                let admit = Arc::clone(&admit);
                connections.spawn(async move {
                    if let Err(error) = serve(stream, &tls, &server, &admit).await {
                        // A client that is killed closes its connection.
                        tracing::debug!(%error, "relayed connection ended");
                    }
                });
            }
        });
        Ok(Self { address, serving })
    }

    /// `https://127.0.0.1:…`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Where requests are forwarded to.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) ca: CertificateDer<'static>,
}

/// Forwards the requests of one connection on one connection to the server.
async fn serve(
    stream: TcpStream,
    tls: &TlsAcceptor,
    server: &Server,
    admit: &Admit,
) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = tls.accept(stream).await?;
    let forward = client::dial(server.address, &server.ca, None, "http/1.1").await?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(forward)).await?;
    let sender = Mutex::new(sender);
    let service = service_fn(|request: Request<Incoming>| {
        let sender = &sender;
        async move {
            let (head, body) = request.into_parts();
            if !admit(&head) {
                std::future::pending::<()>().await;
            }
            let mut sender = sender.lock().await;
            sender.ready().await?;
            sender.send_request(Request::from_parts(head, body)).await
        }
    });
    let serving = hyper::server::conn::http1::Builder::new();
    let serving = serving.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        served = serving => served?,
        closed = connection => closed?,
    }
    Ok(())
}

fn acceptor(authority: &Authority, address: SocketAddr) -> anyhow::Result<TlsAcceptor> {
    let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
    let key = rcgen::KeyPair::generate()?;
    let certificate = authority.issue_server(&[address.ip().to_string()], &key, validity)?;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(Arc::new(config).into())
}
