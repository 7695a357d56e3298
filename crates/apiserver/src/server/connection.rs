//! A connection: its TLS handshake, its HTTP limits and its timeouts.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::flow_control::connection_tracker::{ConnectionAction, InFlight, TrackedConnection};

use crate::codec::body::Body;
use crate::flow_control::Connections;
use crate::handler::{self, App, Source};
use crate::server::websocket;

/// Signals the shutdown to all connections, and knows when they have ended.
#[derive(Debug, Default)]
pub struct Ending(watch::Sender<()>);

/// A response body, and the request in flight that it belongs to.
pub struct Sent {
    body: Body,
    in_flight: InFlight,
    endless: bool,
}

/// How long a connection may take to drain.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one connection, in a task of its own, if there is room for it.
pub fn connect(stream: TcpStream, tls: &TlsAcceptor, app: &Arc<App>, ending: &Ending) {
    let Some(tracked) = app.connections.accept() else {
        return;
    };
    let (tls, app, shutdown) = (tls.clone(), Arc::clone(app), ending.0.subscribe());
    tokio::spawn(async move {
        let limits = app.limits.connections;
        stream.set_nodelay(true).ok();
        let handshake = tokio::select! {
            handshake = tokio::time::timeout(limits.handshake, tls.accept(stream)) => handshake,
            () = tracked.evicted() => return,
        };
        match handshake {
            Ok(Ok(stream)) => {
                tracked.handshake_done();
                serve(stream, &app, &tracked, shutdown).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => app.connections.count_too_slow(),
        }
    });
}

impl Ending {
    /// Drains every connection, and waits until all have ended.
    pub async fn all(self) {
        self.0.send(()).ok();
        self.0.closed().await;
    }
}

async fn serve(
    stream: TlsStream<TcpStream>,
    app: &Arc<App>,
    tracked: &Arc<TrackedConnection>,
    mut shutdown: watch::Receiver<()>,
) {
    let shown = stream.get_ref().1.peer_certificates();
    let peer = app.authenticator.peer(shown);
    let peer = match stream.get_ref().0.peer_addr() {
        Ok(address) => peer.at(address.ip()),
        Err(_) => peer,
    };
    let from = Arc::new(Source {
        peer,
        connection: Arc::clone(tracked),
    });
    let switched = Arc::new(Mutex::new(None));
    let service = service_fn(|mut request| {
        let (app, from) = (Arc::clone(app), Arc::clone(&from));
        let switched = Arc::clone(&switched);
        let in_flight = tracked.begin();
        async move {
            let upgrade = websocket::UpgradeRequest::of(&mut request);
            let mut response = handler::serve(&app, &from, request).await;
            if let Some(upgrade) = upgrade {
                let frames;
                (response, frames) = upgrade.switch(response);
                *switched.lock().unwrap_or_else(PoisonError::into_inner) = frames;
            }
            Ok::<_, Infallible>(sent(response, in_flight))
        }
    });
    let builder = builder(&app.limits.connections);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut next_check = pin!(tokio::time::sleep_until(first_check(tracked)));
    let mut ends = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection closed");
                }
                break;
            }
            () = tracked.evicted() => return,
            _ = shutdown.changed(), if !ends => {
                ends = true;
                connection.as_mut().graceful_shutdown();
            }
            () = next_check.as_mut() => {
                let now = Instant::now();
                match tracked.check_timeouts(now) {
                    ConnectionAction::CheckAgain(until) => next_check.as_mut().reset(until),
                    ConnectionAction::Drain if !ends => {
                        ends = true;
                        connection.as_mut().graceful_shutdown();
                        next_check.as_mut().reset(now + DRAIN_TIMEOUT);
                    }
                    ConnectionAction::Drain => return,
                    ConnectionAction::Abort => {
                        app.connections.count_too_slow();
                        return;
                    }
                }
            }
        }
    }
    let frames = switched
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    send_frames(frames, tracked).await;
}

/// Sends the frames of a watch after the upgrade to WebSocket, if there was one. They end with
/// the watch, which ends with the server.
async fn send_frames(frames: Option<websocket::Frames>, tracked: &Arc<TrackedConnection>) {
    let Some(frames) = frames else {
        return;
    };
    tokio::select! {
        () = frames.send() => {}
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

/// Returns the HTTP settings of a connection.
///
/// Rapid resets, continuation frames, empty data frames and error resets are limited by h2
/// itself. The defaults that matter are set here explicitly.
fn builder(limits: &Connections) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .max_headers(limits.header_count)
        // The headers must fit into this buffer.
        .max_buf_size((limits.header_bytes as usize).max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(1024)
        .max_send_buf_size(1 << 20)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(15));
    builder
}

fn sent(response: Response<Body>, in_flight: InFlight) -> Response<Sent> {
    response.map(|body| {
        let endless = body.is_endless();
        in_flight.answer(endless);
        Sent {
            body,
            in_flight,
            endless,
        }
    })
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if !self.endless {
            // The body is polled only when the client reads. While it waits for a time slice,
            // the client is not slow.
            self.in_flight.progress();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
