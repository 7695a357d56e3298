//! A real kube-apiserver, to be compared with.

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
use tempfile::TempDir;

/// As pinned in `tools/peers/kube-apiserver/go.mod`.
const NAME: &str = "kube-apiserver-1.36.4";
/// How long it may take until it answers: five seconds on an idle machine.
const READY: Duration = Duration::from_secs(180);
/// How often it is asked meanwhile.
const ASK: Duration = Duration::from_millis(100);
/// The token of its administrator.
pub const TOKEN: &str = "system";

/// A kube-apiserver over an etcd of its own. Both end with this value.
pub struct KubeApiserver {
    process: Child,
    address: SocketAddr,
    ca: CertificateDer<'static>,
    folder: TempDir,
    // After the process that uses it.
    _etcd: EtcdServer,
}

impl KubeApiserver {
    /// Starts one. `None`, and a loud word about it, if it or etcd is not installed.
    ///
    /// # Panics
    ///
    /// If both are there and it does not become ready.
    pub async fn start() -> Option<Self> {
        Self::start_with("").await
    }

    /// The same, with further users: lines of a file of tokens.
    ///
    /// # Panics
    ///
    /// If both are there and it does not become ready.
    pub async fn start_with(users: &str) -> Option<Self> {
        let Some(program) = peer::installed("INSULA_KUBE_APISERVER", NAME) else {
            peer::skipped("kube-apiserver is not installed (run make peers)");
            return None;
        };
        let etcd = EtcdServer::start()?;
        let started = Self::launch(&program, etcd, users).await;
        Some(started.expect("kube-apiserver is installed, so it starts"))
    }

    async fn launch(program: &Path, etcd: EtcdServer, users: &str) -> anyhow::Result<Self> {
        let folder = TempDir::with_prefix("insula-kube-apiserver-")?;
        let certificates = Certificates::generate()?;
        let ca = CertificateDer::from_pem_slice(certificates.ca.as_bytes())?;
        std::fs::write(folder.path().join("ca.pem"), &certificates.ca)?;
        let files = Files::write(folder.path(), &certificates, users)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        files.arguments(&mut command, address, &etcd.endpoint());
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
        started.become_ready().await?;
        Ok(started)
    }

    async fn become_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY;
        while !self.is_ready().await {
            let ended = self.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.path().join("log"))?;
                bail!("kube-apiserver is not ready ({ended:?}):\n{log}");
            }
            tokio::time::sleep(ASK).await;
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its certificate is verified with, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The key that it signs the tokens of service accounts with.
    pub fn token_key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }

    /// What it has logged.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// A client with all rights.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::connect(self.address, &self.ca, TOKEN).await
    }
}

impl Drop for KubeApiserver {
    fn drop(&mut self) {
        // Both fail only if it has ended, which is what is wanted.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What it reads when it starts.
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
            // Nobody is there who would make the account that it asks for.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]);
    }
}

/// One that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
