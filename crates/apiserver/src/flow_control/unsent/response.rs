//! One response on its way to a client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use insula_core::Space;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{CutReason, UnsentPool};
use crate::flow_control::connection_tracker::InFlight;

/// A response from its start until the socket has taken its last byte.
#[derive(Debug)]
pub struct OutgoingResponse {
    pool: Arc<UnsentPool>,
    payer: Option<Space>,
    number: u64,
    in_flight: InFlight,
    progress: Mutex<Progress>,
    cut: Notify,
}

#[derive(Debug)]
struct Progress {
    /// How much longer the client may keep the response waiting.
    allowance: Duration,
    waiting_since: Option<Instant>,
    /// Whether the response has a stream that can be reset. Otherwise the connection is closed.
    has_stream: bool,
}

/// Bytes on their way to the socket, charged until they are dropped.
#[derive(Debug)]
pub struct UnsentBytes {
    bytes: Bytes,
    charged: usize,
    response: Option<Arc<OutgoingResponse>>,
}

impl OutgoingResponse {
    pub(super) fn new(
        pool: Arc<UnsentPool>,
        payer: Option<Space>,
        number: u64,
        in_flight: InFlight,
    ) -> Arc<Self> {
        let progress = Progress {
            allowance: pool.stalled,
            waiting_since: None,
            has_stream: false,
        };
        Arc::new(Self {
            pool,
            payer,
            number,
            in_flight,
            progress: Mutex::new(progress),
            cut: Notify::new(),
        })
    }

    /// The request that is answered.
    pub const fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Charges the bytes that the body holds now, instead of those it held before.
    pub fn set_held(&self, held: usize) {
        self.pool.set_held(&self.payer, self.number, held);
    }

    /// Charges a piece of the body that was produced for the transport.
    pub fn charge(self: &Arc<Self>, bytes: Bytes) -> UnsentBytes {
        let charged = bytes.len();
        self.pool.charge(&self.payer, self.number, charged);
        UnsentBytes {
            bytes,
            charged,
            response: Some(Arc::clone(self)),
        }
    }

    /// Passes a piece to the transport that is charged elsewhere or shared by many responses.
    pub fn pass(self: &Arc<Self>, bytes: Bytes) -> UnsentBytes {
        UnsentBytes {
            bytes,
            charged: 0,
            response: Some(Arc::clone(self)),
        }
    }

    /// Notes that the response waits for its client. Returns when it is cut off for that.
    pub fn await_client(&self) -> Instant {
        let mut progress = self.progress();
        let since = *progress.waiting_since.get_or_insert_with(Instant::now);
        since + progress.allowance
    }

    /// Notes that the client has taken this many bytes. If `in_all`, the time that it has left is
    /// for the whole response, and grows with what it takes; otherwise it begins anew.
    pub fn client_took(&self, bytes: usize, in_all: bool) {
        let mut progress = self.progress();
        let Some(since) = progress.waiting_since.take() else {
            return;
        };
        progress.allowance = match in_all {
            true => {
                let earned = Duration::from_secs_f64(bytes as f64 / self.pool.rate());
                let left = progress.allowance.saturating_sub(since.elapsed());
                // What was taken fast pays for no longer wait than any response has.
                (left + earned).min(self.pool.stalled)
            }
            false => self.pool.stalled,
        };
    }

    /// Notes whether the response has a stream of its own, which can be reset.
    pub fn set_has_stream(&self, has_stream: bool) {
        self.progress().has_stream = has_stream;
    }

    /// Whether the response may produce its next piece.
    pub fn may_grow(&self) -> bool {
        self.pool.may_grow(&self.payer)
    }

    /// Waits until the response may produce its next piece. If that takes as long as a client may
    /// stall, the response is cut off.
    pub async fn await_growth(&self) {
        let growth = self.pool.await_growth(&self.payer);
        if tokio::time::timeout(self.pool.stalled, growth)
            .await
            .is_err()
        {
            self.count_cut(CutReason::Pressure);
            self.cut();
            std::future::pending::<()>().await;
        }
    }

    /// Completes when the stream is to be reset because of what the response holds.
    pub async fn is_cut(&self) {
        self.cut.notified().await;
    }

    /// Counts that the response was cut off.
    pub fn count_cut(&self, reason: CutReason) {
        self.pool.count_cut(reason);
    }

    /// Ends the response: its stream is reset, or its connection closed.
    pub fn cut(&self) {
        if self.progress().has_stream {
            self.cut.notify_one();
        } else {
            self.in_flight.close_connection();
        }
    }

    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.progress().waiting_since
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OutgoingResponse {
    fn drop(&mut self) {
        self.pool.remove(&self.payer, self.number);
    }
}

impl UnsentBytes {
    /// Bytes that are not charged, such as the empty end of a response.
    pub const fn empty() -> Self {
        Self {
            bytes: Bytes::new(),
            charged: 0,
            response: None,
        }
    }

    /// Splits off the first `length` bytes, with their charge.
    #[must_use]
    pub fn split_to(&mut self, length: usize) -> Self {
        let bytes = self.bytes.split_to(length);
        let charged = self.charged.min(length);
        self.charged -= charged;
        Self {
            bytes,
            charged,
            response: self.response.clone(),
        }
    }

    /// The bytes themselves, which stay charged while this value exists.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl Buf for UnsentBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        if let Some(response) = &self.response {
            let pool = &response.pool;
            pool.release(&response.payer, response.number, self.charged);
        }
    }
}
