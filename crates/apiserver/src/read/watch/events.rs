//! The events of a watch: a cursor on the log of a collection.

use std::sync::Arc;

use insula_cache::{Collection, Cursor, Event};
use insula_core::Revision;

use super::too_old;
use crate::pipeline::authorize::Granted;
use crate::registry::Registry;
use crate::registry::publish::{Overlay, Sharing};
use crate::registry::versions;
use crate::status::Result;

/// Events that happen after a revision, in their order.
pub(super) struct Events {
    pub registry: Arc<Registry>,
    pub collection: Arc<Collection>,
    pub cursor: Cursor,
    /// The definitions that the system publishes, merged with a tenant's own.
    pub published: Option<Overlay>,
    /// The revision of the last event that was read.
    pub seen: Revision,
}

/// The most events that are read at once.
const BATCH: usize = 256;

impl Events {
    /// Returns the next events; empty if there are none yet. Objects that only a webhook can
    /// convert to the version that is watched are converted.
    pub async fn read(&mut self, granted: &Granted) -> Result<Vec<Arc<Event>>> {
        let mut events = Vec::new();
        loop {
            let applied = self.registry.cache().applied();
            let read = match &mut self.published {
                Some(published) => published.read_on(&mut self.cursor, applied, &mut events),
                None => self
                    .collection
                    .read_on(&mut self.cursor, BATCH, &mut events),
            };
            read.map_err(|lost| too_old(lost, self.seen))?;
            if events.is_empty() {
                return Ok(events);
            }
            let last = events.iter().map(|event| event.revision).max();
            self.retain_shared(granted, &mut events)?;
            self.seen = self.seen.max(last.unwrap_or_default());
            if !events.is_empty() {
                break;
            }
        }
        let before = events.iter().filter_map(|event| event.before.as_ref());
        let objects = events.iter().map(|event| &event.object).chain(before);
        versions::prepare(&self.registry, None, &granted.path().kind, objects).await?;
        Ok(events)
    }

    /// Whether the overlay waits for the cache to apply more.
    pub fn awaits_progress(&self, applied: Revision) -> bool {
        let published = self.published.as_ref();
        published.is_some_and(|published| published.is_ahead(applied))
    }

    /// Drops the events of spaces in which the resource's name means another definition.
    fn retain_shared(&self, granted: &Granted, events: &mut Vec<Arc<Event>>) -> Result<()> {
        let (kind, spaces) = (&granted.path().kind, granted.spaces());
        let Some(sharing) = Sharing::of(self.registry.cache(), kind, spaces) else {
            return Ok(());
        };
        let mut kept = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            let shared = sharing.includes_object(&event.object);
            if shared.map_err(|lost| too_old(lost, self.seen))? {
                kept.push(event);
            }
        }
        *events = kept;
        Ok(())
    }
}
