//! A webhook on loopback, over HTTPS, with its own CA: it records requests and sends scripted
//! answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use insula_access::{Authority, Validity};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A webhook. Dropping it stops the webhook.
pub struct FakeWebhook {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// A request that a webhook received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; null if it is not JSON.
    pub body: Value,
}

/// The answer of a webhook.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Admit.
    Allow,
    /// Refuse with this status.
    Deny(Value),
    /// Admit with this JSON patch.
    Patch(Value),
    /// A review with these fields of the response.
    Response(Value),
    /// This JSON, whatever the request.
    Json(Value),
    /// This status code and text.
    Text(u16, String),
    /// This status code without a body.
    Code(u16),
    /// A redirect to this location.
    Redirect(String),
    /// Admit once notified.
    AllowAfter(Arc<Notify>),
    /// No answer, ever.
    Silence,
    /// Close the connection.
    HangUp,
}

type Script = Arc<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>;

struct Shared {
    script: Mutex<Script>,
    requests: watch::Sender<Vec<ReceivedRequest>>,
    connections: watch::Sender<usize>,
}

/// How long a test waits before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

impl FakeWebhook {
    /// Starts one on a free port, with this answer.
    pub async fn start(reply: Reply) -> anyhow::Result<Self> {
        Self::named(&["localhost"], reply).await
    }

    /// Starts one with a certificate that is also valid for these names.
    pub async fn named(names: &[&str], reply: Reply) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate("fake webhook", validity)?;
        let acceptor = acceptor(&authority, names, address, validity)?;
        let ca_pem = authority.certificate_pem().to_owned();
        Ok(Self::serving(listener, acceptor, ca_pem, reply)?)
    }

    /// Starts one with a self-signed certificate of a CA, which is its own CA bundle.
    pub async fn self_signed(names: &[&str], reply: Reply) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names)?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let acceptor = acceptor_with(&certificate, &key)?;
        Ok(Self::serving(listener, acceptor, certificate, reply)?)
    }

    fn serving(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        ca_pem: String,
        reply: Reply,
    ) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(move |_| reply.clone())),
            requests: watch::Sender::default(),
            connections: watch::Sender::default(),
        });
        let serving = tokio::spawn(serve(listener, acceptor, Arc::clone(&shared)));
        Ok(Self {
            address,
            ca_pem,
            shared,
            serving,
        })
    }

    /// Changes the answer.
    pub fn answer(&self, reply: Reply) {
        self.script(move |_| reply.clone());
    }

    /// Computes answers with this function from now on.
    pub fn script(&self, script: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// The address it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of one of its paths.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// The CA of its certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A `clientConfig` for one of its paths.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": STANDARD.encode(&self.ca_pem)})
    }

    /// The requests received so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.requests.borrow().clone()
    }

    /// The number of requests.
    pub fn calls(&self) -> usize {
        self.shared.requests.borrow().len()
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// Waits until it received this many requests.
    pub async fn called(&self, times: usize) -> anyhow::Result<Vec<ReceivedRequest>> {
        let mut requests = self.shared.requests.subscribe();
        let called = requests.wait_for(|requests| requests.len() >= times);
        let called = tokio::time::timeout(WAIT_TIMEOUT, called).await;
        Ok(called
            .context("the webhook was not called in time")??
            .clone())
    }

    /// Stops it: connections are refused from now on.
    pub async fn stop(&mut self) {
        self.serving.abort();
        (&mut self.serving).await.ok();
    }
}

impl Drop for FakeWebhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    async fn answer(&self, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let requests = ReceivedRequest {
            method: head.method,
            path: head.uri.to_string(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let script = Arc::clone(&lock(&self.script));
        let reply = script(&requests);
        let review_request = requests.body.clone();
        self.requests.send_modify(|all| all.push(requests));
        reply.response(&review_request).await
    }
}

impl Reply {
    async fn response(self, review_request: &Value) -> anyhow::Result<Response<Full<Bytes>>> {
        let allow = json!({"allowed": true});
        let (code, of, body) = match self {
            Self::Allow => (200, JSON, review(review_request, &allow)),
            Self::AllowAfter(released) => {
                released.notified().await;
                (200, JSON, review(review_request, &allow))
            }
            Self::Deny(status) => {
                let denied = json!({"allowed": false, "status": status});
                (200, JSON, review(review_request, &denied))
            }
            Self::Patch(operations) => {
                let patch = STANDARD.encode(operations.to_string());
                let patched = json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"});
                (200, JSON, review(review_request, &patched))
            }
            Self::Response(response) => (200, JSON, review(review_request, &response)),
            Self::Json(value) => (200, JSON, value.to_string()),
            Self::Text(code, text) => (code, "text/plain", text),
            Self::Code(code) => (code, JSON, String::new()),
            Self::Redirect(to) => {
                let moved = Response::builder().status(307).header(LOCATION, to);
                return Ok(moved.body(Full::default())?);
            }
            Self::Silence => std::future::pending().await,
            Self::HangUp => anyhow::bail!("connection closed on request"),
        };
        let response = Response::builder().status(code).header(CONTENT_TYPE, of);
        Ok(response.body(Full::from(body))?)
    }
}

const JSON: &str = "application/json";

/// The answer to a review, in the version of the request.
fn review(review_request: &Value, response: &Value) -> String {
    let mut whole = json!({"uid": review_request["request"]["uid"]});
    for (member, value) in response.as_object().into_iter().flatten() {
        whole[member] = value.clone();
    }
    let version = &review_request["apiVersion"];
    json!({"apiVersion": version, "kind": review_request["kind"], "response": whole}).to_string()
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.connections.send_modify(|count| *count += 1);
        connections.spawn(serve_connection(stream, tls.clone(), Arc::clone(&shared)));
    }
}

async fn serve_connection(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = tls.accept(stream).await else {
        // A client that does not trust the certificate closes the connection.
        return;
    };
    let service = service_fn(|request| {
        let shared = &shared;
        async move { shared.answer(request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    // So does a client that has read enough.
    connection.await.ok();
}

fn acceptor(
    authority: &Authority,
    names: &[&str],
    address: SocketAddr,
    validity: Validity,
) -> anyhow::Result<TlsAcceptor> {
    let key = rcgen::KeyPair::generate()?;
    let mut names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    names.push(address.ip().to_string());
    let certificate = authority.issue_server(&names, &key, validity)?;
    acceptor_with(&certificate, &key)
}

fn acceptor_with(certificate: &str, key: &rcgen::KeyPair) -> anyhow::Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(Arc::new(config).into())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
