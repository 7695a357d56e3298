//! A real etcd for tests.

mod binary;
mod certificates;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

pub use self::certificates::{Certificates, Signed};

/// How long etcd may take to become healthy. A second is usual; a machine under load takes longer.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How often its health is checked meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often other ports are tried if one was taken meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// An etcd of one member, with its own ports and folder. Dropping it stops the process.
#[derive(Debug)]
pub struct EtcdServer {
    binary: PathBuf,
    settings: Settings,
    ports: Ports,
    folder: TempDir,
    process: Option<Child>,
}

/// How to run it.
#[derive(Debug, Default)]
pub struct Settings {
    /// etcd's quota for its data. `None` is 2 GiB.
    pub quota_bytes: Option<u64>,
    /// The parent of its data folder. `None` is the system's temporary folder, which may be in
    /// memory.
    pub folder: Option<PathBuf>,
    /// Serve TLS, and require client certificates.
    pub tls: Option<Certificates>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    /// Plain HTTP whatever the client port speaks, for health checks.
    metrics: u16,
}

impl EtcdServer {
    /// Starts one with etcd's defaults. `None`, after reporting it, if etcd is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(Settings::default())
    }

    /// Starts one. `None`, after reporting it, if etcd is not installed.
    ///
    /// # Panics
    ///
    /// If etcd is installed and does not start.
    pub fn start_with(settings: Settings) -> Option<Self> {
        let binary = binary::find()?;
        Some(Self::launch(binary, settings).expect("etcd is installed, so it starts"))
    }

    fn launch(binary: PathBuf, settings: Settings) -> anyhow::Result<Self> {
        let mut server = Self {
            binary,
            folder: settings.create_folder()?,
            settings,
            ports: Ports::free()?,
            process: None,
        };
        for _ in 1..MAX_ATTEMPTS {
            if server.run().is_ok() {
                return Ok(server);
            }
            server.kill();
            server.ports = Ports::free()?;
            server.folder = server.settings.create_folder()?;
        }
        server.run()?;
        Ok(server)
    }

    /// The endpoint for clients.
    pub fn endpoint(&self) -> String {
        let scheme = if self.settings.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://127.0.0.1:{}", self.ports.client)
    }

    /// The version of the installed etcd. `None`, after reporting it, if there is none.
    pub fn version() -> Option<String> {
        let output = Command::new(binary::find()?).arg("--version").output();
        let text = String::from_utf8(output.ok()?.stdout).ok()?;
        let version = |line: &str| Some(line.strip_prefix("etcd Version: ")?.to_owned());
        text.lines().find_map(version)
    }

    /// The process ID, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Its metrics, in the text format of Prometheus.
    pub fn metrics(&self) -> io::Result<String> {
        self.ports.get("/metrics")
    }

    /// Kills it, as a power cut would end its process.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only if it has already ended, which is the goal.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again on the same ports and data, and waits until it is healthy.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        self.kill();
        self.run().expect("an etcd that ran before runs again");
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let log = std::fs::File::create(self.folder.path().join("log"))?;
        let mut command = Command::new(&self.binary);
        self.arguments(&mut command)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = command.spawn().context("cannot start etcd")?;
        let process = self.process.insert(process);
        let deadline = Instant::now() + READY_TIMEOUT;
        while !self.ports.is_healthy() {
            if let Some(status) = process.try_wait()? {
                let log = std::fs::read_to_string(self.folder.path().join("log"))?;
                bail!("etcd ended with {status}:\n{log}");
            }
            if Instant::now() > deadline {
                bail!("etcd does not answer after {READY_TIMEOUT:?}");
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn arguments(&self, command: &mut Command) -> anyhow::Result<()> {
        let folder = self.folder.path();
        let client = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", self.ports.peer);
        let metrics = format!("http://127.0.0.1:{}", self.ports.metrics);
        command
            .args(["--name", "test", "--log-level", "warn"])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("test={peer}")])
            .args(["--listen-metrics-urls", &metrics]);
        if let Some(bytes) = self.settings.quota_bytes {
            command.args(["--quota-backend-bytes", &bytes.to_string()]);
        }
        if let Some(certificates) = &self.settings.tls {
            let files = certificates.write(folder)?;
            command
                .arg("--trusted-ca-file")
                .arg(files.ca)
                .arg("--cert-file")
                .arg(files.cert)
                .arg("--key-file")
                .arg(files.key)
                .arg("--client-cert-auth");
        }
        Ok(())
    }
}

impl Settings {
    fn create_folder(&self) -> io::Result<TempDir> {
        const PREFIX: &str = "insula-etcd-";
        match &self.folder {
            Some(parent) => TempDir::with_prefix_in(PREFIX, parent),
            None => TempDir::with_prefix(PREFIX),
        }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Ports {
    /// Three ports that were free a moment ago.
    fn free() -> io::Result<Self> {
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        // All are held until all are chosen, so that they differ.
        let listeners = [listen()?, listen()?, listen()?];
        let port = |listener: &TcpListener| Ok::<_, io::Error>(listener.local_addr()?.port());
        Ok(Self {
            client: port(&listeners[0])?,
            peer: port(&listeners[1])?,
            metrics: port(&listeners[2])?,
        })
    }

    /// Whether it has a leader and serves reads. A full etcd counts as healthy.
    fn is_healthy(self) -> bool {
        self.get("/health?exclude=NOSPACE")
            .is_ok_and(|text| text.starts_with("HTTP/1.0 200"))
    }

    /// The complete answer, head and body.
    fn get(self, path: &str) -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.metrics));
        let patience = Duration::from_secs(5);
        let mut stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }
}
