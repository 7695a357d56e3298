//! Watches that open values.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use insula_core::Layout;
use insula_store::{Changed, Entry, Error, Result, Watch, WatchItem};
use tokio::time::{Instant, sleep_until};

use crate::key_ring::KeyRing;
use crate::key_storage::DATA_KEYS;

/// The pause after the first failed attempt to load a key.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A watch of sealed values.
pub struct OpeningWatch {
    inner: Box<dyn Watch>,
    ring: Arc<KeyRing>,
    layout: Layout,
    /// The item that is being opened. It stays here while keys are loaded, so that a cancelled call
    /// loses nothing.
    pending: Option<WatchItem>,
    retry: Retry,
}

impl OpeningWatch {
    /// Opens what `inner` delivers.
    pub fn new(inner: Box<dyn Watch>, ring: Arc<KeyRing>, layout: Layout) -> Self {
        Self {
            inner,
            ring,
            layout,
            pending: None,
            retry: Retry::default(),
        }
    }
}

/// Opens the changes, without those under destroyed keys.
async fn open(ring: &Arc<KeyRing>, changes: &[Changed]) -> Result<Vec<Changed>> {
    let mut opened = Vec::with_capacity(changes.len());
    for change in changes {
        match change {
            Changed::Deleted(_) => opened.push(change.clone()),
            Changed::Put(entry) => {
                let value = ring.open_value(&entry.key, &entry.value).await?;
                opened.extend(value.map(|value| {
                    Changed::Put(Entry {
                        key: entry.key.clone(),
                        value,
                        ..*entry
                    })
                }));
            }
        }
    }
    Ok(opened)
}

/// When a key that could not be had is asked for again. A server that ended because a KMS is away
/// would not start before it is back, so a watch waits.
#[derive(Debug, Default)]
struct Retry(Option<(Instant, Duration)>);

impl Retry {
    /// Opens the changes as soon as their keys can be had. Cancelled calls keep the pauses.
    async fn open(&mut self, ring: &Arc<KeyRing>, changes: &[Changed]) -> Result<Vec<Changed>> {
        loop {
            if let Some((at, _)) = self.0 {
                sleep_until(at).await;
            }
            match open(ring, changes).await {
                Err(Error::Unavailable(reason)) => {
                    tracing::warn!(reason, "watch waits for a key");
                    let pause = self.0.map_or(MIN_PAUSE, |(_, last)| last * 2);
                    let pause = pause.min(MAX_PAUSE);
                    self.0 = Some((Instant::now() + pause, pause));
                }
                opened => {
                    self.0 = None;
                    return opened;
                }
            }
        }
    }
}

/// Notes the records of data keys that changed: another server may have destroyed one.
fn note_records(ring: &KeyRing, layout: &Layout, changes: &[Changed]) {
    for change in changes {
        let Changed::Put(entry) = change else {
            continue;
        };
        let key = std::str::from_utf8(&entry.key).ok();
        let record = key.and_then(|key| layout.encryption_record_name(key));
        if let Some(id) = record.and_then(|record| record.strip_prefix(DATA_KEYS)) {
            ring.note_record(id, &entry.value);
        }
    }
}

#[async_trait]
impl Watch for OpeningWatch {
    async fn next(&mut self) -> Result<WatchItem> {
        let item = match self.pending.take() {
            Some(item) => item,
            None => self.inner.next().await?,
        };
        let opened = match self.pending.insert(item) {
            WatchItem::Progress(revision) => WatchItem::Progress(*revision),
            WatchItem::Changes { revision, changes } => {
                let revision = *revision;
                note_records(&self.ring, &self.layout, changes);
                let changes = self.retry.open(&self.ring, changes).await?;
                // Every change was delivered, since nothing is left of them.
                match changes.is_empty() {
                    true => WatchItem::Progress(revision),
                    false => WatchItem::Changes { revision, changes },
                }
            }
        };
        self.pending = None;
        Ok(opened)
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.inner.request_progress().await
    }
}
