//! A server: what it is made of, and an end without loss.

mod connection;
pub mod tls;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use insula_access::TokenFile;
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

/// What a server is made of.
pub struct Options {
    /// Where it listens, bound already.
    pub listener: std::net::TcpListener,
    /// What it shows clients; whoever keeps a handle may replace it.
    pub certificates: Arc<Certificates>,
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
    /// Who else's tokens are believed.
    pub provider: Option<Arc<Provider>>,
    /// Seals continue tokens; servers that share a store share it.
    pub secret: Vec<u8>,
    /// Where every request is written down, if anywhere.
    pub audit: Option<audit::Sink>,
    /// How much of everything, for one and for all.
    pub limits: Limits,
    /// Where webhooks may be.
    pub egress: egress::Settings,
    /// What the server's certificate is verified with, in PEM, to be told to every namespace.
    pub root_ca: Option<String>,
    /// Descriptions that OpenAPI documents are served with.
    pub descriptions: Option<Descriptions>,
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
    Tls(#[from] tls::Error),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(#[from] insula_store::Error),
    /// What every space needs could not be put into the store.
    #[error("the system space could not be prepared: {0}")]
    Bootstrap(String),
}

/// How long requests have to end when the server stops.
const GRACE: Duration = Duration::from_secs(10);

impl Server {
    /// Reads the store.
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
        let registry = Arc::new(registry);
        let accounts = options.accounts.map(Arc::new);
        let audit = options.audit.map(Arc::new);
        let flow_control = FlowControl::new(&options.limits);
        let connections = ConnectionTracker::new(options.limits.connections);
        let metrics = Arc::new(Metrics::new(
            Arc::clone(&registry),
            audit.clone(),
            flow_control.clone(),
            Arc::clone(&connections),
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
            limits: options.limits,
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
                        // Out of file handles, most likely: others must end first.
                        tracing::warn!(%error, "a connection could not be accepted");
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
    let failed = |refusal: crate::status::StatusError| Error::Bootstrap(refusal.to_string());
    let now = insula_kinds::time::now();
    bootstrap_objects::bootstrap(&app.registry, &now)
        .await
        .map_err(failed)?;
    if let Some(Space::Tenant(tenant)) = &app.authenticator.default_tenant {
        bootstrap_objects::ensure(&app.registry, tenant)
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
