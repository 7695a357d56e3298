//! A server with few file handles, and more connections than it has handles for.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tokio::net::{TcpSocket, TcpStream};

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
