//! More than a server has room for: connections without file handles, and the memory of a burst.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

const INSULA: &str = env!("CARGO_BIN_EXE_insula");

/// A server with a limit of file handles, which ends with the test.
struct Serving {
    child: Child,
    address: SocketAddr,
}

impl Serving {
    fn start(folder: &Path, handles: u32) -> Self {
        let child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {handles} && exec \"$0\" \"$@\"")])
            .args([INSULA, "serve", "--store", "memory"])
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"))
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        // From here on the process ends with the test, whatever it prints.
        let mut serving = Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let mut message = String::new();
        let mut lines = BufReader::new(serving.child.stdout.take().unwrap());
        lines.read_line(&mut message).unwrap();
        let (_, rest) = message.split_once("https://").unwrap();
        let (address, _) = rest.split_once(' ').unwrap();
        serving.address = address.parse().unwrap();
        serving
    }

    /// The bytes of memory that the process alone holds.
    fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let anonymous = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kibibytes = anonymous.unwrap().split_whitespace().next().unwrap();
        kibibytes.parse::<u64>().unwrap() << 10
    }

    async fn connect_from(&self, source: [u8; 4]) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        socket.connect(self.address).await
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_file_handles_serves_clients_of_other_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), 40);
    let flood = async {
        let mut held = Vec::new();
        loop {
            // A backlog that is full refuses some.
            held.extend(server.connect_from([127, 0, 0, 2]).await);
            if held.len() == 300 {
                held.drain(..100);
            }
            tokio::task::yield_now().await;
        }
    };
    let kubeconfig = folder.path().join("data/admin.kubeconfig");
    let quiet = tokio::task::spawn_blocking(move || {
        for _ in 0..10 {
            let listed = Command::new(INSULA)
                .args(["tenant", "list", "--kubeconfig"])
                .arg(&kubeconfig)
                .output()
                .unwrap();
            assert!(listed.status.success(), "{listed:?}");
        }
    });
    tokio::select! {
        () = flood => {}
        done = quiet => done.unwrap(),
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let warned = log.matches("connection not accepted").count();
    assert_eq!(warned, 1, "{log}");
}

/// Sends so many large objects at once that are decoded and not stored.
async fn burst(kubeconfig: &Path, count: usize) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    let client = Client::try_from(config.await.unwrap()).unwrap();
    let values = (0..24_000).map(|n| (format!("key-{n:05}"), "value".repeat(4)));
    let mut large = ConfigMap {
        data: Some(values.collect()),
        ..ConfigMap::default()
    };
    large.metadata.name = Some("large".to_owned());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let maps = Api::default_namespaced(client);
    let mut creates = JoinSet::new();
    for _ in 0..count {
        let (maps, dry_run, large) = (maps.clone(), dry_run.clone(), large.clone());
        creates.spawn(async move { maps.create(&dry_run, &large).await });
    }
    while let Some(created) = creates.join_next().await {
        created.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_burst_is_returned_while_the_server_is_idle() {
    const TIMEOUT: Duration = Duration::from_secs(60);
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(folder.path(), 256);
    let before = server.memory();
    burst(&folder.path().join("data/admin.kubeconfig"), 16).await;
    let after = server.memory();
    assert!(after > before + (24 << 20), "{before} {after}");
    // Nothing is asked of the server from here on.
    let begun = Instant::now();
    // Connections and caches keep some of it.
    while server.memory() > before + (after - before) / 2 {
        let now = server.memory();
        assert!(begun.elapsed() < TIMEOUT, "{before} {after} {now}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
