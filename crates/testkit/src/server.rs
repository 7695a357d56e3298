//! A complete API server in the test's own process, and clients for it.

mod audit;
mod client;
mod define;
mod grant;
mod relay;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use insula_access::{Authority, Subject, TokenFile, Validity};
use insula_apiserver::egress;
use insula_apiserver::handler::App;
use insula_apiserver::pipeline::oidc::Provider;
use insula_apiserver::pipeline::service_account::{Accounts, Issuer};
use insula_apiserver::pipeline::trust::CurrentTrust;
use insula_apiserver::pod_security::PodSecurity;
use insula_apiserver::registry::service_range::ServiceRange;
use insula_apiserver::registry::tenant_fields::TenantFields;
use insula_apiserver::registry::tenant_quota::TenantQuota;
use insula_apiserver::server::tls::Certificates;
use insula_apiserver::{Descriptions, Limits, Options, Registry, Server};
use insula_core::{Layout, Space};
use insula_encryption::key_storage::StoreStorage;
use insula_encryption::{Config, EncryptedStore};
use insula_store::embedded::{self, Embedded};
use insula_store::etcd::{self, Etcd};
use insula_store::memory::Memory;
use insula_store::{At, KeyRange, Store};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use audit::{Audit, AuditLog};
pub use client::{Answer, Client, Identity, Lines};
pub use define::{DEFINITIONS, definition};
pub use grant::{CLUSTER_BINDINGS, CLUSTER_ROLES, bindings, roles, rule, subject};
pub use relay::Relay;
pub use tokio_rustls::client::TlsStream;

use crate::etcd::EtcdServer;

/// A server on a free port, with its own store. Dropping it stops the server.
pub struct TestServer {
    address: std::net::SocketAddr,
    ca: CertificateDer<'static>,
    authority: Arc<Authority>,
    certificates: Arc<Certificates>,
    trust: Arc<CurrentTrust>,
    app: Arc<App>,
    registry: Arc<Registry>,
    accounts: Arc<Accounts>,
    token_key: Vec<u8>,
    stop: Option<oneshot::Sender<()>>,
    served: Option<JoinHandle<()>>,
    // Dropped after everything that uses them.
    _folder: Option<TempDir>,
    etcd: Option<EtcdServer>,
}

/// The storage engine of a test server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// In memory.
    Memory,
    /// In a temporary folder.
    Embedded,
    /// In a real etcd.
    Etcd,
}

impl Engine {
    /// The engine that `INSULA_TEST_STORE` names; memory by default. So the same suite runs on
    /// every engine (`make stores`).
    fn from_env() -> anyhow::Result<Self> {
        match std::env::var("INSULA_TEST_STORE").as_deref() {
            Err(_) | Ok("memory") => Ok(Self::Memory),
            Ok("embedded") => Ok(Self::Embedded),
            Ok("etcd") => Ok(Self::Etcd),
            Ok(other) => anyhow::bail!("INSULA_TEST_STORE: there is no store {other:?}"),
        }
    }
}

/// The configuration of a test server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The space of users with a credential that names no tenant.
    pub default_tenant: Option<Space>,
    /// An OpenID Connect provider that is trusted.
    pub provider: Option<Arc<Provider>>,
    /// Lines of a token file, in addition to those that every test server has.
    pub tokens: String,
    /// Whether the controllers run. Tests of the API server alone do their work themselves.
    pub controllers: bool,
    /// The audit log, if any.
    pub audit: Option<Audit>,
    /// Limits other than the defaults.
    pub limits: Option<Limits>,
    /// The quota of tenants for what their objects do not set.
    pub tenant_quota: TenantQuota,
    /// Whether objects are shown with the fields that name their tenant.
    pub tenant_fields: TenantFields,
    /// Where webhooks may be.
    pub egress: egress::Settings,
    /// The defaults and exemptions of PodSecurity.
    pub pod_security: PodSecurity,
    /// Descriptions for the OpenAPI documents, in JSON.
    pub descriptions: Option<String>,
    /// The range of cluster IPs.
    pub service_range: ServiceRange,
    /// Whether the store is encrypted. `INSULA_TEST_ENCRYPTION` encrypts every test server's.
    pub encrypted: bool,
    /// The settings of the controllers.
    pub controller_settings: insula_controllers::Settings,
}

impl Setup {
    /// The default configuration with controllers.
    pub fn with_controllers() -> Self {
        Self {
            controllers: true,
            ..Self::default()
        }
    }
}

/// The tenants with an administrator token. Every test server has these tokens: `system` is a
/// system administrator, `NAME` for each of these is an administrator of that tenant, and `stray`
/// belongs to no space.
const TENANTS: [&str; 6] = ["t1", "t2", "t3", "tenant-a", "sample-tenant-1", "ghost"];

fn encrypted_by_env() -> bool {
    std::env::var_os("INSULA_TEST_ENCRYPTION").is_some()
}

/// Encrypts everything with one local key, and keeps the wrapped keys in the store.
async fn encrypted(store: Arc<dyn Store>) -> anyhow::Result<Arc<EncryptedStore>> {
    let config = Config::parse(
        "{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{\
         resources: ['*.*'], providers: [{aesgcm: {keys: [{\
         name: test, secret: dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRlc3Q=}]}}]}]}",
    )?;
    let layout = Layout::default();
    let storage = StoreStorage::new(Arc::clone(&store), layout.clone(), false);
    Ok(EncryptedStore::open(store, Arc::new(storage), layout, &config).await?)
}

impl TestServer {
    /// Starts one that stores its objects in memory, or in the engine of `INSULA_TEST_STORE`.
    pub async fn start() -> anyhow::Result<Self> {
        let started = Self::start_on(Engine::from_env()?, Setup::default()).await?;
        started.context("the requested engine is not installed")
    }

    /// Starts one with controllers.
    pub async fn start_with_controllers() -> anyhow::Result<Self> {
        let started = Self::start_on(Engine::from_env()?, Setup::with_controllers()).await?;
        started.context("the requested engine is not installed")
    }

    /// Starts one with this configuration, on the engine of `INSULA_TEST_STORE`.
    pub async fn start_with(setup: Setup) -> anyhow::Result<Self> {
        let started = Self::start_on(Engine::from_env()?, setup).await?;
        started.context("the requested engine is not installed")
    }

    /// Starts one on this engine. `None`, after reporting it, if etcd is not installed.
    pub async fn start_on(engine: Engine, setup: Setup) -> anyhow::Result<Option<Self>> {
        let (mut folder, mut peer) = (None, None);
        let store: Arc<dyn Store> = match engine {
            Engine::Memory => Arc::new(Memory::new()),
            Engine::Embedded => {
                let created = folder.insert(tempfile::tempdir()?);
                let options = embedded::Options::default();
                Arc::new(Embedded::open(created.path().to_owned(), options).await?)
            }
            Engine::Etcd => {
                let Some(started) = EtcdServer::start() else {
                    return Ok(None);
                };
                let url = peer.insert(started).endpoint();
                Arc::new(Etcd::connect(etcd::Options::new(vec![url])).await?)
            }
        };
        let mut server = Self::start_on_store(store, setup).await?;
        server._folder = folder;
        server.etcd = peer;
        Ok(Some(server))
    }

    /// Starts one on a store of the test.
    pub async fn start_on_store(store: Arc<dyn Store>, setup: Setup) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
        let authority = Arc::new(Authority::generate("insula test", validity)?);
        let key = rcgen::KeyPair::generate()?;
        let names = ["localhost".to_owned(), address.ip().to_string()];
        let certificate = authority.issue_server(&names, &key, validity)?;
        let certificates = Arc::new(Certificates::new(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?,
        )?);
        let (store, encryption) = match setup.encrypted || encrypted_by_env() {
            true => {
                let encrypted = encrypted(store).await?;
                let store: Arc<dyn Store> = Arc::<EncryptedStore>::clone(&encrypted);
                (store, Some(encrypted))
            }
            false => (store, None),
        };
        let signer = rcgen::KeyPair::generate()?;
        let issuer = Issuer::new(signer.serialized_der(), "https://insula.test")?;
        let client_ca = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())?;
        let static_tokens = TokenFile::parse(&tokens(&setup.tokens))?;
        let trust = Arc::new(CurrentTrust::new(&[client_ca], Some(static_tokens))?);
        let options = Options {
            listener,
            certificates: Arc::clone(&certificates),
            trust: Arc::clone(&trust),
            default_tenant: setup.default_tenant,
            layout: Layout::default(),
            provider: setup.provider,
            accounts: Some(Accounts::new(issuer, &format!("https://{address}"))),
            secret: b"test".to_vec(),
            audit: setup.audit.map(Audit::start).transpose()?,
            limits: setup.limits.unwrap_or_default(),
            tenant_quota: setup.tenant_quota,
            tenant_fields: setup.tenant_fields,
            egress: setup.egress,
            pod_security: setup.pod_security,
            encryption,
            endpoint: None,
            service_range: setup.service_range,
            descriptions: match &setup.descriptions {
                Some(json) => Some(Descriptions::parse(json.as_bytes())?),
                None => None,
            },
            // The CA ConfigMap is maintained by a controller.
            root_ca: setup
                .controllers
                .then(|| authority.certificate_pem().to_owned()),
        };
        let server = Server::start(store, options).await?;
        let (app, registry) = (server.app(), server.registry());
        let accounts = server
            .accounts()
            .context("it was given what signs tokens")?;
        let ca = CertificateDer::from_pem_slice(authority.certificate_pem().as_bytes())?;
        let with_controllers = setup.controllers;
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let signer_of_clients = Arc::clone(&authority);
        let served = tokio::spawn(async move {
            let ready = || {
                ready.send(()).ok();
            };
            let stopped = async { drop(stopped.await) };
            let served = match with_controllers {
                false => server.serve(ready, stopped).await,
                true => {
                    let authority = signer_of_clients;
                    insula_controllers::serve(
                        server,
                        authority,
                        setup.controller_settings,
                        ready,
                        stopped,
                    )
                    .await
                }
            };
            if let Err(error) = served {
                // The test that needs the server fails at the same time.
                tracing::error!(%error, "test server failed");
            }
        });
        is_ready.await.context("the server did not become ready")?;
        Ok(Self {
            address,
            ca,
            authority,
            certificates,
            trust,
            app,
            registry,
            accounts,
            token_key: signer.public_key_raw().to_vec(),
            stop: Some(stop),
            served: Some(served),
            _folder: None,
            etcd: None,
        })
    }

    /// The CAs of client certificates and the static tokens, which a test may replace.
    pub fn trust(&self) -> &CurrentTrust {
        &self.trust
    }

    /// Replaces the static tokens: those that every test server has, and these lines.
    pub fn replace_tokens(&self, lines: &str) -> anyhow::Result<()> {
        self.trust.replace_tokens(TokenFile::parse(&tokens(lines))?);
        Ok(())
    }

    /// Starts one with this audit log.
    pub async fn audited(audit: Audit) -> anyhow::Result<Self> {
        let setup = Setup {
            audit: Some(audit),
            ..Setup::default()
        };
        let started = Self::start_on(Engine::from_env()?, setup).await?;
        started.context("the requested engine is not installed")
    }

    /// Starts one with these additional lines in its token file.
    pub async fn with_tokens(tokens: &str) -> anyhow::Result<Self> {
        let setup = Setup {
            tokens: tokens.to_owned(),
            ..Setup::default()
        };
        let started = Self::start_on(Engine::from_env()?, setup).await?;
        started.context("the requested engine is not installed")
    }

    /// `https://127.0.0.1:…`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The state that all of its requests share, for tests that need no connection.
    pub const fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// The registry of its objects.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The public key of service account tokens: a point of P-256.
    pub fn token_key(&self) -> &[u8] {
        &self.token_key
    }

    /// The signer of service account tokens, for tests that sign tokens the server would not.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Its CA.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Its serving certificates.
    pub const fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// The address it listens on.
    pub const fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// A client with this token.
    pub async fn client(&self, token: &str) -> anyhow::Result<Client> {
        Client::connect(self.address, &self.ca, token).await
    }

    /// Sends a raw HTTP/1.1 request on its own connection and returns the complete answer. The
    /// request has to ask for the connection to be closed.
    pub async fn send_raw(&self, text: &str) -> anyhow::Result<String> {
        client::send_raw(self.address, &self.ca, text).await
    }

    /// A TLS connection for `http/1.1` or `h2`, on which the test speaks the protocol itself.
    pub async fn dial(&self, protocol: &str) -> anyhow::Result<TlsStream<TcpStream>> {
        client::dial(self.address, &self.ca, None, protocol).await
    }

    /// Starts a relay in front of it. A request that the function refuses is never answered.
    pub async fn relay(
        &self,
        admit: impl Fn(&http::request::Parts) -> bool + Send + Sync + 'static,
    ) -> anyhow::Result<Relay> {
        let server = relay::Server {
            address: self.address,
            ca: self.ca.clone(),
        };
        Relay::start(&self.authority, server, admit).await
    }

    /// Opens a TCP connection from the loopback address 127.0.0.`last`.
    pub async fn connect_from(&self, last: u8) -> anyhow::Result<TcpStream> {
        client::connect_from(Ipv4Addr::new(127, 0, 0, last).into(), self.address).await
    }

    /// Performs the TLS handshake on a TCP connection.
    pub async fn handshake(
        &self,
        stream: TcpStream,
        protocol: &str,
    ) -> anyhow::Result<TlsStream<TcpStream>> {
        client::handshake(stream, &self.ca, None, protocol).await
    }

    /// The same with a small receive buffer, for tests that do not read what the server sends.
    pub async fn dial_narrow(&self, protocol: &str) -> anyhow::Result<TlsStream<TcpStream>> {
        client::dial_narrow(self.address, &self.ca, protocol).await
    }

    /// A client with a certificate for this subject, and optionally a token. If the tenant exists,
    /// the certificate is bound to its UID, as the certificate controller does.
    pub async fn client_with_certificate(
        &self,
        subject: &Subject,
        token: &str,
    ) -> anyhow::Result<Client> {
        self.client_with_identity(self.identity(subject).await?, token)
            .await
    }

    /// A certificate for this subject from its CA.
    pub async fn identity(&self, subject: &Subject) -> anyhow::Result<Identity> {
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
        let key = rcgen::KeyPair::generate()?;
        let mut subject = subject.clone();
        if let (Some(Space::Tenant(name)), None) = (&subject.tenant, &subject.tenant_uid) {
            let tenant = self.registry.find_tenant(name.as_str()).await;
            let tenant = tenant.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
            let tree = tenant.map(|tenant| tenant.object.tree());
            let uid = tree
                .as_ref()
                .and_then(|tree| tree["metadata"]["uid"].as_str());
            subject.tenant_uid = uid.map(Box::from);
        }
        let issued = self.authority.issue_client(&subject, &key, validity)?;
        Identity::from_pem(&issued, &key.serialize_pem())
    }

    /// A client with this certificate, whatever CA signed it.
    pub async fn client_with_identity(
        &self,
        identity: Identity,
        token: &str,
    ) -> anyhow::Result<Client> {
        Client::connect_as(self.address, &self.ca, Some(identity), token).await
    }

    /// The etcd that stores its objects, if it does.
    pub const fn etcd(&self) -> Option<&EtcdServer> {
        self.etcd.as_ref()
    }

    /// Every key in the store, in order.
    pub async fn keys(&self) -> anyhow::Result<Vec<String>> {
        let store = self.registry.store();
        let all = store.range(&KeyRange::all(), At::Latest, None).await?;
        let keys = all.entries.iter();
        Ok(keys
            .map(|entry| String::from_utf8_lossy(&entry.key).into_owned())
            .collect())
    }

    /// A client of a system administrator.
    pub async fn system(&self) -> anyhow::Result<Client> {
        self.client("system").await
    }

    /// A client of a tenant's administrator. The tenant is created if it does not exist.
    pub async fn tenant(&self, name: &str) -> anyhow::Result<Client> {
        let system = self.system().await?;
        let tenant = serde_json::json!({
            "apiVersion": "v1", "kind": "Tenant", "metadata": {"name": name},
        });
        let created = system.post("/api/v1/tenants", &tenant).await?;
        anyhow::ensure!(matches!(created.status, 201 | 409), "{created:?}");
        self.client(name).await
    }

    /// Stops it and waits until it has ended.
    pub async fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(served) = self.served.take() {
            served.await.ok();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(served) = &self.served {
            served.abort();
        }
    }
}

fn tokens(more: &str) -> String {
    let mut text = String::from("system,admin,0,\"system:masters,tenant:system\"\n");
    text.push_str("stray,stray,9,\"people\"\n");
    for name in TENANTS {
        text.push_str(&format!("{name},admin,1,\"tenant:{name}\"\n"));
    }
    text.push_str(more);
    text
}

/// Allows webhooks on loopback, where those of tests are.
pub fn loopback() -> egress::Settings {
    egress::Settings {
        allow: ["127.0.0.0/8", "::1"]
            .iter()
            .flat_map(|block| block.parse())
            .collect(),
        ..egress::Settings::default()
    }
}
