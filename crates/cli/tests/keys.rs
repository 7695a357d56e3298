//! `insula keys`, beside a running server.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const INSULA: &str = env!("CARGO_BIN_EXE_insula");

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is stopped when this value is dropped.
struct Serving {
    child: Child,
    address: String,
    tls: Arc<ClientConfig>,
}

impl Serving {
    /// Starts a server that looks for changed files every second.
    fn start(data: &Path) -> Self {
        let mut child = Command::new(INSULA)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
            .args(["--certificates-last", "60s", "--data-dir"])
            .arg(data)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        let address = said.strip_prefix("insula ready https://").unwrap();
        let address = address.split(' ').next().unwrap().to_owned();
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(data.join("pki/ca.crt")).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            child,
            address,
            tls: Arc::new(tls),
        }
    }

    /// Returns the IDs of the published keys.
    fn published(&self) -> Vec<String> {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.tls), name).unwrap();
        let stream = TcpStream::connect(&self.address).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let request = "GET /openid/v1/jwks HTTP/1.1\r\nhost: insula\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // The server may close the connection without a TLS alert.
        stream.read_to_end(&mut answer).ok();
        let answer = String::from_utf8(answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let keys: serde_json::Value = serde_json::from_str(body).unwrap();
        let keys = keys["keys"].as_array().unwrap().iter();
        keys.map(|key| key["kid"].as_str().unwrap().to_owned())
            .collect()
    }

    fn wait_for_published(&self, expected: &[String]) {
        let begun = Instant::now();
        while self.published() != expected {
            let found = self.published();
            assert!(begun.elapsed() < TIMEOUT, "{found:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs `insula keys` with a data directory, and returns the exit code, stdout and stderr.
fn keys(data: &Path, command: &str) -> (i32, String, String) {
    let output = Command::new(INSULA)
        .arg("keys")
        .args(command.split(' '))
        .arg("--data-dir")
        .arg(data)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

/// The rows of `insula keys list`: ID, phase, and the two times.
fn list(data: &Path) -> Vec<Vec<String>> {
    let (code, said, error) = keys(data, "list");
    assert_eq!((code, error.as_str()), (0, ""));
    let rows = said
        .lines()
        .map(|line| line.split("   ").map(|cell| cell.trim().to_owned()));
    let mut rows: Vec<Vec<String>> = rows
        .map(|row| row.filter(|cell| !cell.is_empty()).collect())
        .collect();
    let header = rows.remove(0);
    assert_eq!(header, ["ID", "PHASE", "SIGNS FROM", "VERIFIES UNTIL"]);
    rows
}

fn ids(rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().map(|row| row[0].clone()).collect()
}

#[test]
fn running_server_follows_a_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for command in ["list", "rotate"] {
        let (code, said, error) = keys(&data, command);
        assert_eq!((code, said.as_str()), (1, ""));
        assert!(
            error.contains("there is no key of service accounts in"),
            "{error}"
        );
        assert!(error.contains("hint: check --data-dir"), "{error}");
    }
    let server = Serving::start(&data);
    let first = list(&data);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0][1..], ["Signing", "-", "-"]);
    assert_eq!(server.published(), ids(&first));

    let (code, said, error) = keys(&data, "rotate --publish-for 1h --grace 2h");
    assert_eq!((code, error.as_str()), (0, ""));
    let pending = list(&data);
    assert_eq!(pending.len(), 2);
    assert_eq!(pending[0][..3], [&first[0][0], "Signing", "-"]);
    let (signs, ends) = (&pending[1][2], &pending[0][3]);
    assert_eq!(pending[1][1..], ["Published", signs, "-"]);
    let time = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
    assert_eq!(time(ends) - time(signs), 7200);
    for line in [
        format!(
            "old key {}: its tokens are rejected from {ends}\n",
            pending[0][0]
        ),
        format!(
            "new key {}: published now, signs from {signs}\n",
            pending[1][0]
        ),
        "recreate Secrets of type kubernetes.io/service-account-token".to_owned(),
        "data/pki/service-account-keys.json to the other servers".to_owned(),
    ] {
        assert!(said.contains(&line), "{said}");
    }
    let file = data.join("pki/service-account-keys.json");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.wait_for_published(&ids(&pending));

    // A key that has signed nothing is replaced; this one signs and retires the first soon.
    let (code, _, error) = keys(&data, "rotate --publish-for 1s --grace 2s");
    assert_eq!((code, error.as_str()), (0, ""));
    let soon = list(&data);
    assert_eq!(soon.len(), 2);
    assert_ne!(soon[1][0], pending[1][0]);
    server.wait_for_published(&ids(&soon)[1..]);
    let ended = list(&data);
    assert_eq!([&ended[0][1], &ended[1][1]], ["Expired", "Signing"]);

    // In an emergency the new key is the only one, at once; a restart changes nothing.
    let (code, said, _) = keys(&data, "rotate --publish-for 0s --grace 0s");
    assert_eq!(code, 0);
    assert!(said.contains(": signs from now on\n"), "{said}");
    let last = list(&data);
    assert_eq!(ids(&last)[0], ids(&soon)[1], "expired keys are dropped");
    server.wait_for_published(&ids(&last)[1..]);
    drop(server);
    let server = Serving::start(&data);
    assert_eq!(server.published(), ids(&last)[1..]);
    assert_eq!(list(&data), last);
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for command in [
        "rotate --grace soon",
        "rotate --publish-for -1h",
        "rotate --now",
        "delete",
    ] {
        let (code, said, _) = keys(folder.path(), command);
        assert_eq!((code, said.as_str()), (2, ""), "{command}");
    }
}
