//! An OpenID Connect provider on loopback that misbehaves on request.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, LOCATION};
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use insula_access::jwt::{KeySet, Signer};
use insula_access::{Authority, Validity};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A provider with its own CA and signing key. Dropping it stops the provider.
pub struct FakeProvider {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// How a provider behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Correctly.
    Good,
    /// Connections are closed immediately.
    Down,
    /// Requests are never answered.
    Silent,
    /// All answers are 500.
    Failing,
    /// Discovery redirects to the correct document.
    Redirecting,
    /// The key set redirects to the correct one.
    RedirectingKeys,
    /// The key set is correct and larger than 1 MiB.
    Huge,
    /// The discovery document names another issuer.
    Impostor,
    /// The key set has a plain `http` URL.
    PlainKeys,
    /// The key set is an HTML page.
    Html,
    /// The key set is empty.
    Keyless,
}

/// The requests that a provider received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Connections.
    pub connections: usize,
    /// Requests for the discovery document.
    pub discovery: usize,
    /// Requests for the key set.
    pub keys: usize,
}

struct Shared {
    url: String,
    behaviour: Mutex<Behaviour>,
    signer: Mutex<Arc<Signer>>,
    headers: Mutex<HeaderMap>,
    hits: watch::Sender<Hits>,
}

/// How long a test waits before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

impl FakeProvider {
    /// Starts one on a free port.
    pub async fn start(behaviour: Behaviour) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate("fake provider", validity)?;
        let acceptor = acceptor(&authority, address, validity)?;
        let shared = Arc::new(Shared {
            url: format!("https://{address}"),
            behaviour: Mutex::new(behaviour),
            signer: Mutex::new(signer()?),
            headers: Mutex::default(),
            hits: watch::Sender::default(),
        });
        let serving = tokio::spawn(serve(listener, acceptor, Arc::clone(&shared)));
        Ok(Self {
            address,
            ca_pem: authority.certificate_pem().to_owned(),
            shared,
            serving,
        })
    }

    /// Its issuer URL.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// The address it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CA of its certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Changes its behaviour.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// Replaces its signing key.
    pub fn rotate(&self) -> anyhow::Result<()> {
        *lock(&self.shared.signer) = signer()?;
        Ok(())
    }

    /// The current signing key.
    pub fn signer(&self) -> Arc<Signer> {
        Arc::clone(&lock(&self.shared.signer))
    }

    /// A token for `insula` that is valid from a minute before `now` for an hour, modified by these
    /// claims.
    pub fn token(&self, now: i64, changes: &Value) -> anyhow::Result<String> {
        let mut claims = json!({
            "iss": self.url(), "aud": "insula", "sub": "alice",
            "iat": now - 60, "exp": now + 3600,
        });
        let changes = changes.as_object().context("claims are an object")?;
        for (name, value) in changes {
            claims[name] = value.clone();
        }
        Ok(self.signer().sign(&claims)?)
    }

    /// The requests received so far.
    pub fn hits(&self) -> Hits {
        *self.shared.hits.borrow()
    }

    /// The headers of the last request.
    pub fn headers(&self) -> HeaderMap {
        lock(&self.shared.headers).clone()
    }

    /// Waits until the received requests satisfy `enough`.
    pub async fn asked(&self, enough: impl Fn(&Hits) -> bool) -> anyhow::Result<Hits> {
        let mut hits = self.shared.hits.subscribe();
        let asked = tokio::time::timeout(WAIT_TIMEOUT, hits.wait_for(|hits| enough(hits))).await;
        Ok(*asked.context("the provider received too few requests in time")??)
    }

    /// Stops it: connections are refused from now on.
    pub async fn stop(&mut self) {
        self.serving.abort();
        (&mut self.serving).await.ok();
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    /// Counts a request and returns the current behaviour.
    fn count(&self, add: impl FnOnce(&mut Hits)) -> Behaviour {
        self.hits.send_modify(add);
        *lock(&self.behaviour)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        lock(&self.headers).clone_from(request.headers());
        match request.uri().path() {
            "/.well-known/openid-configuration" => match self.count(|hits| hits.discovery += 1) {
                Behaviour::Silent => std::future::pending().await,
                Behaviour::Failing => status(500),
                Behaviour::Redirecting => redirect("/good"),
                behaviour => json(&self.discovery(behaviour)),
            },
            "/keys" => match self.count(|hits| hits.keys += 1) {
                Behaviour::Silent => std::future::pending().await,
                Behaviour::Failing => status(500),
                Behaviour::RedirectingKeys => redirect("/good-keys"),
                Behaviour::Html => Response::new(Full::from("<html>please log in</html>")),
                behaviour => json(&self.keys(behaviour)),
            },
            "/good" => json(&self.discovery(Behaviour::Good)),
            "/good-keys" => json(&self.keys(Behaviour::Good)),
            _ => status(404),
        }
    }

    fn discovery(&self, behaviour: Behaviour) -> Value {
        let url = &self.url;
        let issuer = match behaviour {
            Behaviour::Impostor => "https://somebody.test",
            _ => url,
        };
        let keys = match behaviour {
            Behaviour::PlainKeys => format!("{}/keys", url.replace("https", "http")),
            _ => format!("{url}/keys"),
        };
        json!({"issuer": issuer, "jwks_uri": keys, "response_types_supported": ["id_token"]})
    }

    fn keys(&self, behaviour: Behaviour) -> Value {
        let key = lock(&self.signer).public().clone();
        let set: KeySet = match behaviour {
            Behaviour::Keyless => KeySet::default(),
            _ => [key].into_iter().collect(),
        };
        let mut keys = json!(set.to_jwks());
        if behaviour == Behaviour::Huge {
            keys["padding"] = "x".repeat(1 << 20).into();
        }
        keys
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if shared.count(|hits| hits.connections += 1) != Behaviour::Down {
            connections.spawn(serve_connection(stream, tls.clone(), Arc::clone(&shared)));
        }
    }
}

async fn serve_connection(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = tls.accept(stream).await else {
        // A client that does not trust the certificate closes the connection.
        return;
    };
    let service = service_fn(|request| {
        let shared = &shared;
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    // So does a client that has read enough.
    connection.await.ok();
}

fn acceptor(
    authority: &Authority,
    address: SocketAddr,
    validity: Validity,
) -> anyhow::Result<TlsAcceptor> {
    let key = rcgen::KeyPair::generate()?;
    let names = ["localhost".to_owned(), address.ip().to_string()];
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

fn signer() -> anyhow::Result<Arc<Signer>> {
    let key = rcgen::KeyPair::generate()?;
    Ok(Arc::new(Signer::new(key.serialized_der())?))
}

fn json(value: &Value) -> Response<Full<Bytes>> {
    let json = "application/json";
    with(CONTENT_TYPE, json, Response::new(value.to_string().into()))
}

fn redirect(path: &'static str) -> Response<Full<Bytes>> {
    with(LOCATION, path, status(302))
}

fn with(
    name: HeaderName,
    value: &'static str,
    mut response: Response<Full<Bytes>>,
) -> Response<Full<Bytes>> {
    let value = http::HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}

fn status(code: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
