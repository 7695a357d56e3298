//! A webhook on loopback, over HTTPS, with a CA of its own: it counts what it hears and
//! answers as it is told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Request, Response};
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
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A webhook. It ends with this value.
pub struct FakeWebhook {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// What a webhook heard.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Path and query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; null if it is no JSON.
    pub body: Value,
}

/// What a webhook answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// It admits.
    Allow,
    /// It refuses, with this status.
    Deny(Value),
    /// It admits, and wants these operations of a JSON patch carried out.
    Patch(Value),
    /// It answers a review in which these members of the response are set.
    Response(Value),
    /// It answers this, whatever it was asked.
    Json(Value),
    /// It answers this code and text.
    Text(u16, String),
    /// It answers this code and nothing else.
    Code(u16),
    /// It wants us to ask elsewhere.
    Redirect(String),
    /// It never answers.
    Silence,
    /// It hangs up.
    HangUp,
}

type Script = Arc<dyn Fn(&Heard) -> Reply + Send + Sync>;

struct Shared {
    script: Mutex<Script>,
    heard: watch::Sender<Vec<Heard>>,
    connections: watch::Sender<usize>,
}

/// A test that waits longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(20);

impl FakeWebhook {
    /// One on a free port, which answers so.
    pub async fn start(reply: Reply) -> anyhow::Result<Self> {
        Self::named(&["localhost"], reply).await
    }

    /// One whose certificate is for these names as well.
    pub async fn named(names: &[&str], reply: Reply) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate("fake webhook", validity)?;
        let acceptor = acceptor(&authority, names, address, validity)?;
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(move |_| reply.clone())),
            heard: watch::Sender::default(),
            connections: watch::Sender::default(),
        });
        let serving = tokio::spawn(serve(listener, acceptor, Arc::clone(&shared)));
        Ok(Self {
            address,
            ca_pem: authority.certificate_pem().to_owned(),
            shared,
            serving,
        })
    }

    /// From now on it answers so.
    pub fn answer(&self, reply: Reply) {
        self.script(move |_| reply.clone());
    }

    /// From now on it answers what this says.
    pub fn script(&self, script: impl Fn(&Heard) -> Reply + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of one of its paths.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Who vouches for it.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A `clientConfig` for one of its paths.
    pub fn client_config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": STANDARD.encode(&self.ca_pem)})
    }

    /// What it heard so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.shared.heard.borrow().clone()
    }

    /// How often it was called.
    pub fn calls(&self) -> usize {
        self.shared.heard.borrow().len()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// Waits until it was called so often.
    pub async fn called(&self, times: usize) -> anyhow::Result<Vec<Heard>> {
        let mut heard = self.shared.heard.subscribe();
        let called = heard.wait_for(|heard| heard.len() >= times);
        let called = tokio::time::timeout(PATIENCE, called).await;
        Ok(called
            .context("the webhook was not called in time")??
            .clone())
    }

    /// Stops it: nobody listens there any more.
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
        let heard = Heard {
            path: head.uri.to_string(),
            headers: head.headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        let script = Arc::clone(&lock(&self.script));
        let reply = script(&heard);
        let asked = heard.body.clone();
        self.heard.send_modify(|all| all.push(heard));
        reply.response(&asked).await
    }
}

impl Reply {
    async fn response(self, asked: &Value) -> anyhow::Result<Response<Full<Bytes>>> {
        let allow = json!({"allowed": true});
        let (code, of, body) = match self {
            Self::Allow => (200, JSON, review(asked, &allow)),
            Self::Deny(status) => {
                let denied = json!({"allowed": false, "status": status});
                (200, JSON, review(asked, &denied))
            }
            Self::Patch(operations) => {
                let patch = STANDARD.encode(operations.to_string());
                let patched = json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"});
                (200, JSON, review(asked, &patched))
            }
            Self::Response(response) => (200, JSON, review(asked, &response)),
            Self::Json(value) => (200, JSON, value.to_string()),
            Self::Text(code, text) => (code, "text/plain", text),
            Self::Code(code) => (code, JSON, String::new()),
            Self::Redirect(to) => {
                let moved = Response::builder().status(307).header(LOCATION, to);
                return Ok(moved.body(Full::default())?);
            }
            Self::Silence => std::future::pending().await,
            Self::HangUp => anyhow::bail!("told to"),
        };
        let response = Response::builder().status(code).header(CONTENT_TYPE, of);
        Ok(response.body(Full::from(body))?)
    }
}

const JSON: &str = "application/json";

/// The answer to what was asked, in its version.
fn review(asked: &Value, response: &Value) -> String {
    let mut whole = json!({"uid": asked["request"]["uid"]});
    for (member, value) in response.as_object().into_iter().flatten() {
        whole[member] = value.clone();
    }
    let version = &asked["apiVersion"];
    json!({"apiVersion": version, "kind": asked["kind"], "response": whole}).to_string()
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    // They end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.connections.send_modify(|count| *count += 1);
        connections.spawn(converse(stream, tls.clone(), Arc::clone(&shared)));
    }
}

async fn converse(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = tls.accept(stream).await else {
        // Whoever does not trust it hangs up.
        return;
    };
    let service = service_fn(|request| {
        let shared = &shared;
        async move { shared.answer(request).await }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    // Whoever has read enough hangs up, too.
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
