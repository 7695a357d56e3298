//! Events from the store, for a watch over all spaces that fell behind the log of the cache.
//!
//! The log of a kind over all spaces is short, and one tenant can fill it within moments. The
//! store keeps minutes of history whatever tenants write, so a watch reads on there until it has
//! caught up with the log.

use std::sync::Arc;

use insula_cache::{Collection, Cursor, Event};
use insula_core::{ResourceName, Revision};
use insula_store::{At, Changed, Error, KeyRange, Watch, WatchItem};

use crate::registry::Registry;
use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};

/// A position in the history of the store.
pub(super) struct Replay {
    changes: Box<dyn Watch>,
    /// Every event up to this revision was returned.
    after: Revision,
}

impl Replay {
    /// Begins after a revision.
    ///
    /// # Errors
    ///
    /// 410 if the store's history begins later.
    pub async fn begin(registry: &Registry, kind: &Resource, after: Revision) -> Result<Self> {
        let kind = kind.storage();
        let resource = ResourceName {
            group: &kind.group,
            resource: &kind.resource,
        };
        let range = KeyRange::prefix(registry.layout().resource(resource).into_bytes());
        let changes = registry.store().watch(range, after).await;
        let mut changes = changes.map_err(|error| lost(error, after))?;
        // Without progress, a range without further changes would never end.
        let requested = changes.request_progress().await;
        requested.map_err(|error| lost(error, after))?;
        Ok(Self { changes, after })
    }

    /// Appends at most about `limit` events. Returns the position in the log of the cache if
    /// the replay has reached it.
    pub async fn read_on(
        &mut self,
        registry: &Registry,
        log: &Collection,
        limit: usize,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<Option<Cursor>> {
        while events.len() < limit {
            if let Ok(cursor) = log.after(self.after) {
                return Ok(Some(cursor));
            }
            let item = self.changes.next().await;
            match item.map_err(|error| lost(error, self.after))? {
                WatchItem::Progress(revision) => {
                    self.after = self.after.max(revision);
                    let requested = self.changes.request_progress().await;
                    requested.map_err(|error| lost(error, self.after))?;
                }
                WatchItem::Changes { revision, changes } => {
                    for change in &changes {
                        let event = event(registry, revision, change).await;
                        let event = event.map_err(|error| lost(error, self.after))?;
                        events.extend(event.map(Arc::new));
                    }
                    self.after = revision;
                }
            }
        }
        Ok(None)
    }
}

/// Returns the event of a change, with the object as it was before.
async fn event(
    registry: &Registry,
    revision: Revision,
    change: &Changed,
) -> Result<Option<Event>, Error> {
    let is_new = matches!(change, Changed::Put(entry) if entry.created == entry.modified);
    let before = match is_new {
        true => None,
        false => {
            let range = KeyRange::single(change.key().clone());
            let at = At::Revision(Revision::new(revision.get().saturating_sub(1)));
            let page = registry.store().range(&range, at, None).await?;
            page.entries.into_iter().next()
        }
    };
    Ok(registry.cache().replay(revision, change, before.as_ref()))
}

fn lost(error: Error, asked: Revision) -> StatusError {
    match error {
        Error::Compacted { floor } => {
            StatusError::expired(format!("too old resource version: {asked} ({floor})"))
        }
        error => error.into(),
    }
}
