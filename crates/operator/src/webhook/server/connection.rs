//! One connection and its requests.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::Settings;
use crate::webhook::router::{Router, plain};

/// The limits that all connections share.
pub(super) struct Limits {
    pub settings: Settings,
    /// One permit for each request that runs.
    requests: Semaphore,
    /// One permit for each byte of a body.
    bytes: Arc<Semaphore>,
}

impl Limits {
    pub fn new(settings: Settings) -> Self {
        Self {
            requests: Semaphore::new(settings.max_requests),
            bytes: Arc::new(Semaphore::new(settings.max_buffered_bytes)),
            settings,
        }
    }
}

/// The maximum size of a request's headers.
const MAX_HEADER_BYTES: u32 = 32 << 10;
/// The maximum number of concurrent requests of a connection over HTTP/2.
const MAX_STREAMS: u32 = 64;
/// The time for the last response of a closed connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves a connection until it is closed, idle for too long or the server stops.
pub(super) async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Arc<Router>,
    limits: Arc<Limits>,
    mut stopped: watch::Receiver<bool>,
) {
    stream.set_nodelay(true).ok();
    let header_timeout = limits.settings.header_timeout;
    let stream = match timeout(header_timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            debug!(%error, "webhook handshake failed");
            return;
        }
        Err(_) => return,
    };
    let settings = limits.settings.clone();
    let activity = Arc::new(Activity::new());
    let service = {
        let activity = Arc::clone(&activity);
        service_fn(move |request| {
            let (router, limits) = (Arc::clone(&router), Arc::clone(&limits));
            let running = activity.begin();
            async move {
                let response = respond(&router, &limits, request).await;
                drop(running);
                Ok::<_, Infallible>(response.map(Full::new))
            }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_concurrent_streams(MAX_STREAMS);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let close_timeout = tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                debug!(%error, "webhook connection failed");
            }
            return;
        }
        () = activity.idle(&settings) => CLOSE_TIMEOUT,
        _ = stopped.wait_for(|&stopped| stopped) => settings.shutdown_timeout,
    };
    connection.as_mut().graceful_shutdown();
    timeout(close_timeout, connection).await.ok();
}

/// The requests of a connection, to detect that it is idle.
struct Activity(Mutex<State>);

struct State {
    running: usize,
    /// When the last request ended.
    last: Option<Instant>,
    opened: Instant,
}

impl Activity {
    fn new() -> Self {
        Self(Mutex::new(State {
            running: 0,
            last: None,
            opened: Instant::now(),
        }))
    }

    fn begin(self: &Arc<Self>) -> Running {
        self.change(|state| state.running += 1);
        Running(Arc::clone(self))
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the connection is idle for too long.
    async fn idle(&self, settings: &Settings) {
        loop {
            let until = self.change(|state| match (state.running, state.last) {
                (0, None) => state.opened + settings.header_timeout,
                (0, Some(last)) => last + settings.idle_timeout,
                _ => Instant::now() + settings.idle_timeout,
            });
            if until <= Instant::now() {
                return;
            }
            // A request may end meanwhile, after which the connection is idle earlier.
            sleep_until(until.min(Instant::now() + settings.idle_timeout)).await;
        }
    }
}

/// A request that runs. It ends when this is dropped.
struct Running(Arc<Activity>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.running -= 1;
            state.last = Some(Instant::now());
        });
    }
}

async fn respond(router: &Router, limits: &Limits, request: Request<Incoming>) -> Response<Bytes> {
    let (head, body) = request.into_parts();
    let route = match router.route(&head) {
        Ok(route) => route,
        Err(refusal) => return *refusal,
    };
    let settings = &limits.settings;
    let declared = head.headers.get(CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > settings.max_body_bytes) {
        return too_large(settings.max_body_bytes);
    }
    let (body, _bytes) = match timeout(settings.body_timeout, read(body, limits)).await {
        Ok(Ok(read)) => read,
        Ok(Err(refusal)) => return *refusal,
        Err(_) => {
            let text = "the body did not arrive in time";
            return plain(StatusCode::REQUEST_TIMEOUT, text);
        }
    };
    let handled = async {
        let _permit = limits.requests.acquire().await;
        // Only the API server of this process is trusted to name the space of an object.
        route.respond(body, None).await
    };
    match timeout(settings.handler_timeout, handled).await {
        Ok(response) => response,
        Err(_) => plain(
            StatusCode::GATEWAY_TIMEOUT,
            "the handler did not respond in time",
        ),
    }
}

/// Reads a body. Its bytes count until the permit is dropped.
async fn read(
    mut body: Incoming,
    limits: &Limits,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Box<Response<Bytes>>> {
    let max = limits.settings.max_body_bytes;
    let mut buffer = BytesMut::new();
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let text = format!("the body cannot be read: {error}");
            Box::new(plain(StatusCode::BAD_REQUEST, &text))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if buffer.len() + data.len() > max {
            return Err(Box::new(too_large(max)));
        }
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(&limits.bytes).try_acquire_many_owned(count) else {
            let text = "too many bodies are being read";
            return Err(Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, text)));
        };
        match &mut held {
            Some(held) => held.merge(permit),
            None => held = Some(permit),
        }
        buffer.extend_from_slice(&data);
    }
    Ok((buffer.freeze(), held))
}

fn too_large(max: usize) -> Response<Bytes> {
    let text = format!("the body is larger than {max} bytes");
    plain(StatusCode::PAYLOAD_TOO_LARGE, &text)
}
