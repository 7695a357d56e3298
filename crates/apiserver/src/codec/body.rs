//! Bodies of answers: whole, assembled while they are sent, or endless.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use http_body::{Frame, SizeHint};

use crate::codec::list::{FIRST_PIECE, List, PIECE};
use crate::flow_control::{Seat, TimeSlices};

/// The body of an answer.
pub enum Body {
    /// Bytes.
    Whole(Option<Bytes>),
    /// A list that is encoded as fast as the client reads it.
    List(Box<List>),
    /// A stream.
    Stream(PieceStream),
    /// A watch.
    Watch(Watch),
    /// A large body that is sent in turns with other spaces.
    Paced(Box<Paced>),
    /// A body that holds something until it is dropped.
    Counted(Box<Counted>),
}

/// The pieces of a body.
pub type PieceStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The events of a watch, and what ends it.
pub struct Watch {
    events: PieceStream,
    control: Arc<dyn WatchControl>,
}

/// A watch as seen by the transport, which must end it even if the client reads nothing.
pub trait WatchControl: Send + Sync {
    /// Completes when the watch is over: at its timeout, or when the caller has lost its right.
    fn is_over(&self) -> BoxFuture<'static, ()>;

    /// The bytes that it holds for the objects that it has yet to send.
    fn held_bytes(&self) -> usize;
}

/// A body that is sent in turns.
pub struct Paced {
    body: Body,
    /// The turn, held while there is something to send.
    turns: Option<TimeSlices>,
}

/// A body, and what it holds until it is dropped: a seat, or what is written at its end.
pub struct Counted {
    body: Body,
    _held: Box<dyn Send + Sync>,
}

/// The size from which on a body is sent in turns. Less is sent within a millisecond.
const MIN_PACED: u64 = 512 << 10;

impl Body {
    /// An empty body.
    pub const fn empty() -> Self {
        Self::Whole(None)
    }

    /// Sends the body in turns, if it is large.
    #[must_use]
    pub fn paced(self, turns: TimeSlices) -> Self {
        match http_body::Body::size_hint(&self).exact() {
            Some(length) if length < MIN_PACED => self,
            _ => {
                let turns = Some(turns);
                Self::Paced(Box::new(Paced { body: self, turns }))
            }
        }
    }

    /// Holds a seat until the body is dropped.
    #[must_use]
    pub fn counted(self, seat: Seat) -> Self {
        self.holding(Box::new(seat))
    }

    /// Holds a value until the body is dropped.
    #[must_use]
    pub fn holding(self, held: Box<dyn Send + Sync>) -> Self {
        Self::Counted(Box::new(Counted {
            body: self,
            _held: held,
        }))
    }

    /// Returns a copy of the body if it has at most this many bytes. A list is encoded for that.
    pub fn whole(&mut self, max_bytes: usize) -> Option<Bytes> {
        if let Self::List(list) = self {
            *self = list.take_whole(max_bytes)?.into();
        }
        match self {
            Self::Whole(Some(bytes)) if bytes.len() <= max_bytes => {
                Some(Bytes::copy_from_slice(bytes))
            }
            Self::Whole(None) => Some(Bytes::new()),
            _ => None,
        }
    }

    /// Whether the body has no end of its own: a watch.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::Whole(_) | Self::List(_) => false,
            Self::Stream(_) | Self::Watch(_) => true,
            Self::Paced(paced) => paced.body.is_endless(),
            Self::Counted(counted) => counted.body.is_endless(),
        }
    }

    /// A watch that the transport can end.
    pub fn watch(events: PieceStream, control: Arc<dyn WatchControl>) -> Self {
        Self::Watch(Watch { events, control })
    }

    /// What ends the body of a watch.
    pub fn watch_control(&self) -> Option<&Arc<dyn WatchControl>> {
        match self {
            Self::Whole(_) | Self::List(_) | Self::Stream(_) => None,
            Self::Watch(watch) => Some(&watch.control),
            Self::Paced(paced) => paced.body.watch_control(),
            Self::Counted(counted) => counted.body.watch_control(),
        }
    }

    /// The bytes that the body holds before it is sent. Objects of the cache are counted as
    /// references.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Self::List(list) => list.held_bytes(),
            Self::Stream(_) => 0,
            Self::Watch(watch) => watch.control.held_bytes(),
            Self::Paced(paced) => paced.body.held_bytes(),
            Self::Counted(counted) => counted.body.held_bytes(),
        }
    }

    /// Whether the bytes of the body exist anyway, such as those of a document that all clients
    /// get.
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_some_and(|bytes| !bytes.is_unique()),
            Self::List(_) | Self::Stream(_) | Self::Watch(_) => false,
            Self::Paced(paced) => paced.body.is_shared(),
            Self::Counted(counted) => counted.body.is_shared(),
        }
    }

    /// Whether the pieces of the body are produced while it is read.
    pub fn is_produced_in_pieces(&self) -> bool {
        match self {
            Self::Whole(_) | Self::Stream(_) => false,
            Self::List(_) | Self::Watch(_) => true,
            Self::Paced(paced) => paced.body.is_produced_in_pieces(),
            Self::Counted(counted) => counted.body.is_produced_in_pieces(),
        }
    }

    /// Is ready while the body may be sent in its turn.
    pub fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Whole(_) | Self::List(_) | Self::Stream(_) | Self::Watch(_) => Poll::Ready(()),
            Self::Paced(paced) => match &mut paced.turns {
                Some(turns) => turns.poll(context),
                None => Poll::Ready(()),
            },
            Self::Counted(counted) => counted.body.poll_turn(context),
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::List(list) => Poll::Ready(list.next_piece()),
            Self::Stream(stream) => stream.as_mut().poll_next(context),
            Self::Watch(watch) => watch.events.as_mut().poll_next(context),
            Self::Paced(paced) => paced.poll_piece(context),
            Self::Counted(counted) => counted.body.poll_piece(context),
        }
    }
}

impl Paced {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(turns) = &mut self.turns {
            ready!(turns.poll(context));
        }
        let piece = match &mut self.body {
            // The transport would take all of it at once otherwise.
            Body::Whole(Some(bytes)) if bytes.len() > PIECE => {
                Poll::Ready(Some(bytes.split_to(PIECE)))
            }
            body => body.poll_piece(context),
        };
        let told = !matches!(piece, Poll::Ready(Some(_)));
        if told || http_body::Body::is_end_stream(&self.body) {
            // The initial state of a watch ends here. The events that follow are small.
            self.turns = None;
        }
        piece
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes))
    }
}

impl From<List> for Body {
    /// A short list is encoded at once: its length is sent before it.
    fn from(mut list: List) -> Self {
        let whole = match list.left() {
            None => list.take_whole(FIRST_PIECE),
            Some(_) => None,
        };
        match whole {
            Some(whole) => whole.into(),
            None => Self::List(Box::new(list)),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.poll_piece(context);
        next.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::List(list) => list.is_over(),
            Self::Stream(_) | Self::Watch(_) => false,
            Self::Paced(paced) => paced.body.is_end_stream(),
            Self::Counted(counted) => counted.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::List(list) => match list.left() {
                Some(left) => SizeHint::with_exact(left),
                None => SizeHint::default(),
            },
            Self::Stream(_) | Self::Watch(_) => SizeHint::default(),
            Self::Paced(paced) => paced.body.size_hint(),
            Self::Counted(counted) => counted.body.size_hint(),
        }
    }
}
