//! Reading the body of a request.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::Instant;

use crate::flow_control::Limits;
use crate::status::{Result, StatusError};

/// The most bytes of a request body.
pub const MAX_BODY: usize = 3 << 20;

/// Reads a body of at most [`MAX_BODY`] bytes, as long as it arrives at the required rate.
pub async fn receive<B>(body: B, limits: &Limits) -> Result<Bytes>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(Limited::new(body, MAX_BODY));
    let mut due = Instant::now() + limits.body_grace;
    let mut received = Pieces::default();
    loop {
        let frame = tokio::time::timeout_at(due, body.frame()).await;
        let data = match frame.map_err(|_| StatusError::too_slow())? {
            None => return Ok(received.whole()),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(StatusError::too_large(&format!("limit is {MAX_BODY}")));
            }
            Some(Err(error)) => {
                let why = format!("the body could not be read: {error}");
                return Err(StatusError::bad_request(why));
            }
        };
        due += Duration::from_secs(1).mul_f64(data.len() as f64 / f64::from(limits.body_rate));
        received.push(data);
    }
}

/// The received part of a body. Most bodies have one chunk, which is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    rest: BytesMut,
}

impl Pieces {
    fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
            return;
        }
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&self.first);
        }
        self.rest.extend_from_slice(&piece);
    }

    fn whole(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        self.rest.freeze()
    }
}
