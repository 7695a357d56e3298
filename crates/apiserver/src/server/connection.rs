//! A connection: its TLS handshake, its HTTP limits and its timeouts.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::codec::answer::Payer;
use crate::codec::body::Body;
use crate::flow_control::Connections;
use crate::flow_control::client_address::ClientAddress;
use crate::flow_control::connection_tracker::{ConnectionAction, TrackedConnection};
use crate::handler::{self, App, Source};
use crate::pipeline::authenticate::Peer;
use crate::server::http2::Http2;
use crate::server::response::OutgoingBody;
use crate::server::{handshake, tls, websocket};

/// Signals the shutdown to all connections, and knows when they and their requests have ended.
#[derive(Debug, Default)]
pub struct Ending(watch::Sender<()>);

/// A connection or request that has not ended. It is dropped last by its task: the store can be
/// closed when there is none.
#[derive(Clone, Debug)]
pub struct Open(watch::Receiver<()>);

/// How long a connection may take to drain.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request on HTTP/1 waits while its space floods the server.
const FLOOD_PAUSE: Duration = Duration::from_secs(1);

/// Serves one connection, in a task of its own, if there is room for it.
pub fn connect(
    stream: TcpStream,
    address: IpAddr,
    tls: &TlsAcceptor,
    app: &Arc<App>,
    ending: &Ending,
) {
    let client = ClientAddress::new(address, &app.limits.shared_addresses);
    let Some(tracked) = app.connections.accept(client) else {
        return;
    };
    let (tls, app, open) = (tls.clone(), Arc::clone(app), ending.open());
    let connection = Arc::clone(&tracked);
    connection.spawn(async move {
        serve_accepted(stream, address, tls, app, tracked, open.clone()).await;
        drop(open);
    });
}

/// Performs the handshake of an accepted connection, and serves it.
async fn serve_accepted(
    stream: TcpStream,
    address: IpAddr,
    tls: TlsAcceptor,
    app: Arc<App>,
    tracked: Arc<TrackedConnection>,
    open: Open,
) {
    let limits = app.limits.connections;
    stream.set_nodelay(true).ok();
    let handshake = handshake::accept(stream, &tls, &app, &tracked);
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(limits.handshake, handshake) => handshake,
        () = tracked.evicted() => return,
    };
    match handshake {
        Ok(Ok((stream, peer))) => {
            tracked.handshake_done();
            serve(stream, peer.at(address), &app, &tracked, open).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => app.connections.count_too_slow(),
    }
}

impl Ending {
    fn open(&self) -> Open {
        Open(self.0.subscribe())
    }

    /// Drains every connection, and waits until all have ended.
    pub async fn all(self) {
        self.0.send(()).ok();
        self.0.closed().await;
    }
}

async fn serve(
    stream: TlsStream<TcpStream>,
    peer: Peer,
    app: &Arc<App>,
    tracked: &Arc<TrackedConnection>,
    open: Open,
) {
    let source = Arc::new(Source {
        peer,
        connection: Arc::clone(tracked),
    });
    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2) {
        let connection = pin!(Http2::new(stream, app, &source, open.clone()));
        drive(connection, app, tracked, open).await;
    } else {
        serve_http1(stream, app, &source, open).await;
    }
}

/// Serves HTTP/1.1, and WebSocket after it.
async fn serve_http1(
    stream: TlsStream<TcpStream>,
    app: &Arc<App>,
    source: &Arc<Source>,
    open: Open,
) {
    let tracked = &source.connection;
    let switched = Arc::new(Mutex::new(None));
    let service = service_fn(|mut request| {
        let (app, source) = (Arc::clone(app), Arc::clone(source));
        let switched = Arc::clone(&switched);
        let in_flight = tracked.begin();
        async move {
            if let Some(refusal) = refusal(&request, &app.limits.connections) {
                return Ok(OutgoingBody::of(&app, &source, in_flight, refusal));
            }
            if app.is_flooded_by(&source.connection) {
                // HTTP/1 cannot refuse without an answer, but one request keeps the next waiting.
                tokio::time::sleep(FLOOD_PAUSE).await;
            }
            let upgrade = websocket::UpgradeRequest::of(&mut request);
            let mut response = handler::serve(&app, &source, request).await;
            if let Some(upgrade) = upgrade {
                let frames;
                (response, frames) = upgrade.switch(response);
                *switched.lock().unwrap_or_else(PoisonError::into_inner) = frames;
            }
            let response = OutgoingBody::of(&app, &source, in_flight, response);
            Ok::<_, Infallible>(response.map(OutgoingBody::closing_at_end))
        }
    });
    let connection =
        builder(&app.limits.connections).serve_connection(TokioIo::new(stream), service);
    let connection = pin!(connection.with_upgrades());
    if !drive(connection, app, tracked, open).await {
        return;
    }
    let frames = switched
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(frames) = frames {
        send_frames(frames, app, tracked).await;
    }
}

/// A connection of either protocol, which completes when it has ended.
trait Connection: Future<Output = Result<(), Self::Error>> {
    type Error: std::fmt::Display;

    /// Accepts no more requests, and ends after those in flight.
    fn drain(self: Pin<&mut Self>);
}

impl Connection for Http2 {
    type Error = io::Error;

    fn drain(self: Pin<&mut Self>) {
        self.get_mut().graceful_shutdown();
    }
}

impl<S, B> Connection for http1::UpgradeableConnection<TokioIo<TlsStream<TcpStream>>, S>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Error = hyper::Error;

    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Drives a connection within its timeouts. Returns whether it has ended by itself.
async fn drive(
    mut connection: Pin<&mut impl Connection>,
    app: &App,
    tracked: &TrackedConnection,
    mut open: Open,
) -> bool {
    let mut next_check = pin!(tokio::time::sleep_until(first_check(tracked)));
    let mut ends = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection closed");
                }
                return true;
            }
            () = tracked.evicted() => return false,
            _ = open.0.changed(), if !ends => {
                ends = true;
                connection.as_mut().drain();
            }
            () = next_check.as_mut() => {
                let now = Instant::now();
                match tracked.check_timeouts(now) {
                    ConnectionAction::CheckAgain(until) => next_check.as_mut().reset(until),
                    ConnectionAction::Drain if !ends => {
                        ends = true;
                        connection.as_mut().drain();
                        next_check.as_mut().reset(now + DRAIN_TIMEOUT);
                    }
                    ConnectionAction::Drain => return false,
                    ConnectionAction::Abort => {
                        app.connections.count_too_slow();
                        return false;
                    }
                }
            }
        }
    }
}

/// Returns the refusal of a request that HTTP/1.1 forbids or that exceeds the limits.
///
/// Without exactly one `Host`, a proxy before the server and the server itself could disagree
/// about the host. The buffer for headers grows in steps, so some fit that are too long.
fn refusal<B>(request: &Request<B>, limits: &Connections) -> Option<Response<Body>> {
    let hosts = request.headers().get_all(HOST).iter().count();
    let (status, text) = if head_bytes(request) > limits.header_bytes as usize {
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "")
    } else if hosts == 0 && request.version() >= Version::HTTP_11 {
        let text = "400 Bad Request: missing required Host header";
        (StatusCode::BAD_REQUEST, text)
    } else if hosts > 1 {
        let text = "400 Bad Request: too many Host headers";
        (StatusCode::BAD_REQUEST, text)
    } else {
        return None;
    };
    let mut response = Response::new(Body::from(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

/// Returns about how many bytes the headers of a request took.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + 4);
    let path = request.uri().path_and_query();
    headers.sum::<usize>() + path.map_or(0, |path| path.as_str().len())
}

/// Sends the frames of a watch after the upgrade to WebSocket. They end with the watch, which ends
/// with the server.
async fn send_frames(frames: websocket::Frames, app: &App, tracked: &Arc<TrackedConnection>) {
    let payer = tracked.space().cloned().map(Payer);
    let begin = |body| {
        let body = OutgoingBody::new(&app.unsent, payer, tracked.begin(), body);
        body.closing_at_end()
    };
    tokio::select! {
        () = frames.send(begin) => {}
        () = tracked.evicted() => {}
    }
}

fn first_check(tracked: &TrackedConnection) -> Instant {
    let now = Instant::now();
    match tracked.check_timeouts(now) {
        ConnectionAction::CheckAgain(until) => until,
        ConnectionAction::Drain | ConnectionAction::Abort => now,
    }
}

/// Returns the settings of an HTTP/1 connection.
fn builder(limits: &Connections) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(limits.header_count)
        // The headers must fit into this buffer.
        .max_buf_size((limits.header_bytes as usize).max(8192));
    builder
}
