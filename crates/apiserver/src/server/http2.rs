//! HTTP/2: one task per request, which can reset its stream.
//!
//! A client opens a window for each stream, and may open it by a byte and then never again. So the
//! body of a response is asked for a piece, and of that piece the transport gets what fits into
//! the window: it buffers nothing that only the client's window holds back. A response that waits
//! for its client ends when the client takes too long, when the watch is over, or when too much
//! is held for too many clients.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use h2::server::{Handshake, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, DATE, HeaderValue};
use http::{HeaderMap, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use crate::flow_control::Connections;
use crate::flow_control::connection_tracker::InFlight;
use crate::flow_control::unsent::{CutReason, UnsentBytes};
use crate::handler::{self, App, Source};
use crate::server::connection::Open;
use crate::server::date;
use crate::server::response::OutgoingBody;
use crate::server::write_buffer::{self, Flusher, WriteBuffer};

/// An HTTP/2 connection. It completes when the connection has ended.
pub struct Http2 {
    state: State,
    flusher: Flusher<TlsStream<TcpStream>>,
    has_events: Arc<AtomicBool>,
    /// Whether the connection was put off until its other watches have given their events.
    is_put_off: bool,
    app: Arc<App>,
    source: Arc<Source>,
    open: Open,
    is_draining: bool,
    /// Requests that were accepted since the last pause, while the space floods the server.
    accepted_in_flood: usize,
    /// Completes when a connection of a space that floods the server is served again.
    pause: Option<Pin<Box<Sleep>>>,
}

type Stream = WriteBuffer<TlsStream<TcpStream>>;

enum State {
    Handshake(Handshake<Stream, UnsentBytes>),
    Open {
        connection: h2::server::Connection<Stream, UnsentBytes>,
        /// Completes when the client answers no ping.
        dead: BoxFuture<'static, ()>,
    },
}

/// The body of a request.
struct RequestBody {
    stream: RecvStream,
    length: Option<u64>,
}

/// A response that is being sent on its stream.
struct Sender {
    stream: SendStream<UnsentBytes>,
    body: OutgoingBody,
    /// Tells the connection that events of watches are to be sent.
    has_events: Arc<AtomicBool>,
    /// Completes when the watch that is sent is over. It is made when the client first keeps the
    /// watch waiting, because few clients do.
    over: Option<BoxFuture<'static, ()>>,
}

/// The stream is closed: by the client, with the connection, or because it was reset.
struct Closed;

/// How many bytes of each stream, and of all streams of a connection, a client may send ahead.
/// Bodies wait in these windows until there is a seat to receive them.
const RECEIVE_WINDOW: u32 = 256 << 10;

/// The most bytes of one stream that the transport buffers while the socket is busy.
const MAX_SEND_BUFFER: usize = 128 << 10;

/// The most requests that a connection accepts before others have their turn.
const MAX_ACCEPTED: usize = 16;

/// How long a connection is not served after the requests that it may send in a flood. What the
/// client sends meanwhile waits in the socket, and so costs nothing.
const FLOOD_PAUSE: Duration = Duration::from_millis(250);
const MAX_ACCEPTED_IN_FLOOD: usize = 4;

const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

impl Http2 {
    /// Begins to serve a connection on which the client has asked for HTTP/2.
    pub fn new(
        stream: TlsStream<TcpStream>,
        app: &Arc<App>,
        source: &Arc<Source>,
        open: Open,
    ) -> Self {
        let (stream, flusher) = write_buffer::buffer(stream);
        Self {
            state: State::Handshake(builder(&app.limits.connections).handshake(stream)),
            flusher,
            has_events: Arc::default(),
            is_put_off: false,
            app: Arc::clone(app),
            source: Arc::clone(source),
            open,
            is_draining: false,
            accepted_in_flood: 0,
            pause: None,
        }
    }

    /// Accepts no more requests, and ends after those in flight.
    pub fn graceful_shutdown(&mut self) {
        self.is_draining = true;
        if let State::Open { connection, .. } = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    fn open(&mut self, mut connection: h2::server::Connection<Stream, UnsentBytes>) {
        if self.is_draining {
            connection.graceful_shutdown();
        }
        let dead: BoxFuture<'static, ()> = match connection.ping_pong() {
            Some(pings) => Box::pin(await_missing_pong(pings)),
            None => Box::pin(std::future::pending()),
        };
        self.state = State::Open { connection, dead };
    }

    fn accept(&mut self, request: Request<RecvStream>, respond: SendResponse<UnsentBytes>) {
        if self.app.is_flooded_by(&self.source.connection) {
            self.accepted_in_flood += 1;
            if self.accepted_in_flood >= MAX_ACCEPTED_IN_FLOOD {
                self.accepted_in_flood = 0;
                // A reset or a closed connection would cost more: the client connects again.
                self.pause = Some(Box::pin(tokio::time::sleep(FLOOD_PAUSE)));
            }
        }
        let (app, source) = (Arc::clone(&self.app), Arc::clone(&self.source));
        let in_flight = source.connection.begin();
        let connection = Arc::clone(&source.connection);
        let (open, has_events) = (self.open.clone(), Arc::clone(&self.has_events));
        connection.spawn(async move {
            serve_stream(app, source, in_flight, request, respond, has_events).await;
            drop(open);
        });
    }

    /// Whether the connection is polled again after the tasks that are ready now. A change often
    /// concerns many watches of a connection, and their events are sent together.
    fn is_put_off(&mut self, context: &Context<'_>) -> bool {
        let has_events = self.has_events.swap(false, Ordering::AcqRel);
        self.is_put_off = has_events && !self.is_put_off;
        if self.is_put_off {
            context.waker().wake_by_ref();
        }
        self.is_put_off
    }

    fn poll_connection(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut accepted = 0;
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match &mut self.state {
                State::Handshake(handshake) => {
                    let connection = ready!(Pin::new(handshake).poll(context));
                    self.open(connection.map_err(io::Error::other)?);
                }
                State::Open { connection, dead } => {
                    if dead.as_mut().poll(context).is_ready() {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    match ready!(connection.poll_accept(context)) {
                        Some(Ok((request, respond))) => {
                            self.accept(request, respond);
                            accepted += 1;
                            if accepted >= MAX_ACCEPTED {
                                // Other connections have their turn, and these requests take
                                // their tokens before more are accepted.
                                context.waker().wake_by_ref();
                                return Poll::Pending;
                            }
                        }
                        Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                        None => return Poll::Ready(Ok(())),
                    }
                }
            }
        }
    }
}

impl Future for Http2 {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_put_off(context) {
            return Poll::Pending;
        }
        let polled = self.poll_connection(context);
        // All that was written in this poll is sent together.
        if let Poll::Ready(Err(error)) = self.flusher.poll_flush(context) {
            return Poll::Ready(Err(error));
        }
        polled
    }
}

/// Returns the settings of a connection.
///
/// Floods of resets, of frames without content, and of headers that never end are limited by h2
/// itself. Answers to pings and settings are bounded too: h2 reads no frame before the answer to
/// the last one is written.
fn builder(limits: &Connections) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(RECEIVE_WINDOW)
        .initial_connection_window_size(RECEIVE_WINDOW)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(Some(1024))
        .max_send_buffer_size(MAX_SEND_BUFFER);
    builder
}

/// Completes when the client does not answer a ping.
async fn await_missing_pong(mut pings: PingPong) {
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        let answered = tokio::time::timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await;
        if !matches!(answered, Ok(Ok(_))) {
            return;
        }
    }
}

/// Serves one request.
async fn serve_stream(
    app: Arc<App>,
    source: Arc<Source>,
    in_flight: InFlight,
    request: Request<RecvStream>,
    mut respond: SendResponse<UnsentBytes>,
    has_events: Arc<AtomicBool>,
) {
    let length = content_length(request.headers());
    let request = request.map(|stream| RequestBody { stream, length });
    // Boxed, so that a watch does not keep the space for what came before it.
    let serve = Box::pin(handler::serve(&app, &source, request));
    let response = tokio::select! {
        response = serve => response,
        // The client has reset the stream or closed the connection.
        _ = poll_fn(|context| respond.poll_reset(context)) => return,
    };
    let response = OutgoingBody::of(&app, &source, in_flight, response);
    let (parts, body) = response.into_parts();
    let mut head = Response::from_parts(parts, ());
    complete(head.headers_mut(), &body);
    let ends = body.is_end_stream();
    match respond.send_response(head, ends) {
        Ok(stream) if !ends => Sender::new(stream, body, has_events).send().await,
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "response not sent"),
    }
}

/// Adds the headers that the transport knows.
fn complete(headers: &mut HeaderMap, body: &OutgoingBody) {
    if let Some(now) = date::header(jiff::Timestamp::now()) {
        headers.entry(DATE).or_insert(now);
    }
    if !body.is_end_stream()
        && let Some(length) = body.size_hint().exact()
    {
        let length = HeaderValue::from(length);
        headers.entry(CONTENT_LENGTH).or_insert(length);
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = ready!(self.stream.poll_data(context));
        Poll::Ready(polled.map(|received| {
            let bytes = received?;
            self.stream.flow_control().release_capacity(bytes.len())?;
            Ok(Frame::data(bytes))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.length {
            _ if self.stream.is_end_stream() => SizeHint::with_exact(0),
            Some(length) => SizeHint::with_exact(length),
            None => SizeHint::default(),
        }
    }
}

impl Sender {
    fn new(
        stream: SendStream<UnsentBytes>,
        body: OutgoingBody,
        has_events: Arc<AtomicBool>,
    ) -> Self {
        body.response().set_has_stream(true);
        Self {
            stream,
            body,
            has_events,
            over: None,
        }
    }

    /// Sends the body. What the transport then still buffers is within the client's windows and
    /// waits for the socket only, so from there on the connection's timeouts apply.
    async fn send(mut self) {
        let response = Arc::clone(self.body.response());
        if self.send_pieces().await.is_ok() {
            response.in_flight().await_client(response.await_client());
        }
        response.set_has_stream(false);
    }

    async fn send_pieces(&mut self) -> Result<(), Closed> {
        loop {
            let Some(piece) = self.next_piece().await? else {
                return self.give(UnsentBytes::empty(), true);
            };
            let is_last = self.body.is_end_stream();
            self.send_piece(piece, is_last).await?;
            if is_last {
                return Ok(());
            }
            self.body.client_took_piece();
            self.over = None;
        }
    }

    /// Returns the next piece when the server has one. Meanwhile the client is not slow.
    async fn next_piece(&mut self) -> Result<Option<UnsentBytes>, Closed> {
        let response = Arc::clone(self.body.response());
        let (stream, body) = (&mut self.stream, &mut self.body);
        let piece = poll_fn(|context| {
            if stream.poll_reset(context).is_ready() {
                return Poll::Ready(Err(Closed));
            }
            body.poll_piece(context).map(Ok)
        });
        tokio::select! {
            biased;
            piece = piece => return piece,
            () = response.is_cut() => {}
        }
        self.stream.send_reset(Reason::CANCEL);
        Err(Closed)
    }

    /// Gives a piece to the transport, as fast as the client's windows allow.
    async fn send_piece(&mut self, mut piece: UnsentBytes, is_last: bool) -> Result<(), Closed> {
        loop {
            self.stream.reserve_capacity(piece.remaining());
            let room = match self.stream.capacity() {
                0 if piece.has_remaining() => self.await_capacity().await?,
                room => room,
            };
            let part = piece.split_to(room.min(piece.remaining()));
            let is_whole = !piece.has_remaining();
            self.give(part, is_last && is_whole)?;
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Waits until the client takes more, or resets the stream if that takes too long.
    async fn await_capacity(&mut self) -> Result<usize, Closed> {
        let response = Arc::clone(self.body.response());
        let until = response.await_client();
        if self.over.is_none() {
            self.over = self.body.watch_over();
        }
        let stream = &mut self.stream;
        let reason = tokio::select! {
            biased;
            room = poll_fn(|context| poll_room(stream, context)) => return room,
            () = response.is_cut() => None,
            () = tokio::time::sleep_until(until) => Some(CutReason::Stalled),
            () = optional(self.over.as_mut()) => Some(CutReason::WatchOver),
        };
        if let Some(reason) = reason {
            response.count_cut(reason);
        }
        self.stream.send_reset(Reason::CANCEL);
        Err(Closed)
    }

    fn give(&mut self, bytes: UnsentBytes, ends: bool) -> Result<(), Closed> {
        if self.body.is_endless() {
            // Before the transport wakes the connection.
            self.has_events.store(true, Ordering::Release);
        }
        self.stream.send_data(bytes, ends).map_err(|_| Closed)
    }
}

/// Returns how many bytes the transport takes, once it takes any.
fn poll_room(
    stream: &mut SendStream<UnsentBytes>,
    context: &mut Context<'_>,
) -> Poll<Result<usize, Closed>> {
    loop {
        match ready!(stream.poll_capacity(context)) {
            Some(Ok(0)) => {}
            Some(Ok(room)) => return Poll::Ready(Ok(room)),
            Some(Err(_)) | None => return Poll::Ready(Err(Closed)),
        }
    }
}

/// Waits for a future, or for ever if there is none.
async fn optional(future: Option<&mut BoxFuture<'static, ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
