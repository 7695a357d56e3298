//! The backends that events go to.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::body::Bodies;
use super::line::Line;
use super::policy::{Level, Policy};
use super::sink::{Counts, Sink};
use super::truncation::Truncation;
use super::webhook::{Webhook, WebhookCounts};

/// The audit of all requests: what is recorded, and where.
#[derive(Debug, Default)]
pub struct Audit {
    policy: Option<Policy>,
    log: Option<Log>,
    webhook: Option<Webhook>,
    events: AtomicU64,
    levels: [AtomicU64; 4],
    rejected: AtomicU64,
    oversized: AtomicU64,
}

#[derive(Debug)]
struct Log {
    sink: Sink,
    truncation: Option<Truncation>,
}

/// Counters of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events of all requests.
    pub events: u64,
    /// Requests by the level that the policy gives them.
    pub levels: [(&'static str, u64); 4],
    /// Requests that were rejected because a backend did not take their event.
    pub rejected: u64,
    /// Events that are too large even without bodies, and were reduced.
    pub oversized: u64,
    /// The counters of the log.
    pub log: Option<Counts>,
    /// The counters of the webhook.
    pub webhook: Option<WebhookCounts>,
}

/// An event as a line of JSON, and without bodies if it is large.
pub struct Encoded {
    line: Vec<u8>,
    bare: Option<Vec<u8>>,
}

/// An event that is being delivered. Clients disconnect at any time, which cancels the request:
/// its event is then queued without waiting.
struct Due<'a> {
    audit: &'a Audit,
    event: Encoded,
    /// Whether the log is yet to get it.
    log: bool,
    /// Whether the webhook is yet to get it.
    webhook: bool,
}

/// Events larger than this wait for room in the log before they are queued, so that the queue is
/// bounded also with bodies.
const LARGE_EVENT_BYTES: usize = 16 << 10;

/// How long an event with bodies waits for room in the log before it loses them.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

impl Audit {
    /// An audit without backends. Without a policy, each request has one event without bodies.
    pub fn new(policy: Option<Policy>) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Sends the events to a log.
    #[must_use]
    pub fn with_log(mut self, sink: Sink, truncation: Option<Truncation>) -> Self {
        self.log = Some(Log { sink, truncation });
        self
    }

    /// Sends the events to a webhook.
    #[must_use]
    pub fn with_webhook(mut self, webhook: Webhook) -> Self {
        self.webhook = Some(webhook);
        self
    }

    /// Returns the policy.
    pub const fn policy(&self) -> Option<&Policy> {
        self.policy.as_ref()
    }

    /// Returns the file of the log, if events can be read back.
    pub fn log_file(&self) -> Option<&Path> {
        self.log.as_ref().and_then(|log| log.sink.file())
    }

    /// Waits until there is room for more events.
    pub async fn room(&self) {
        if let Some(log) = &self.log {
            log.sink.room().await;
        }
    }

    /// Encodes an event, also without its bodies if a backend may need that.
    pub(super) fn encode<'a>(
        &self,
        bodies: Bodies<'a>,
        encode: impl Fn(Bodies<'a>) -> Vec<u8>,
    ) -> Encoded {
        let line = encode(bodies);
        let has_bodies = bodies.request.is_some() || bodies.response.is_some();
        let bare = (has_bodies && line.len() > self.max_plain_bytes()).then(|| {
            encode(Bodies {
                truncated: true,
                ..Bodies::default()
            })
        });
        self.events.fetch_add(1, Ordering::Relaxed);
        Encoded { line, bare }
    }

    /// The size up to which every backend takes events as they are.
    fn max_plain_bytes(&self) -> usize {
        let log = self.log.as_ref().and_then(|log| log.truncation);
        let webhook = self.webhook.as_ref().and_then(Webhook::truncation);
        let limits = [log, webhook].into_iter().flatten();
        limits
            .map(|truncation| truncation.max_event_bytes)
            .fold(LARGE_EVENT_BYTES, usize::min)
    }

    /// Hands an event to the backends. Returns `false` if one that the request depends on has not
    /// taken it. If the request is cancelled meanwhile, the event is queued.
    pub(super) async fn deliver(&self, event: Encoded) -> bool {
        let mut due = Due {
            audit: self,
            event,
            log: true,
            webhook: true,
        };
        if let Some(log) = &self.log {
            let line = self.fitting(&due.event, log.truncation);
            log.write(&line, due.event.bare.as_deref()).await;
        }
        due.log = false;
        let taken = match &self.webhook {
            Some(webhook) => {
                let line = self.fitting(&due.event, webhook.truncation());
                webhook.deliver(&line).await
            }
            None => true,
        };
        due.webhook = false;
        taken
    }

    /// Hands an event to the backends without waiting.
    pub(super) fn push(&self, event: &Encoded) {
        self.push_to_log(event);
        self.push_to_webhook(event);
    }

    fn push_to_log(&self, event: &Encoded) {
        if let Some(log) = &self.log {
            let line = self.fitting(event, log.truncation);
            let is_large = line.len() > LARGE_EVENT_BYTES && !log.sink.has_room();
            let bare = event.bare.as_deref().filter(|_| is_large);
            log.sink.push(bare.unwrap_or(&line));
        }
    }

    fn push_to_webhook(&self, event: &Encoded) {
        if let Some(webhook) = &self.webhook {
            webhook.push(&self.fitting(event, webhook.truncation()));
        }
    }

    /// Returns the event within the limits of a backend. One that is too large even without bodies
    /// is counted, and reduced to the least that an event says: none is dropped.
    fn fitting<'a>(&self, event: &'a Encoded, truncation: Option<Truncation>) -> Cow<'a, [u8]> {
        let Some(truncation) = truncation else {
            return Cow::Borrowed(&event.line);
        };
        let versions = [Some(&event.line), event.bare.as_ref()];
        let fits = |line: &&Vec<u8>| line.len() <= truncation.max_event_bytes;
        if let Some(line) = versions.into_iter().flatten().find(fits) {
            return Cow::Borrowed(line);
        }
        if self.oversized.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!("audit event too large even without bodies");
        }
        let smallest = event.bare.as_ref().unwrap_or(&event.line);
        let minimal = Line::parse(smallest).and_then(|line| line.minimal());
        minimal.map_or(Cow::Borrowed(smallest), Cow::Owned)
    }

    /// Closes the backends and waits until they have all events.
    pub async fn close(&self) {
        let log = async {
            if let Some(log) = &self.log {
                log.sink.close().await;
            }
        };
        let webhook = async {
            if let Some(webhook) = &self.webhook {
                webhook.close().await;
            }
        };
        tokio::join!(log, webhook);
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            events: read(&self.events),
            levels: Level::ALL.map(|level| (level.as_str(), read(&self.levels[level as usize]))),
            rejected: read(&self.rejected),
            oversized: read(&self.oversized),
            log: self.log.as_ref().map(|log| log.sink.counts()),
            webhook: self.webhook.as_ref().map(Webhook::counts),
        }
    }

    pub(super) fn count_level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }
}

impl Log {
    /// Queues a line. A large one waits for room, and loses its bodies if there is none for long,
    /// or if too many wait already.
    async fn write(&self, line: &[u8], bare: Option<&[u8]>) {
        if line.len() <= LARGE_EVENT_BYTES {
            return self.sink.push(line);
        }
        let room = self.sink.reserve(line.len());
        match tokio::time::timeout(ROOM_TIMEOUT, room).await {
            Ok(Some(_room)) => self.sink.push(line),
            Ok(None) | Err(_) => self.sink.push(bare.unwrap_or(line)),
        }
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        if self.log {
            self.audit.push_to_log(&self.event);
        }
        if self.webhook {
            self.audit.push_to_webhook(&self.event);
        }
    }
}

impl From<Sink> for Audit {
    fn from(sink: Sink) -> Self {
        Self::new(None).with_log(sink, None)
    }
}

impl Encoded {
    /// An event without bodies.
    pub fn whole(line: Vec<u8>) -> Self {
        Self { line, bare: None }
    }

    /// Returns the event with its bodies.
    pub fn into_line(self) -> Vec<u8> {
        self.line
    }
}
