//! A real kube-apiserver for comparison.

mod service_proxy;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use insula_testkit::etcd::{Certificates, EtcdServer};
use insula_testkit::peer;
use insula_testkit::server::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use tempfile::TempDir;

/// As pinned in `tools/peers/kube-apiserver/go.mod`.
const NAME: &str = "kube-apiserver-1.36.4";
/// The startup timeout; an idle machine needs five seconds.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(180);
/// The polling interval during startup.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The name of the audit log.
const AUDIT_LOG: &str = "audit.log";
/// The administrator's token.
pub const TOKEN: &str = "system";

/// A kube-apiserver with its own etcd. Both are killed on drop.
pub struct KubeApiserver {
    process: Child,
    address: SocketAddr,
    ca: CertificateDer<'static>,
    folder: TempDir,
    // Dropped after the process that uses it.
    _etcd: EtcdServer,
}

impl KubeApiserver {
    /// Starts a server. Returns `None` and reports the skip if it or etcd is not installed.
    ///
    /// # Panics
    ///
    /// If both are installed and it does not become ready.
    pub async fn start() -> Option<Self> {
        Self::start_with("").await
    }

    /// Starts a server with further users, given as lines of a static token file.
    ///
    /// # Panics
    ///
    /// If both are installed and it does not become ready.
    pub async fn start_with(users: &str) -> Option<Self> {
        Self::start_configured(users, Options::default()).await
    }

    /// Starts a server that writes an audit log by this policy.
    ///
    /// # Panics
    ///
    /// If both are installed and it does not become ready.
    pub async fn start_audited(policy: &str) -> Option<Self> {
        let options = Options {
            policy: Some(policy),
            ..Options::default()
        };
        Self::start_configured("", options).await
    }

    /// Starts a server that reaches all Services at one address, where the only webhooks are.
    ///
    /// # Panics
    ///
    /// If both are installed and it does not become ready.
    pub async fn start_with_services_at(address: SocketAddr) -> Option<Self> {
        let options = Options {
            services: Some(address),
            ..Options::default()
        };
        Self::start_configured("", options).await
    }

    async fn start_configured(users: &str, options: Options<'_>) -> Option<Self> {
        let Some(program) = peer::installed("INSULA_KUBE_APISERVER", NAME) else {
            peer::skipped("kube-apiserver is not installed (run make peers)");
            return None;
        };
        let etcd = EtcdServer::start()?;
        let started = Self::launch(&program, etcd, users, options).await;
        Some(started.expect("kube-apiserver is installed, so it starts"))
    }

    async fn launch(
        program: &Path,
        etcd: EtcdServer,
        users: &str,
        options: Options<'_>,
    ) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("insula-kube-apiserver-")?;
        let certificates = Certificates::generate()?;
        let ca = CertificateDer::from_pem_slice(certificates.ca.as_bytes())?;
        std::fs::write(folder.path().join("ca.pem"), &certificates.ca)?;
        let files = Files::write(folder.path(), &certificates, users)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        files.arguments(&mut command, address, &etcd.endpoint());
        if let Some(target) = options.services {
            let file = service_proxy::start(folder.path(), target)?;
            command.arg(format!("--egress-selector-config-file={}", file.display()));
        }
        if let Some(policy) = options.policy {
            let file = folder.path().join("policy.yaml");
            std::fs::write(&file, policy)?;
            let log = folder.path().join(AUDIT_LOG);
            command.arg(format!("--audit-policy-file={}", file.display()));
            command.arg(format!("--audit-log-path={}", log.display()));
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log"))?);
        let process = command.spawn().context("cannot start kube-apiserver")?;
        let mut started = Self {
            process,
            address,
            ca,
            folder,
            _etcd: etcd,
        };
        started.await_ready().await?;
        Ok(started)
    }

    async fn await_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STARTUP_TIMEOUT;
        while !self.is_ready().await {
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.path().join("log"))?;
                bail!("kube-apiserver is not ready ({ended:?}):\n{log}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        let Ok(client) = self.client().await else {
            return false;
        };
        let answer = client.get("/readyz").await;
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA certificate file, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The kubeconfig of the administrator, as JSON.
    pub fn kubeconfig(&self) -> String {
        let cluster = json!({
            "server": format!("https://{}", self.address),
            "certificate-authority": self.authority(),
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "k", "user": {"token": TOKEN}}],
            "contexts": [{"name": "k", "context": {"cluster": "k", "user": "k"}}],
            "current-context": "k",
        });
        config.to_string()
    }

    /// The signing key of service account tokens.
    pub fn token_key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }

    /// The log file.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The audit log, if it writes one.
    pub fn audit_log(&self) -> PathBuf {
        self.folder.path().join(AUDIT_LOG)
    }

    /// A client with all permissions.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::connect(self.address, &self.ca, TOKEN).await
    }
}

impl Drop for KubeApiserver {
    fn drop(&mut self) {
        // Both calls fail only if the process has already exited.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What differs between servers.
#[derive(Clone, Copy, Default)]
struct Options<'a> {
    /// The audit policy; none for no audit log.
    policy: Option<&'a str>,
    /// Where all Services are reached; none if they are not.
    services: Option<SocketAddr>,
}

/// The files that it reads at startup.
struct Files {
    cert: PathBuf,
    key: PathBuf,
    tokens: PathBuf,
}

impl Files {
    fn write(folder: &Path, certificates: &Certificates, users: &str) -> anyhow::Result<Self> {
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            anyhow::Ok(path)
        };
        Ok(Self {
            cert: write("server.pem", &certificates.server.cert)?,
            key: write("server.key", &certificates.server.key)?,
            tokens: write(
                "tokens.csv",
                &format!("{TOKEN},admin,0,system:masters\n{users}"),
            )?,
        })
    }

    fn arguments(&self, command: &mut Command, address: SocketAddr, etcd: &str) {
        let with = |name: &str, path: &Path| format!("--{name}={}", path.display());
        command.args([
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={}", address.port()),
            format!("--bind-address={}", address.ip()),
            with("tls-cert-file", &self.cert),
            with("tls-private-key-file", &self.key),
            with("token-auth-file", &self.tokens),
            with("service-account-key-file", &self.cert),
            with("service-account-signing-key-file", &self.key),
            "--service-account-issuer=https://insula.test".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            // No controller runs that would create the service account that this plugin needs.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]);
    }
}

/// An address that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
