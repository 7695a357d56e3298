//! Watches that open values.

use std::sync::Arc;

use async_trait::async_trait;
use insula_core::Layout;
use insula_store::{Changed, Entry, Result, Watch, WatchItem};

use crate::key_ring::KeyRing;
use crate::key_storage::DATA_KEYS;

/// A watch of sealed values.
pub struct OpeningWatch {
    inner: Box<dyn Watch>,
    ring: Arc<KeyRing>,
    layout: Layout,
    /// The item that is being opened. It stays here while keys are loaded, so that a cancelled call
    /// loses nothing.
    pending: Option<WatchItem>,
}

impl OpeningWatch {
    /// Opens what `inner` delivers.
    pub fn new(inner: Box<dyn Watch>, ring: Arc<KeyRing>, layout: Layout) -> Self {
        Self {
            inner,
            ring,
            layout,
            pending: None,
        }
    }
}

/// Opens the changes, without those under destroyed keys.
async fn open(ring: &KeyRing, changes: &[Changed]) -> Result<Vec<Changed>> {
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

/// Forgets data keys that changed: another server may have destroyed one.
fn note_records(ring: &KeyRing, layout: &Layout, changes: &[Changed]) {
    for change in changes {
        let key = std::str::from_utf8(change.key()).ok();
        let record = key.and_then(|key| layout.encryption_record_name(key));
        if let Some(id) = record.and_then(|record| record.strip_prefix(DATA_KEYS)) {
            ring.forget(id);
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
                let changes = open(&self.ring, changes).await?;
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
