//! Connections: TLS, limits, and an end without loss.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use insula_access::TokenFile;
use insula_core::{Layout, Space};
use insula_store::Store;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::audit;
use crate::authenticate::Authenticator;
use crate::cache::{self, Feed};
use crate::documents::Documents;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::request::{self, App};
use crate::service_account::Accounts;
use crate::tenants;

/// What a server is made of.
pub struct Options {
    /// Where it listens, bound already.
    pub listener: std::net::TcpListener,
    /// What it shows clients, leaf first.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The key of the leaf.
    pub key: PrivateKeyDer<'static>,
    /// The CAs that client certificates are trusted from.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// Tokens that are trusted.
    pub tokens: Option<TokenFile>,
    /// Where they belong whose credential names no tenant; a tenant is made if it is not
    /// there.
    pub default_tenant: Option<Space>,
    /// What all keys begin with.
    pub layout: Layout,
    /// Signs and verifies tokens of service accounts.
    pub accounts: Option<Accounts>,
    /// Seals continue tokens; servers that share a store share it.
    pub secret: Vec<u8>,
    /// Where every request is written down, if anywhere.
    pub audit: Option<audit::Sink>,
}

/// A server that is ready to be told to serve.
pub struct Server {
    listener: TcpListener,
    tls: TlsAcceptor,
    app: Arc<App>,
    feed: Feed,
}

/// Why a server could not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its address could not be used.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// Its certificate, key or CAs cannot be used.
    #[error("the TLS settings cannot be used: {0}")]
    Tls(String),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(#[from] insula_store::Error),
    /// What every space needs could not be put into the store.
    #[error("the system space could not be prepared: {0}")]
    Bootstrap(String),
}

/// How long a client may take to shake hands, and to send a request's headers.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long requests have to end when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// How many requests one connection may have at once.
const STREAMS: u32 = 250;

impl Server {
    /// Reads the store.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Self, Error> {
        let tls = acceptor(&options)?;
        let (cache, feed) = cache::load(&store, options.layout.clone()).await?;
        let registry = Registry::new(store, cache, options.layout, &options.secret);
        options.listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(options.listener)?;
        let documents = Documents::new(listener.local_addr()?.to_string());
        let accounts = options.accounts.map(Arc::new);
        let app = App {
            registry: Arc::new(registry),
            authenticator: Authenticator {
                tokens: options.tokens,
                accounts: accounts.clone(),
                default_tenant: options.default_tenant,
            },
            documents,
            metrics: Metrics::default(),
            accounts,
            audit: options.audit,
        };
        Ok(Self {
            listener,
            tls,
            app: Arc::new(app),
            feed,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Its objects, for those who work in the same process.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.app.registry)
    }

    /// What signs tokens of service accounts, if anything does, for the same.
    pub fn accounts(&self) -> Option<Arc<Accounts>> {
        self.app.accounts.clone()
    }

    /// Serves until `stop` is done; `ready` is called when it answers.
    pub async fn serve(
        self,
        ready: impl FnOnce(),
        stop: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self {
            listener,
            tls,
            app,
            feed,
        } = self;
        let mut feed = tokio::spawn(feed.run());
        if let Err(error) = prepare(&app).await {
            feed.abort();
            return Err(error);
        }
        ready();
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        let ended = loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => connect(stream, &tls, &app, &graceful),
                    Err(error) => {
                        // Out of file handles, most likely: others must end first.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                failed = &mut feed => {
                    let error = failed.unwrap_or_else(|error| {
                        insula_store::Error::Unavailable(format!("the feed stopped: {error}"))
                    });
                    break Err(Error::Store(error));
                }
                () = &mut stop => break Ok(()),
            }
        };
        app.registry.close();
        if tokio::time::timeout(GRACE, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("some requests did not end in time");
        }
        close_audit(&app).await;
        feed.abort();
        // It holds the store until it is really over.
        if !feed.is_finished() {
            feed.await.ok();
        }
        ended
    }
}

async fn prepare(app: &App) -> Result<(), Error> {
    let failed = |refusal: crate::status::Refusal| Error::Bootstrap(refusal.to_string());
    let now = insula_kinds::time::now();
    tenants::bootstrap(&app.registry, &now)
        .await
        .map_err(failed)?;
    if let Some(Space::Tenant(tenant)) = &app.authenticator.default_tenant {
        tenants::ensure(&app.registry, tenant)
            .await
            .map_err(failed)?;
    }
    Ok(())
}

/// Whoever is answered from here on has outlived the time that requests have to end.
async fn close_audit(app: &App) {
    let Some(audit) = &app.audit else {
        return;
    };
    if tokio::time::timeout(GRACE, audit.close()).await.is_err() {
        tracing::error!("the end of the audit log could not be written in time");
    }
}

fn acceptor(options: &Options) -> Result<TlsAcceptor, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Tls(error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for ca in &options.client_cas {
        roots.add(ca.clone()).map_err(|error| wrong(&error))?;
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| wrong(&error))?;
        builder.with_client_cert_verifier(verifier)
    };
    let mut config = builder
        .with_single_cert(options.certificates.clone(), options.key.clone_key())
        .map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves one connection, in a task of its own.
fn connect(stream: TcpStream, tls: &TlsAcceptor, app: &Arc<App>, graceful: &GracefulShutdown) {
    let (tls, app, watcher) = (tls.clone(), Arc::clone(app), graceful.watcher());
    tokio::spawn(async move {
        stream.set_nodelay(true).ok();
        let Ok(address) = stream.peer_addr() else {
            return;
        };
        let shaken = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a handshake failed");
                return;
            }
            Err(_) => return,
        };
        let certificate = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(<[_]>::first);
        let peer = app.authenticator.peer(certificate.map(AsRef::as_ref));
        let peer = Arc::new(peer.at(address.ip()));
        let service = service_fn(move |request| {
            let (app, peer) = (Arc::clone(&app), Arc::clone(&peer));
            async move { Ok::<_, Infallible>(request::serve(&app, &peer, request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(64 << 10)
            .max_send_buf_size(1 << 20)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(15));
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(%error, "a connection ended");
        }
    });
}
