//! Bodies of answers: whole, assembled while they are sent, or endless.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::flow_control::{Seat, TimeSlices};
use crate::registry::resource::Resource;
use insula_cache::Stored;

/// The body of an answer.
pub enum Body {
    /// Bytes.
    Whole(Option<Bytes>),
    /// A list that is assembled as fast as the client reads it, so that a large list to a slow
    /// client is never copied whole.
    List(List),
    /// A stream.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    /// A large body that is sent in turns with other spaces.
    Paced(Box<Paced>),
    /// A watch, counted as open until the body is dropped.
    Counted(Box<Counted>),
}

/// A body that is sent in turns.
pub struct Paced {
    body: Body,
    /// The turn, held while there is something to send.
    turns: Option<TimeSlices>,
}

/// A body, and the seat that it holds.
pub struct Counted {
    body: Body,
    _seat: Seat,
}

/// A JSON list of cached objects.
pub struct List {
    kind: Resource,
    head: Bytes,
    items: std::vec::IntoIter<Arc<Stored>>,
    first: bool,
    tail: Option<Bytes>,
    left: u64,
}

/// The bytes of a list that are assembled at once: large enough that the overhead per piece does
/// not matter, small enough that a thousand slow clients hold little.
const PIECE: usize = 128 << 10;

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
        Self::Counted(Box::new(Counted {
            body: self,
            _seat: seat,
        }))
    }

    /// Whether the body has no end of its own: a watch.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::Whole(_) | Self::List(_) => false,
            Self::Stream(_) => true,
            Self::Paced(paced) => paced.body.is_endless(),
            Self::Counted(counted) => counted.body.is_endless(),
        }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::List(list) => Poll::Ready(list.next()),
            Self::Stream(stream) => stream.as_mut().poll_next(context),
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

impl List {
    /// A list of `head`, the items without their kinds, and `tail`.
    pub fn new(kind: &Resource, head: Bytes, items: Vec<Arc<Stored>>, tail: Bytes) -> Self {
        let commas = items.len().saturating_sub(1);
        let bodies: usize = items.iter().map(|item| item.item_length(kind) + 1).sum();
        let left = (head.len() + bodies + commas + tail.len()) as u64;
        Self {
            kind: kind.clone(),
            head,
            items: items.into_iter(),
            first: true,
            tail: Some(tail),
            left,
        }
    }

    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let room = usize::try_from(self.left)
            .unwrap_or(PIECE)
            .min(PIECE + (8 << 10));
        let mut piece = BytesMut::with_capacity(room);
        piece.put_slice(&std::mem::take(&mut self.head));
        while piece.len() < PIECE {
            let Some(object) = self.items.next() else {
                piece.put_slice(&self.tail.take().unwrap_or_default());
                break;
            };
            piece.put_slice(if self.first { b"{" } else { b",{" });
            self.first = false;
            object.write_item(&self.kind, &mut piece);
        }
        self.left = self.left.saturating_sub(piece.len() as u64);
        Some(piece.freeze())
    }

    /// Assembles the whole list.
    pub fn collect(mut self) -> Bytes {
        let mut whole = BytesMut::with_capacity(usize::try_from(self.left).unwrap_or(0));
        while let Some(piece) = self.next() {
            whole.put_slice(&piece);
        }
        whole.freeze()
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
            Self::List(list) => list.left == 0,
            Self::Stream(_) => false,
            Self::Paced(paced) => paced.body.is_end_stream(),
            Self::Counted(counted) => counted.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::List(list) => SizeHint::with_exact(list.left),
            Self::Stream(_) => SizeHint::default(),
            Self::Paced(paced) => paced.body.size_hint(),
            Self::Counted(counted) => counted.body.size_hint(),
        }
    }
}
