//! A response body on its way to the client, and what it holds.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use tokio::task::AbortHandle;

use crate::codec::answer::Payer;
use crate::codec::body::Body;
use crate::flow_control::connection_tracker::InFlight;
use crate::flow_control::unsent::{CutReason, OutgoingResponse, UnsentBytes, UnsentPool};
use crate::handler::{App, Source};

/// A response body, charged to the space of the caller.
pub struct OutgoingBody {
    body: Body,
    response: Arc<OutgoingResponse>,
    is_endless: bool,
    /// Whether the bytes of the body exist without this response.
    is_shared: bool,
    /// The length of the last piece.
    piece: usize,
    /// The bytes that are charged for what the body holds.
    held: usize,
    end: Option<EndTask>,
    /// The wait for room in the space's share of unsent bytes.
    room: Option<BoxFuture<'static, ()>>,
}

/// A task that closes the connection when a watch is over, and ends with the body.
struct EndTask(AbortHandle);

/// What a response costs beside its bytes: its task and its headers.
const OVERHEAD: usize = 2 << 10;

/// How long a client has to read the end of a watch that is over.
const END_GRACE: Duration = Duration::from_secs(1);

impl OutgoingBody {
    /// A body that is charged to `payer`.
    pub fn new(
        pool: &Arc<UnsentPool>,
        payer: Option<Payer>,
        in_flight: InFlight,
        body: Body,
    ) -> Self {
        let is_endless = body.is_endless();
        let is_shared = body.is_shared();
        in_flight.await_server(is_endless);
        let payer = payer.map(|Payer(space)| space);
        let response = pool.begin(payer, in_flight, 0);
        let mut body = Self {
            body,
            response,
            is_endless,
            is_shared,
            piece: 0,
            held: 0,
            end: None,
            room: None,
        };
        body.charge_held();
        body
    }

    /// The same for the response to a request. It is charged to the caller's space, or else to
    /// that of the connection's first caller.
    pub fn of(
        app: &App,
        source: &Source,
        in_flight: InFlight,
        response: Response<Body>,
    ) -> Response<Self> {
        let (mut parts, body) = response.into_parts();
        let payer = parts.extensions.remove::<Payer>();
        let payer = payer.or_else(|| source.connection.space().cloned().map(Payer));
        let body = Self::new(&app.unsent, payer, in_flight, body);
        Response::from_parts(parts, body)
    }

    /// The state of the response.
    pub const fn response(&self) -> &Arc<OutgoingResponse> {
        &self.response
    }

    /// Closes the connection when the body is that of a watch and the watch is over, even if the
    /// client reads nothing.
    #[must_use]
    pub fn closing_at_end(mut self) -> Self {
        if let Some(over) = self.watch_over() {
            let response = Arc::downgrade(&self.response);
            let task = tokio::spawn(async move {
                over.await;
                if let Some(response) = response.upgrade() {
                    response.count_cut(CutReason::WatchOver);
                    response.cut();
                }
            });
            self.end = Some(EndTask(task.abort_handle()));
        }
        self
    }

    /// Returns a future that completes when the watch is over and its client had the time to read
    /// its end; `None` if the body is no watch.
    pub fn watch_over(&self) -> Option<BoxFuture<'static, ()>> {
        let over = self.body.watch_control()?.is_over();
        Some(Box::pin(async move {
            over.await;
            tokio::time::sleep(END_GRACE).await;
        }))
    }

    /// Whether the body has no end of its own: a watch.
    pub const fn is_endless(&self) -> bool {
        self.is_endless
    }

    /// Notes that the client has taken the last piece.
    pub fn client_took_piece(&self) {
        // A response that holds objects must not hold them for ever, piece by piece. Beyond its
        // initial state, a watch holds none.
        let in_all = !self.is_endless || self.body.held_bytes() > 0;
        self.response.client_took(self.piece, in_all);
    }

    /// Returns the next piece when there is one.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<UnsentBytes>> {
        ready!(self.poll_room(context));
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let Some(Ok(frame)) = ready!(polled) else {
            return Poll::Ready(None);
        };
        let bytes = frame.into_data().unwrap_or_default();
        self.piece = bytes.len();
        let piece = match self.is_shared {
            true => self.response.pass(bytes),
            false => self.response.charge(bytes),
        };
        self.charge_held();
        Poll::Ready(Some(piece))
    }

    /// Is ready when the space has room for a piece that is yet to be produced.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.body.is_produced_in_pieces() {
            return Poll::Ready(());
        }
        loop {
            if let Some(room) = &mut self.room {
                ready!(room.as_mut().poll(context));
                self.room = None;
            }
            // The turn comes first: a body that waits for its turn must be polled when it is
            // there, and others may have taken the room meanwhile.
            ready!(self.body.poll_turn(context));
            if self.response.may_grow() {
                return Poll::Ready(());
            }
            self.room = Some(self.await_room());
        }
    }

    /// Waits for room, at most until the watch is over.
    fn await_room(&self) -> BoxFuture<'static, ()> {
        let response = Arc::downgrade(&self.response);
        let over = self.watch_over().filter(|_| self.end.is_none());
        Box::pin(async move {
            let Some(response) = response.upgrade() else {
                return;
            };
            let Some(over) = over else {
                return response.await_growth().await;
            };
            tokio::select! {
                () = response.await_growth() => {}
                () = over => {
                    response.count_cut(CutReason::WatchOver);
                    response.cut();
                    std::future::pending().await
                }
            }
        })
    }

    fn charge_held(&mut self) {
        let overhead = if self.is_endless { 0 } else { OVERHEAD };
        let held = if self.is_shared {
            0
        } else {
            self.body.held_bytes()
        };
        // All spaces share the lock, and what a watch holds does not change with its events.
        if overhead + held != self.held {
            self.held = overhead + held;
            self.response.set_held(self.held);
        }
    }
}

/// The body as HTTP/1 sends it: it is polled when the transport has room, so the time between two
/// pieces is the client's.
impl http_body::Body for OutgoingBody {
    type Data = UnsentBytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<UnsentBytes>, Self::Error>>> {
        self.client_took_piece();
        self.response.in_flight().await_server(self.is_endless);
        let piece = ready!(self.poll_piece(context));
        let until = self.response.await_client();
        self.response.in_flight().await_client(until);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for EndTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
