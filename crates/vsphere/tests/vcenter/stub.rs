//! A TLS server with scripted replies.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, IsCa, Issuer, KeyPair};
use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The reply to a request.
pub enum Reply {
    Bytes(Vec<u8>),
    HangUp,
    Silence,
}

/// The certificate of a server.
pub struct ServerCertificate {
    pub root: Vec<u8>,
    leaf: Vec<u8>,
    key: Vec<u8>,
}

pub struct Stub {
    port: u16,
    pub heard: Arc<Mutex<Vec<String>>>,
    pub connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl ServerCertificate {
    /// Creates a certificate for a name, with its own authority.
    pub fn new(name: &str, expired: bool) -> Self {
        let root_key = KeyPair::generate().expect("a key");
        let mut root = CertificateParams::new(Vec::new()).expect("parameters");
        root.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root_der = root.self_signed(&root_key).expect("a root").der().to_vec();
        let issuer = Issuer::new(root, root_key);
        let key = KeyPair::generate().expect("a key");
        let mut leaf = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        if expired {
            leaf.not_before = rcgen::date_time_ymd(2001, 1, 1);
            leaf.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let leaf = leaf.signed_by(&key, &issuer).expect("a leaf");
        Self {
            root: root_der,
            leaf: leaf.der().to_vec(),
            key: key.serialize_der(),
        }
    }

    pub fn sha1(&self) -> String {
        self.pairs(&SHA1_FOR_LEGACY_USE_ONLY)
    }

    pub fn sha256(&self) -> String {
        self.pairs(&SHA256)
    }

    fn pairs(&self, kind: &'static Algorithm) -> String {
        let digest = digest(kind, &self.leaf);
        let pairs: Vec<_> = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        pairs.join(":")
    }
}

impl Stub {
    /// Starts a server that answers every request by the script.
    pub async fn start<Script>(shown: &ServerCertificate, script: Script) -> Self
    where
        Script: Fn(&str) -> Reply + Send + Sync + 'static,
    {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(shown.key.clone()).expect("a key");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![shown.leaf.clone().into()], key)
            .expect("a certificate");
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (log, counter) = (Arc::clone(&heard), Arc::clone(&connections));
        let script = Arc::new(script);
        let serving = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let (tls, log, script) = (tls.clone(), Arc::clone(&log), Arc::clone(&script));
                open.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    serve_connection(stream, &log, &*script).await;
                });
            }
        });
        Self {
            port,
            heard,
            connections,
            serving,
        }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the called methods, in order.
    pub fn methods(&self) -> Vec<String> {
        let heard = self.heard.lock().expect("unpoisoned");
        heard
            .iter()
            .map(|request| method(request).to_owned())
            .collect()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns the method that a request calls.
pub fn method(request: &str) -> &str {
    let body = request.split("Body><").nth(1).unwrap_or_default();
    body.split(' ').next().unwrap_or_default()
}

/// Returns a complete HTTP response.
pub fn http(status: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    Reply::Bytes(text.into_bytes())
}

/// Returns the response to a method.
pub fn answer(method: &str, inside: &str) -> Reply {
    http(
        "200 OK",
        "",
        &envelope(&format!(
            "<{method}Response xmlns=\"urn:vim25\">{inside}</{method}Response>"
        )),
    )
}

pub fn envelope(body: &str) -> String {
    format!(
        "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><e:Body>{body}</e:Body></e:Envelope>"
    )
}

pub fn fault(kind: &str, message: &str) -> Reply {
    let body = envelope(&format!(
        "<e:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{message}</faultstring>\
         <detail><{kind}Fault i:type=\"{kind}\"/></detail></e:Fault>"
    ));
    http("500 Internal Server Error", "", &body)
}

/// Returns the `ServiceContent` of a vCenter.
pub fn content(api_type: &str, version: &str) -> Reply {
    answer(
        "RetrieveServiceContent",
        &format!(
            "<returnval><rootFolder type=\"Folder\">group-d1</rootFolder>\
             <propertyCollector type=\"PropertyCollector\">pc</propertyCollector>\
             <about><version>{version}</version><apiType>{api_type}</apiType>\
             <apiVersion>{version}.0</apiVersion><instanceUuid>u</instanceUuid></about>\
             <sessionManager type=\"SessionManager\">sm</sessionManager>\
             <searchIndex type=\"SearchIndex\">si</searchIndex></returnval>"
        ),
    )
}

pub fn welcome() -> Reply {
    let body = envelope(
        "<LoginResponse xmlns=\"urn:vim25\"><returnval><key>k</key></returnval></LoginResponse>",
    );
    http(
        "200 OK",
        "set-cookie: vmware_soap_session=\"s1\"; Path=/; HttpOnly; Secure\r\n",
        &body,
    )
}

/// Replies like a vCenter up to the login, and with empty responses afterwards.
pub fn valid_reply(request: &str) -> Reply {
    match method(request) {
        "RetrieveServiceContent" => content("VirtualCenter", "8.0.2"),
        "Login" => welcome(),
        other => answer(other, ""),
    }
}

async fn serve_connection(
    mut stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    log: &Mutex<Vec<String>>,
    script: &(dyn Fn(&str) -> Reply + Send + Sync),
) {
    while let Some(request) = read(&mut stream).await {
        log.lock().expect("unpoisoned").push(request.clone());
        match script(&request) {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::HangUp => return,
            Reply::Silence => std::future::pending().await,
        }
    }
}

async fn read(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse::<usize>()
                    .ok()
            });
            if body.len() >= length.unwrap_or_default() {
                return Some(text);
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&more[..length]),
        }
    }
}
