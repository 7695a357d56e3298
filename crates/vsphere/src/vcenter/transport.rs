//! Requests to one vCenter: over TLS, with a timeout and a connection pool.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use insula_dialer::{DialError, Dialer, Reach};
use insula_identity::endpoint::Endpoint;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::trust::NotTrusted;

/// How many large responses may be read and parsed at the same time, for all callers: each takes
/// some tens of megabytes.
static LARGE_RESPONSES: Semaphore = Semaphore::const_new(4);
/// How long the rest of a large response may take: a slow one blocks others.
const LARGE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of idle connections.
const MAX_IDLE_CONNECTIONS: usize = 8;
/// How long idle connections are kept: a firewall in between may drop them silently.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
const AGENT: &str = concat!("insula-vsphere/", env!("CARGO_PKG_VERSION"));
const ACTION: HeaderName = HeaderName::from_static("soapaction");

/// A client for one endpoint.
pub(super) struct Transport {
    endpoint: Endpoint,
    dialer: Arc<Dialer<Endpoint>>,
    reach: Reach,
    name: ServerName<'static>,
    tls: TlsConnector,
    kept: Mutex<Vec<Connection>>,
}

/// A request.
#[derive(Clone)]
pub(super) struct SoapRequest {
    pub(super) action: HeaderValue,
    pub(super) cookie: Option<HeaderValue>,
    pub(super) body: Bytes,
    /// The maximum size of the response.
    pub(super) size: ResponseSize,
    /// Whether it may be sent twice.
    pub(super) repeatable: bool,
}

/// The maximum size of a response. Any owner of a cluster can choose the server, which may answer
/// with anything, so large responses are read only where they are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseSize {
    /// One object, or a few properties of one.
    Small,
    /// The devices of a machine, or a thousand names.
    Large,
}

impl ResponseSize {
    const fn bytes(self) -> usize {
        match self {
            Self::Small => 256 << 10,
            Self::Large => 4 << 20,
        }
    }

    /// Returns the maximum number of elements, attributes and texts.
    pub(super) const fn nodes(self) -> u32 {
        match self {
            Self::Small => 5_000,
            Self::Large => 100_000,
        }
    }
}

/// A response.
pub(super) struct SoapResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    /// Held until a large response is parsed.
    _permit: Option<SemaphorePermit<'static>>,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NotTrusted(NotTrusted),
    Unreachable(String),
    /// The response is invalid.
    Invalid(String),
}

impl Transport {
    /// Creates a client; none if the host cannot be a name in a certificate.
    pub(super) fn new(
        endpoint: &Endpoint,
        tls: Arc<ClientConfig>,
        dialer: Arc<Dialer<Endpoint>>,
        reach: Reach,
    ) -> Option<Self> {
        let name = ServerName::try_from(endpoint.host().to_owned()).ok()?;
        Some(Self {
            endpoint: endpoint.clone(),
            dialer,
            reach,
            name,
            tls: TlsConnector::from(tls),
            kept: Mutex::default(),
        })
    }

    /// Returns the endpoint.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request and waits for the response, all within `limit`.
    pub(super) async fn send(
        &self,
        message: SoapRequest,
        limit: Duration,
    ) -> Result<SoapResponse, Failure> {
        let sent = timeout(limit, self.send_with_retry(message)).await;
        sent.unwrap_or_else(|_| {
            let seconds = limit.as_secs_f32();
            Err(Failure::Unreachable(format!(
                "no answer within {seconds} s"
            )))
        })
    }

    /// Sends a request. The server may close an idle connection at the moment of its reuse: an
    /// unsent or repeatable request is then sent again on a new one.
    async fn send_with_retry(&self, message: SoapRequest) -> Result<SoapResponse, Failure> {
        if let Some(kept) = self.take_idle() {
            match self.ask(kept, &message).await {
                Err(SendError { unsent, failure }) if !unsent && !message.repeatable => {
                    return Err(failure);
                }
                Err(SendError {
                    failure: Failure::Invalid(why),
                    ..
                }) => return Err(Failure::Invalid(why)),
                Err(_) => {}
                Ok(received) => return Ok(received),
            }
        }
        let fresh = self.connect().await?;
        self.ask(fresh, &message).await.map_err(|lost| lost.failure)
    }

    async fn ask(
        &self,
        mut connection: Connection,
        message: &SoapRequest,
    ) -> Result<SoapResponse, SendError> {
        let ready = connection.sender.ready().await;
        ready.map_err(|error| SendError {
            unsent: true,
            failure: broken(&error),
        })?;
        let request = self.request(message);
        let sent = connection.sender.try_send_request(request).await;
        let response = sent.map_err(|error| SendError {
            unsent: error.message().is_some(),
            failure: broken(error.error()),
        })?;
        let received = receive(response, message.size).await;
        let received = received.map_err(|failure| SendError {
            unsent: false,
            failure,
        })?;
        self.keep_idle(connection);
        Ok(received)
    }

    fn request(&self, message: &SoapRequest) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(message.body.clone()));
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
        headers.insert(ACTION, message.action.clone());
        if let Some(cookie) = &message.cookie {
            headers.insert(COOKIE, cookie.clone());
        }
        request
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let (host, port) = (self.endpoint.host(), self.endpoint.port());
        let dialed = self.dialer.connect(&self.endpoint, self.reach, host, port);
        let stream = dialed.await.map_err(|error| cannot_connect(&error))?;
        // An optimization only: its failure does not matter.
        let _ = stream.set_nodelay(true);
        let stream = self.tls.connect(self.name.clone(), stream).await;
        let stream = stream.map_err(|error| match NotTrusted::behind(&error) {
            Some(refusal) => Failure::NotTrusted(refusal),
            None => unreachable("TLS handshake failed", &error),
        })?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driving) = shaken.map_err(|error| broken(&error))?;
        let driver = tokio::spawn(async move {
            // Errors are also reported to the pending request.
            let _ = driving.await;
        });
        Ok(Connection {
            sender,
            driver,
            used: Instant::now(),
        })
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(Connection::is_fresh);
        kept.pop()
    }

    fn keep_idle(&self, mut connection: Connection) {
        connection.used = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_IDLE_CONNECTIONS && !connection.sender.is_closed() {
            kept.push(connection);
        }
    }
}

/// Returns host and port as in a URL.
pub(super) fn authority(endpoint: &Endpoint) -> String {
    let (host, port) = (endpoint.host(), endpoint.port());
    match (host.contains(':'), port) {
        (true, 443) => format!("[{host}]"),
        (true, port) => format!("[{host}]:{port}"),
        (false, 443) => host.to_owned(),
        (false, port) => format!("{host}:{port}"),
    }
}

/// A connection, which is closed when it is dropped.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    used: Instant,
}

impl Connection {
    fn is_fresh(&self) -> bool {
        !self.sender.is_closed() && self.used.elapsed() < IDLE_TIMEOUT
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A request without a response, and whether it certainly was not sent.
struct SendError {
    unsent: bool,
    failure: Failure,
}

async fn receive(
    response: Response<Incoming>,
    size: ResponseSize,
) -> Result<SoapResponse, Failure> {
    let (head, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    let small = read(&mut body, &mut bytes, ResponseSize::Small).await?;
    let mut permit = None;
    if !small {
        if size == ResponseSize::Small {
            return Err(too_large(size));
        }
        permit = LARGE_RESPONSES.acquire().await.ok();
        let rest = timeout(LARGE_RESPONSE_TIMEOUT, read(&mut body, &mut bytes, size)).await;
        let whole = rest.unwrap_or_else(|_| {
            let why = "the answer takes too long".to_owned();
            Err(Failure::Unreachable(why))
        })?;
        if !whole {
            return Err(too_large(size));
        }
    }
    let body = String::from_utf8(Vec::from(bytes))
        .map_err(|_| Failure::Invalid("it is no UTF-8".to_owned()))?;
    Ok(SoapResponse {
        status: head.status,
        headers: head.headers,
        body,
        _permit: permit,
    })
}

/// Reads while the limit is not reached. Returns whether the body is complete.
async fn read(
    body: &mut Incoming,
    bytes: &mut BytesMut,
    size: ResponseSize,
) -> Result<bool, Failure> {
    let breaks = |_| Failure::Unreachable("the answer ends early".to_owned());
    while bytes.len() <= size.bytes() {
        match body.frame().await.transpose().map_err(breaks)? {
            Some(frame) => bytes.extend(frame.into_data().ok()),
            None => return Ok(true),
        }
    }
    Ok(false)
}

fn too_large(size: ResponseSize) -> Failure {
    Failure::Invalid(format!("it is larger than {} KiB", size.bytes() >> 10))
}

fn broken(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        return Failure::Invalid("it is no HTTP".to_owned());
    }
    Failure::Unreachable(format!("the connection broke ({error})"))
}

fn cannot_connect(error: &DialError) -> Failure {
    let why = match error {
        DialError::Unreachable { error, .. } => error.to_string(),
        DialError::NoSuchHost => error.to_string(),
        DialError::AddressNotAllowed | DialError::NoAllowedHost => {
            format!("{error}; the operator's --allow-address or --allowed-server allows it")
        }
    };
    Failure::Unreachable(format!("cannot connect ({why})"))
}

fn unreachable(what: &str, error: &std::io::Error) -> Failure {
    Failure::Unreachable(format!("{what} ({error})"))
}
