//! The server: its options, its listener and its graceful shutdown.

mod accept;
mod connection;
mod date;
mod handshake;
mod http2;
mod response;
pub mod tls;
mod websocket;
mod write_buffer;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use insula_admission::pod_security::PodSecurity;
use insula_core::{Layout, Space};
use insula_encryption::EncryptedStore;
use insula_kinds::openapi::Descriptions;
use insula_store::Store;
use tokio::net::TcpListener;

use crate::documents::Documents;
use crate::documents::metrics::Metrics;
use crate::egress::{self, Egress};
use crate::flow_control::connection_tracker::ConnectionTracker;
use crate::flow_control::unsent::UnsentPool;
use crate::flow_control::{FlowControl, LimitTable, Limits};
use crate::handler::App;
use crate::pipeline::audit;
use crate::pipeline::authenticate::Authenticator;
use crate::pipeline::oidc::Provider;
use crate::pipeline::service_account::Accounts;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;
use crate::registry::built_in::BuiltIns;
use crate::registry::encryption::CacheResolver;
use crate::registry::hooks::Hooks;
use crate::registry::service_range::ServiceRange;
use crate::registry::tenant_fields::{TenantFields, TenantFieldsTable};
use crate::registry::tenant_quota::TenantQuota;
use crate::server::accept::Accepting;
use crate::server::connection::{Ending, connect};
use crate::server::tls::{Acceptor, Certificates};
use crate::write::bootstrap_objects;
use insula_cache::Feed;

/// The options of a server.
pub struct Options {
    /// The bound listener.
    pub listener: std::net::TcpListener,
    /// The server certificate, which can be replaced through a shared handle.
    pub certificates: Arc<Certificates>,
    /// The trusted CAs of client certificates and the static tokens, which can be replaced
    /// through a shared handle.
    pub trust: Arc<CurrentTrust>,
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
    /// The audit of requests, if any.
    pub audit: Option<audit::Audit>,
    /// The limits of the server.
    pub limits: Limits,
    /// The quota of tenants for what their objects do not set.
    pub tenant_quota: TenantQuota,
    /// Whether objects are shown with the fields that name their tenant, unless a tenant's object
    /// says otherwise.
    pub tenant_fields: TenantFields,
    /// The settings of webhook calls.
    pub egress: egress::Settings,
    /// The defaults and exemptions of PodSecurity.
    pub pod_security: PodSecurity,
    /// The CA of the server's certificate, in PEM, which is published to every namespace.
    pub root_ca: Option<String>,
    /// The address in the endpoints of the Service `kubernetes`; the listener's if there is none.
    pub endpoint: Option<SocketAddr>,
    /// The range of cluster IPs.
    pub service_range: ServiceRange,
    /// The descriptions in OpenAPI documents.
    pub descriptions: Option<Descriptions>,
    /// The store, if it encrypts: it asks the cache which space a key belongs to.
    pub encryption: Option<Arc<EncryptedStore>>,
}

/// A server that is ready to serve.
pub struct Server {
    listener: TcpListener,
    tls: Acceptor,
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
        let tls = Acceptor::new(options.certificates, Arc::clone(&options.trust))?;
        let spaces = Arc::new(LimitTable::new(&options.limits));
        options.listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(options.listener)?;
        let endpoint = match options.endpoint {
            Some(endpoint) => endpoint,
            None => listener.local_addr()?,
        };
        let built_in = Arc::new(BuiltIns::new(endpoint, options.service_range));
        let tenant_fields = Arc::new(TenantFieldsTable::new(options.tenant_fields));
        let hooks = Hooks {
            built_in: Arc::clone(&built_in),
            limits: Arc::clone(&spaces),
            tenant_fields: Arc::clone(&tenant_fields),
            limits_every_tenant: !options.tenant_quota.is_empty(),
        };
        let (cache, feed) =
            insula_cache::load(&store, options.layout.clone(), Box::new(hooks)).await?;
        if let Some(encryption) = &options.encryption {
            encryption.attach(Arc::new(CacheResolver(Arc::clone(&cache))));
        }
        let egress = Egress::new(options.egress, listener.local_addr()?);
        let registry = Registry::new(
            store,
            cache,
            options.layout,
            &options.secret,
            egress,
            options.root_ca.as_deref(),
            built_in,
        );
        let registry = registry
            .with_pod_security(options.pod_security)
            .with_tenant_limits(options.tenant_quota, Arc::clone(&spaces))
            .with_tenant_fields(tenant_fields)
            .with_encryption(options.encryption);
        let registry = Arc::new(registry);
        let accounts = options.accounts.map(Arc::new);
        let audit = options.audit.map(Arc::new);
        let flow_control = FlowControl::new(&options.limits, &spaces);
        let connections = ConnectionTracker::new(options.limits.connections, Arc::clone(&spaces));
        let stalled = options.limits.connections.stalled;
        let unsent = UnsentPool::new(options.limits.unsent, stalled, spaces);
        let metrics = Arc::new(Metrics::new(
            Arc::clone(&registry),
            audit.clone(),
            flow_control.clone(),
            Arc::clone(&connections),
            Arc::clone(&unsent),
            Arc::clone(&options.trust),
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
                trust: options.trust,
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

    /// Returns the state that all requests share, for tests that measure one without a connection.
    pub fn app(&self) -> Arc<App> {
        Arc::clone(&self.app)
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
        let mut accepting = Accepting::default();
        let mut stop = std::pin::pin!(stop);
        let ended = loop {
            tokio::select! {
                (stream, address) = accepting.next(&listener, &app.connections) => {
                    connect(stream, address.ip(), &tls.current(), &app, &ending);
                }
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
