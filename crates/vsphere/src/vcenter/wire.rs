//! Requests to one vCenter: over TLS, each within a time, with connections that are kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use insula_identity::endpoint::Endpoint;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::trust::NotTrusted;

/// How many answers that are larger than small may be read and kept in mind at the same time,
/// whoever asked for them: each is some tens of megabytes when it is understood.
static LARGE_ANSWERS: Semaphore = Semaphore::const_new(4);
/// How long the rest of one may take. Whoever says it slowly keeps others from theirs.
const REST: Duration = Duration::from_secs(5);
/// How many connections are kept while nobody uses them.
const KEPT: usize = 8;
/// How long. What lies between two ends may forget a connection, and tell neither.
const KEPT_FOR: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
const ACTION: HeaderName = HeaderName::from_static("soapaction");

/// The way to a vCenter.
pub(super) struct Wire {
    endpoint: Endpoint,
    name: ServerName<'static>,
    tls: TlsConnector,
    kept: Mutex<Vec<Connection>>,
}

/// What is sent.
#[derive(Clone)]
pub(super) struct Letter {
    pub(super) action: HeaderValue,
    pub(super) cookie: Option<HeaderValue>,
    pub(super) body: Bytes,
    /// How large the answer may be.
    pub(super) size: Size,
    /// Whether it does no harm if it arrives twice.
    pub(super) repeatable: bool,
}

/// How large an answer may be. Everybody may be asked by anybody who has a cluster, and says
/// what they like: only where much is asked for is much to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// One thing, or a few properties of one.
    Small,
    /// The devices of a machine, or a thousand names.
    Large,
}

impl Size {
    const fn bytes(self) -> usize {
        match self {
            Self::Small => 256 << 10,
            Self::Large => 4 << 20,
        }
    }

    /// How many elements, attributes and texts there may be.
    pub(super) const fn nodes(self) -> u32 {
        match self {
            Self::Small => 5_000,
            Self::Large => 100_000,
        }
    }
}

/// What came back.
pub(super) struct Received {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    /// Kept until it is understood, if it is large.
    _permit: Option<SemaphorePermit<'static>>,
}

/// Why nothing came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NotTrusted(NotTrusted),
    Unreachable(String),
    /// Something came back that cannot be an answer.
    Odd(String),
}

impl Wire {
    /// The way to this endpoint; there is none if its name cannot be one in a certificate.
    pub(super) fn new(endpoint: &Endpoint, tls: Arc<ClientConfig>) -> Option<Self> {
        let name = ServerName::try_from(endpoint.host().to_owned()).ok()?;
        Some(Self {
            endpoint: endpoint.clone(),
            name,
            tls: TlsConnector::from(tls),
            kept: Mutex::default(),
        })
    }

    /// Where it leads.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a letter and waits for the answer, all of it within `patience`.
    pub(super) async fn send(
        &self,
        letter: Letter,
        patience: Duration,
    ) -> Result<Received, Failure> {
        let sent = timeout(patience, self.send_once_or_twice(letter)).await;
        sent.unwrap_or_else(|_| {
            let seconds = patience.as_secs_f32();
            Err(Failure::Unreachable(format!(
                "no answer within {seconds} s"
            )))
        })
    }

    /// The other side may close a connection that is kept at the very moment when it is used
    /// again. What never left is sent again, and so is what does no harm.
    async fn send_once_or_twice(&self, letter: Letter) -> Result<Received, Failure> {
        if let Some(kept) = self.take() {
            match self.ask(kept, &letter).await {
                Err(Lost { unsent, failure }) if !unsent && !letter.repeatable => {
                    return Err(failure);
                }
                Err(Lost {
                    failure: Failure::Odd(why),
                    ..
                }) => return Err(Failure::Odd(why)),
                Err(_) => {}
                Ok(received) => return Ok(received),
            }
        }
        let fresh = self.connect().await?;
        self.ask(fresh, &letter).await.map_err(|lost| lost.failure)
    }

    async fn ask(&self, mut connection: Connection, letter: &Letter) -> Result<Received, Lost> {
        let ready = connection.sender.ready().await;
        ready.map_err(|error| Lost {
            unsent: true,
            failure: broken(&error),
        })?;
        let request = self.request(letter);
        let sent = connection.sender.try_send_request(request).await;
        let response = sent.map_err(|error| Lost {
            unsent: error.message().is_some(),
            failure: broken(error.error()),
        })?;
        let received = receive(response, letter.size).await;
        let received = received.map_err(|failure| Lost {
            unsent: false,
            failure,
        })?;
        self.keep(connection);
        Ok(received)
    }

    fn request(&self, letter: &Letter) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(letter.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static("/sdk");
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&authority(&self.endpoint)) {
            headers.insert(HOST, host);
        }
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/xml; charset=\"utf-8\""),
        );
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACTION, letter.action.clone());
        if let Some(cookie) = &letter.cookie {
            headers.insert(COOKIE, cookie.clone());
        }
        request
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let place = (self.endpoint.host(), self.endpoint.port());
        let stream = TcpStream::connect(place).await;
        let stream = stream.map_err(|error| unreachable("cannot connect", &error))?;
        // Requests are small and waited for; without this they are only slower.
        let _ = stream.set_nodelay(true);
        let stream = self.tls.connect(self.name.clone(), stream).await;
        let stream = stream.map_err(|error| match NotTrusted::behind(&error) {
            Some(refusal) => Failure::NotTrusted(refusal),
            None => unreachable("TLS does not come about", &error),
        })?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driving) = shaken.map_err(|error| broken(&error))?;
        let driver = tokio::spawn(async move {
            // Whoever waits for an answer is told what went wrong.
            let _ = driving.await;
        });
        Ok(Connection {
            sender,
            driver,
            used: Instant::now(),
        })
    }

    fn take(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(Connection::is_fresh);
        kept.pop()
    }

    fn keep(&self, mut connection: Connection) {
        connection.used = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT && !connection.sender.is_closed() {
            kept.push(connection);
        }
    }
}

/// A host and a port as a URL has them.
pub(super) fn authority(endpoint: &Endpoint) -> String {
    let (host, port) = (endpoint.host(), endpoint.port());
    match (host.contains(':'), port) {
        (true, 443) => format!("[{host}]"),
        (true, port) => format!("[{host}]:{port}"),
        (false, 443) => host.to_owned(),
        (false, port) => format!("{host}:{port}"),
    }
}

/// A connection, which ends when it is dropped.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    used: Instant,
}

impl Connection {
    fn is_fresh(&self) -> bool {
        !self.sender.is_closed() && self.used.elapsed() < KEPT_FOR
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A letter without an answer, and whether it is certain that it never left.
struct Lost {
    unsent: bool,
    failure: Failure,
}

async fn receive(response: Response<Incoming>, size: Size) -> Result<Received, Failure> {
    let (head, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    let small = read(&mut body, &mut bytes, Size::Small).await?;
    let mut permit = None;
    if !small {
        if size == Size::Small {
            return Err(too_large(size));
        }
        permit = LARGE_ANSWERS.acquire().await.ok();
        let rest = timeout(REST, read(&mut body, &mut bytes, size)).await;
        let whole = rest.unwrap_or_else(|_| {
            let why = "the answer takes too long".to_owned();
            Err(Failure::Unreachable(why))
        })?;
        if !whole {
            return Err(too_large(size));
        }
    }
    let body = String::from_utf8(Vec::from(bytes))
        .map_err(|_| Failure::Odd("it is no UTF-8".to_owned()))?;
    Ok(Received {
        status: head.status,
        headers: head.headers,
        body,
        _permit: permit,
    })
}

/// Reads for as long as it is not too large, and says whether that is all.
async fn read(body: &mut Incoming, bytes: &mut BytesMut, size: Size) -> Result<bool, Failure> {
    let breaks = |_| Failure::Unreachable("the answer breaks off".to_owned());
    while bytes.len() <= size.bytes() {
        match body.frame().await.transpose().map_err(breaks)? {
            Some(frame) => bytes.extend(frame.into_data().ok()),
            None => return Ok(true),
        }
    }
    Ok(false)
}

fn too_large(size: Size) -> Failure {
    Failure::Odd(format!("it is larger than {} KiB", size.bytes() >> 10))
}

fn broken(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        return Failure::Odd("it is no HTTP".to_owned());
    }
    Failure::Unreachable(format!("the connection broke ({error})"))
}

fn unreachable(what: &str, error: &std::io::Error) -> Failure {
    Failure::Unreachable(format!("{what} ({error})"))
}
