//! Renewal of certificates while `insula serve` runs.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_access::{Authority, Validity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type Connection = StreamOwned<ClientConnection, TcpStream>;

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is stopped when this value is dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(data: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_insula"))
            .args(["serve", "--listen", "127.0.0.1:0", "--store", "memory"])
            .arg("--data-dir")
            .arg(data)
            .args(more)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut message = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut message).unwrap();
        let address = message.strip_prefix("insula ready https://").unwrap();
        let address = address.split(' ').next().unwrap().to_owned();
        Self { child, address }
    }

    /// Connects with the kubeconfig's credentials and CA: a certificate without the server's
    /// name, or an expired one, would be refused.
    fn connect(&self, ca: &str, identity: Option<(String, String)>) -> std::io::Result<Connection> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(ca.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(&self.address)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn leaf(connection: &Connection) -> CertificateDer<'static> {
    let chain = connection.conn.peer_certificates().unwrap();
    chain[0].clone().into_owned()
}

/// Returns the status of a request that the administrator may send.
fn get(connection: &mut Connection) -> u16 {
    let request = "GET /api/v1/tenants/system HTTP/1.1\r\nhost: insula\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    connection.read_exact(&mut vec![0; length]).unwrap();
    let status = head.strip_prefix("http/1.1 ").unwrap();
    status[..3].parse().unwrap()
}

/// Waits for a value, and names what was awaited on failure.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn short_lived_certificates_are_replaced_while_clients_stay_connected() {
    let data = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read_to_string(data.path().join(name)).unwrap();
    let serving = Serving::start(data.path(), &["--certificates-last", "9s"]);
    let ca = read("pki/ca.crt");
    let kubeconfig = read("admin.kubeconfig");
    let admin = || Some((read("pki/admin.crt"), read("pki/admin.key")));
    let mut old = serving.connect(&ca, admin()).unwrap();
    let first = leaf(&old);
    let shown = || serving.connect(&ca, None).ok().map(|new| leaf(&new));
    assert_eq!(get(&mut old), 200);
    let second = wait("a new certificate", || {
        assert_eq!(get(&mut old), 200, "the old one holds");
        shown().filter(|shown| *shown != first)
    });
    let renewed = wait("a new kubeconfig", || {
        let now = read("admin.kubeconfig");
        (now != kubeconfig).then_some(now)
    });
    assert_eq!(read("pki/ca.crt"), ca, "the CA stays");
    assert!(renewed.contains(&format!("server: https://{}\n", serving.address)));
    // The connection stays, but the client's certificate expires.
    wait("the end of the old certificate", || {
        (get(&mut old) == 401).then_some(())
    });
    let mut new = serving.connect(&ca, admin()).unwrap();
    assert_eq!(get(&mut new), 200);
    wait("a third certificate", || {
        shown().filter(|shown| *shown != first && *shown != second)
    });
}

#[test]
fn replaced_certificate_files_are_served() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let validity = Validity::starting(std::time::SystemTime::now(), Duration::from_secs(3600));
    let ca = Authority::generate("elsewhere", validity).unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (at("tls.crt"), at("tls.key"));
    let issue = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["127.0.0.1".to_owned()];
        let certificate = ca.issue_server(&names, &key, validity).unwrap();
        (certificate, key.serialize_pem())
    };
    let first = issue();
    std::fs::write(&certificate, &first.0).unwrap();
    std::fs::write(&key, &first.1).unwrap();
    let given = [
        "--tls-cert-file",
        &certificate,
        "--tls-private-key-file",
        &key,
    ];
    // Checked every second, so that the test need not wait for a minute.
    let serving = Serving::start(
        data.path(),
        &[&given[..], &["--certificates-last", "60s"]].concat(),
    );
    let shown = || leaf(&serving.connect(ca.certificate_pem(), None).unwrap());
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    assert_eq!(shown(), der(&first.0));
    let next = issue();
    std::fs::write(&certificate, &next.0).unwrap();
    assert_eq!(shown(), der(&first.0), "half a pair is none");
    std::fs::write(&key, &next.1).unwrap();
    wait("the new pair", || (shown() == der(&next.0)).then_some(()));
}

#[test]
fn ca_rotation_accepts_the_old_ca_while_it_is_configured() {
    let data = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read_to_string(data.path().join(name)).unwrap();
    let at = |name: &str| data.path().join(name);
    drop(Serving::start(data.path(), &[]));
    let admin = || Some((read("old/admin.crt"), read("old/admin.key")));
    // As in docs/serving.md.
    std::fs::rename(at("pki"), at("old")).unwrap();
    std::fs::create_dir(at("pki")).unwrap();
    let key = "service-account.key";
    std::fs::copy(at("old").join(key), at("pki").join(key)).unwrap();
    let old_ca = at("old/ca.crt").to_str().unwrap().to_owned();
    let given = ["--client-ca-file", &old_ca];
    for (more, status) in [(&given[..], 200), (&[], 401)] {
        let serving = Serving::start(data.path(), more);
        let ca = read("pki/ca.crt");
        assert_ne!(ca, read("old/ca.crt"));
        let mut old = serving.connect(&ca, admin()).unwrap();
        assert_eq!(get(&mut old), status, "{more:?}");
        let new = Some((read("pki/admin.crt"), read("pki/admin.key")));
        let mut new = serving.connect(&ca, new).unwrap();
        assert_eq!(get(&mut new), 200);
    }
    assert_eq!(
        read("pki/service-account.key"),
        read("old/service-account.key")
    );
}
