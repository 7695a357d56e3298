//! The server: its options, its listener and its graceful shutdown.

mod connection;
mod http2;
mod response;
pub mod tls;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use insula_access::TokenFile;
use insula_admission::pod_security::PodSecurity;
use insula_core::{Layout, Space};
use insula_kinds::openapi::Descriptions;
use insula_store::Store;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::documents::Documents;
use crate::documents::metrics::Metrics;
use crate::egress::{self, Egress};
use crate::flow_control::connection_tracker::ConnectionTracker;
use crate::flow_control::unsent::UnsentPool;
use crate::flow_control::{FlowControl, Limits};
use crate::handler::App;
use crate::pipeline::audit;
use crate::pipeline::authenticate::Authenticator;
use crate::pipeline::client_certificates::Clients;
use crate::pipeline::oidc::Provider;
use crate::pipeline::service_account::Accounts;
use crate::registry::Registry;
use crate::registry::hooks::Hooks;
use crate::server::connection::{Ending, connect};
use crate::server::tls::Certificates;
use crate::write::bootstrap_objects;
use insula_cache::Feed;

/// The options of a server.
pub struct Options {
    /// The bound listener.
    pub listener: std::net::TcpListener,
    /// The server certificate, which can be replaced through a shared handle.
    pub certificates: Arc<Certificates>,
    /// The trusted CAs of client certificates.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// The static tokens.
    pub tokens: Option<TokenFile>,
    /// The space of credentials that name no tenant. A missing tenant is created.
    pub default_tenant: Option<Space>,
    /// The layout of the store's keys.
    pub layout: Layout,
    /// Signs and verifies tokens of service accounts.
    pub accounts: Option<Accounts>,
    /// Verifies tokens of an OpenID Connect provider.
    pub provider: Option<Arc<Provider>>,
    /// The key of continue tokens, shared by the servers of a store.
    pub secret: Vec<u8>,
    /// The audit log, if any.
    pub audit: Option<audit::Sink>,
    /// The limits of the server.
    pub limits: Limits,
    /// The settings of webhook calls.
    pub egress: egress::Settings,
    /// The defaults and exemptions of PodSecurity.
    pub pod_security: PodSecurity,
    /// The CA of the server's certificate, in PEM, which is published to every namespace.
    pub root_ca: Option<String>,
    /// The descriptions in OpenAPI documents.
    pub descriptions: Option<Descriptions>,
}

/// A server that is ready to serve.
pub struct Server {
    listener: TcpListener,
    tls: TlsAcceptor,
    app: Arc<App>,
    feed: Feed,
}

/// The error of a server that could not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The listener failed.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// The certificate, key or CAs are unusable.
    #[error("the TLS settings cannot be used: {0}")]
    Tls(#[from] tls::Error),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(#[from] insula_store::Error),
    /// The bootstrap objects could not be created.
    #[error("the system space could not be prepared: {0}")]
    Bootstrap(String),
}

/// How long requests have to end when the server stops.
const GRACE: Duration = Duration::from_secs(10);

impl Server {
    /// Loads the store into the cache and assembles the server.
    pub async fn start(store: Arc<dyn Store>, options: Options) -> Result<Self, Error> {
        let clients = Clients::new(&options.client_cas).map_err(tls::Error::from)?;
        let tls = tls::acceptor(options.certificates, clients.as_ref())?;
        let (cache, feed) =
            insula_cache::load(&store, options.layout.clone(), Box::new(Hooks)).await?;
        options.listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(options.listener)?;
        let egress = Egress::new(options.egress, listener.local_addr()?);
        let registry = Registry::new(
            store,
            cache,
            options.layout,
            &options.secret,
            egress,
            options.root_ca.as_deref(),
        );
        let registry = Arc::new(registry.with_pod_security(options.pod_security));
        let accounts = options.accounts.map(Arc::new);
        let audit = options.audit.map(Arc::new);
        let flow_control = FlowControl::new(&options.limits);
        let connections = ConnectionTracker::new(options.limits.connections);
        let stalled = options.limits.connections.stalled;
        let unsent = UnsentPool::new(options.limits.unsent, stalled);
        let metrics = Arc::new(Metrics::new(
            Arc::clone(&registry),
            audit.clone(),
            flow_control.clone(),
            Arc::clone(&connections),
            Arc::clone(&unsent),
        ));
        let address = listener.local_addr()?.to_string();
        let documents = Documents::new(
            address,
            accounts.clone(),
            Arc::clone(&metrics),
            options.descriptions,
        );
        let app = App {
            registry,
            authenticator: Authenticator {
                clients,
                tokens: options.tokens,
                accounts: accounts.clone(),
                provider: options.provider,
                default_tenant: options.default_tenant,
            },
            documents,
            metrics,
            accounts,
            audit,
            flow_control,
            connections,
            unsent,
            limits: options.limits,
        };
        Ok(Self {
            listener,
            tls,
            app: Arc::new(app),
            feed,
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the registry, for controllers in the same process.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.app.registry)
    }

    /// Returns the issuer of service account tokens, for controllers in the same process.
    pub fn accounts(&self) -> Option<Arc<Accounts>> {
        self.app.accounts.clone()
    }

    /// Serves until `stop` completes. Calls `ready` when the server accepts requests.
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
        let provider = app.authenticator.provider.clone();
        let provider = provider.map(|provider| {
            let run = async move { provider.run().await };
            tokio::spawn(run).abort_handle()
        });
        if let Err(error) = prepare(&app).await {
            feed.abort();
            return Err(error);
        }
        ready();
        let ending = Ending::default();
        let mut stop = std::pin::pin!(stop);
        let ended = loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => connect(stream, &tls, &app, &ending),
                    Err(error) => {
                        // Most likely out of file descriptors.
                        tracing::warn!(%error, "connection not accepted");
                        app.connections.evict_oldest();
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
        if let Some(provider) = provider {
            provider.abort();
        }
        if tokio::time::timeout(GRACE, ending.all()).await.is_err() {
            tracing::warn!("requests aborted at shutdown");
        }
        close_audit(&app).await;
        feed.abort();
        // The feed holds the store until its task has ended.
        if !feed.is_finished() {
            feed.await.ok();
        }
        ended
    }
}

async fn prepare(app: &App) -> Result<(), Error> {
    let failed = |error: crate::status::StatusError| Error::Bootstrap(error.to_string());
    let now = insula_kinds::time::now();
    bootstrap_objects::bootstrap(&app.registry, &now)
        .await
        .map_err(failed)?;
    if let Some(Space::Tenant(tenant)) = &app.authenticator.default_tenant {
        bootstrap_objects::ensure_tenant(&app.registry, tenant)
            .await
            .map_err(failed)?;
    }
    Ok(())
}

/// Closes the audit log. Requests that end later have exceeded the shutdown period.
async fn close_audit(app: &App) {
    let Some(audit) = &app.audit else {
        return;
    };
    if tokio::time::timeout(GRACE, audit.close()).await.is_err() {
        tracing::error!("audit log not closed in time");
    }
}
