//! The webhook backend: events are posted to a collector as an `EventList` of `audit.k8s.io/v1`.
//!
//! In batch mode requests never wait for the collector: events are buffered, and dropped and
//! counted when the buffer is full. In the blocking modes each event is posted before the request
//! goes on.

mod queue;
mod throttle;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use self::throttle::Throttle;

use self::queue::Queue;
use self::throttle::TokenBucket;
use super::line::Line;
use super::truncation::Truncation;
use crate::egress::{Endpoint, PostError};

/// Whether requests wait for the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebhookMode {
    /// Events are buffered and sent in batches.
    #[default]
    Batch,
    /// Each event is sent before the response.
    Blocking,
    /// The same, and a request fails if its first event is not taken.
    BlockingStrict,
}

/// The settings of the webhook backend. The defaults are those of Kubernetes.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookSettings {
    /// Whether requests wait.
    pub mode: WebhookMode,
    /// The most events of a batch.
    pub max_batch_events: usize,
    /// How long a batch waits for more events.
    pub max_wait: Duration,
    /// The most events in the buffer.
    pub buffer_events: usize,
    /// The rate of batches.
    pub throttle: Option<Throttle>,
    /// The delay before the first retry.
    pub initial_backoff: Duration,
    /// The size that events are truncated to.
    pub truncation: Option<Truncation>,
}

/// Counters of the webhook backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebhookCounts {
    /// Events that the collector has taken.
    pub sent: u64,
    /// Events that were dropped because the buffer was full.
    pub dropped: u64,
    /// Events that the collector did not take, after all retries.
    pub failed: u64,
    /// Events in the buffer.
    pub buffered: u64,
}

/// The webhook backend.
#[derive(Debug)]
pub struct Webhook {
    shared: Arc<Shared>,
    /// Closed when the task ends, which holds the other end.
    ended: watch::Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    settings: WebhookSettings,
    queue: Queue,
    closing: watch::Sender<bool>,
    failing: AtomicBool,
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

/// The most bytes of a batch, and of the buffer: events may have bodies.
const MAX_BATCH_BYTES: usize = 10 << 20;
const MAX_BUFFERED_BYTES: usize = 64 << 20;

/// The most batches that are sent at once.
const MAX_IN_FLIGHT: usize = 4;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The most attempts to send a batch, and the growth of the delay between them.
const MAX_ATTEMPTS: u32 = 5;
const BACKOFF_FACTOR: f64 = 1.5;
const BACKOFF_JITTER: f64 = 0.2;

/// The most events of a batch that are refused even without bodies before the collector is taken
/// to refuse all of them.
const MAX_REFUSED: usize = 4;

const HEAD: &[u8] =
    br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;

/// The members that an event of a list does not have.
const EVENT_KIND: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            mode: WebhookMode::Batch,
            max_batch_events: 400,
            max_wait: Duration::from_secs(30),
            buffer_events: 10_000,
            throttle: Some(Throttle {
                qps: 10.0,
                burst: 15,
            }),
            initial_backoff: Duration::from_secs(10),
            truncation: None,
        }
    }
}

impl Webhook {
    /// Starts the task that sends batches.
    pub fn start(endpoint: Endpoint, settings: WebhookSettings) -> Self {
        let max_bytes = settings
            .truncation
            .map_or(MAX_BATCH_BYTES, |limit| limit.max_batch_bytes);
        let shared = Arc::new(Shared {
            endpoint,
            queue: Queue::new(settings.buffer_events, MAX_BUFFERED_BYTES),
            settings,
            closing: watch::Sender::new(false),
            failing: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let (end, ended) = watch::channel(());
        let running = Arc::clone(&shared);
        tokio::spawn(async move {
            run(running, max_bytes.min(MAX_BATCH_BYTES)).await;
            drop(end);
        });
        Self { shared, ended }
    }

    /// Returns the size that events are truncated to.
    pub fn truncation(&self) -> Option<Truncation> {
        self.shared.settings.truncation
    }

    /// Buffers an event, or drops it if there is no room.
    pub fn push(&self, line: &[u8]) {
        if !self.shared.queue.push(Bytes::copy_from_slice(line)) {
            let before = self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            if before == 0 {
                tracing::error!("audit events dropped: webhook buffer full");
            }
        }
    }

    /// Hands over an event of a request. Returns `false` if the request must not be served
    /// without it.
    pub async fn deliver(&self, line: &[u8]) -> bool {
        if self.shared.settings.mode == WebhookMode::Batch {
            self.push(line);
            return true;
        }
        let taken = self.shared.send(&[Bytes::copy_from_slice(line)]).await;
        taken || self.shared.settings.mode == WebhookMode::Blocking
    }

    /// Sends what is buffered and ends. Batches that the collector does not take are tried once
    /// more, without delay.
    pub async fn close(&self) {
        self.shared.closing.send_replace(true);
        self.shared.queue.close();
        // No value is ever sent: the channel closes when the task ends.
        self.ended.clone().changed().await.ok();
    }

    /// Returns the counters.
    pub fn counts(&self) -> WebhookCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WebhookCounts {
            sent: read(&self.shared.sent),
            dropped: read(&self.shared.dropped),
            failed: read(&self.shared.failed),
            buffered: self.shared.queue.len() as u64,
        }
    }
}

impl Drop for Webhook {
    /// Ends the task once the buffer is sent.
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
        self.shared.queue.close();
    }
}

/// Sends batches until the backend is closed and the buffer empty.
async fn run(shared: Arc<Shared>, max_batch_bytes: usize) {
    let settings = &shared.settings;
    let mut closing = shared.closing.subscribe();
    let mut bucket = settings
        .throttle
        .map(|rate| TokenBucket::new(rate, Instant::now()));
    let mut sending = JoinSet::new();
    let (max_events, max_wait) = (settings.max_batch_events, settings.max_wait);
    loop {
        // With as many batches on their way as may be, events gather, and are dropped at last.
        while sending.len() >= MAX_IN_FLIGHT {
            sending.join_next().await;
        }
        let batch = shared.queue.take(max_events, max_batch_bytes, max_wait);
        let Some(batch) = batch.await else {
            break;
        };
        if let Some(bucket) = &mut bucket {
            let due = bucket.take(Instant::now());
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                _ = closing.wait_for(|closing| *closing) => {}
            }
        }
        let shared = Arc::clone(&shared);
        sending.spawn(async move { shared.send(&batch).await });
    }
    while sending.join_next().await.is_some() {}
}

impl Shared {
    /// Posts events, with retries. Returns whether the collector has taken all of them.
    async fn send(&self, events: &[Bytes]) -> bool {
        let mut unsent = events.to_vec();
        let mut closing = self.closing.subscribe();
        let mut delay = self.settings.initial_backoff;
        for attempt in 1..=MAX_ATTEMPTS {
            let is_closing = *closing.borrow();
            unsent = self.post(unsent).await;
            if unsent.is_empty() {
                return true;
            }
            if attempt == MAX_ATTEMPTS || is_closing {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(jittered(delay)) => {}
                _ = closing.wait_for(|closing| *closing) => {}
            }
            delay = delay.mul_f64(BACKOFF_FACTOR);
        }
        let count = unsent.len() as u64;
        self.failed.fetch_add(count, Ordering::Relaxed);
        tracing::error!(events = count, "audit events lost: webhook failed");
        false
    }

    /// Posts events once, and returns those that the collector has not taken.
    ///
    /// Events of many tenants share a batch. If the collector refuses its content, its halves are
    /// posted, and so on: an event that cannot be taken must not take others with it.
    async fn post(&self, events: Vec<Bytes>) -> Vec<Bytes> {
        let mut unsent = Vec::new();
        let mut parts = vec![events];
        let mut refused = 0;
        while let Some(mut part) = parts.pop() {
            match self.post_list(&part).await {
                Ok(()) => {}
                Err(error) if is_about_content(&error) && refused < MAX_REFUSED => {
                    if part.len() > 1 {
                        let rest = part.split_off(part.len() / 2);
                        parts.extend([rest, part]);
                        continue;
                    }
                    let rest = self.post_bare(part).await;
                    refused += rest.len();
                    unsent.extend(rest);
                }
                Err(_) => {
                    unsent.append(&mut part);
                    unsent.extend(parts.drain(..).rev().flatten());
                }
            }
        }
        unsent
    }

    /// Posts an event without its bodies, and returns that if the collector does not take it
    /// either.
    async fn post_bare(&self, mut event: Vec<Bytes>) -> Vec<Bytes> {
        let bare = |line: &Bytes| Line::parse(line)?.without_bodies();
        let Some(bare) = event.first().and_then(bare) else {
            return event;
        };
        event = vec![bare.into()];
        match self.post_list(&event).await {
            Ok(()) => Vec::new(),
            Err(_) => event,
        }
    }

    async fn post_list(&self, events: &[Bytes]) -> Result<(), PostError> {
        let posted = self.endpoint.post(event_list(events), CALL_TIMEOUT).await;
        match &posted {
            Ok(()) => {
                self.sent.fetch_add(events.len() as u64, Ordering::Relaxed);
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::warn!("audit webhook recovered");
                }
            }
            Err(error) => self.log_failure(error),
        }
        posted
    }

    /// Logs the first failure; the counters have the rest.
    fn log_failure(&self, error: &PostError) {
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::error!(%error, "audit webhook failed");
        }
    }
}

/// Whether the collector may take other events than those that it has refused.
fn is_about_content(error: &PostError) -> bool {
    matches!(error, PostError::Status(400 | 413 | 422))
}

/// Returns a list of events, without the kind in each: the list says it.
fn event_list(events: &[Bytes]) -> Bytes {
    let size: usize = events.iter().map(Bytes::len).sum();
    let mut body = Vec::with_capacity(HEAD.len() + size + 2);
    body.extend_from_slice(HEAD);
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        let event = event.strip_suffix(b"\n").unwrap_or(event);
        match event.strip_prefix(EVENT_KIND) {
            Some(rest) => {
                body.push(b'{');
                body.extend_from_slice(rest);
            }
            None => body.extend_from_slice(event),
        }
    }
    body.extend_from_slice(b"]}");
    body.into()
}

/// Lengthens a delay by up to a fifth, so that servers do not retry in step.
fn jittered(delay: Duration) -> Duration {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.subsec_nanos());
    let share = f64::from(nanos % 1000) / 1000.0;
    delay.mul_f64(1.0 + BACKOFF_JITTER * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_has_events_without_their_kinds() {
        let event = |id: &str| {
            let kind = r#""kind":"Event","apiVersion":"audit.k8s.io/v1""#;
            Bytes::from(format!("{{{kind},\"auditID\":\"{id}\"}}\n"))
        };
        let list = event_list(&[event("a"), event("b")]);
        let expected = concat!(
            r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"#,
            r#""items":[{"auditID":"a"},{"auditID":"b"}]}"#,
        );
        assert_eq!(list, expected);
    }
}
