//! Definitions as a tenant sees them change: its own log and the system's, as one.

use std::sync::Arc;

use insula_core::{Revision, Space};

use super::shown;
use insula_cache::is_published;
use insula_cache::{Cache, Change, Collection, Cursor, Event, Lost, Stored};

/// The system's log beside a tenant's.
///
/// A change to a definition of the system is one to the tenant's view if it is published and
/// the tenant has none of that name; a tenant's own comes about in place of what was seen
/// before. Both questions are about the moment of the change, which the logs remember.
#[derive(Debug)]
pub struct Overlay {
    space: Space,
    own: Arc<Collection>,
    system: Arc<Collection>,
    cursor: Cursor,
}

impl Overlay {
    /// What happened after `revision` to the definitions that the system publishes to a
    /// tenant, whose own are `own`.
    pub fn after(
        cache: &Cache,
        space: &Space,
        own: &Arc<Collection>,
        revision: Revision,
    ) -> Result<Self, Lost> {
        let system = cache.collection(insula_cache::definitions(), &Space::System);
        Ok(Self {
            space: space.clone(),
            own: Arc::clone(own),
            cursor: system.after(revision)?,
            system,
        })
    }

    /// Is notified when something happens to definitions of the system.
    pub fn system(&self) -> &Arc<Collection> {
        &self.system
    }

    /// Whether one log has more than everything that happened up to `applied`: until the
    /// other has it too, nobody knows what comes first.
    pub fn is_ahead(&self, applied: Revision) -> bool {
        self.own.last().max(self.system.last()) > applied
    }

    /// Moves to `events` what the tenant sees happen since the cursors, up to `applied`. Up
    /// to there both logs are whole.
    pub fn read_on(
        &mut self,
        own: &mut Cursor,
        applied: Revision,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<(), Lost> {
        let (mut mine, mut systems) = (Vec::new(), Vec::new());
        self.own.read_until(own, applied, &mut mine)?;
        let system = &mut self.cursor;
        self.system.read_until(system, applied, &mut systems)?;
        for event in &systems {
            events.extend(self.of_system(event)?);
        }
        for event in mine {
            events.push(self.of_tenant(event)?);
        }
        events.sort_by_key(|event| event.revision);
        Ok(())
    }

    /// What a change of the system's is to the tenant.
    fn of_system(&self, event: &Event) -> Result<Option<Arc<Event>>, Lost> {
        let before = event
            .before
            .as_deref()
            .filter(|before| is_published(before));
        let now = event.change != Change::Deleted && is_published(&event.object);
        if before.is_none() && !now {
            return Ok(None);
        }
        let (key, at) = (&event.object.key, event.revision);
        if self.own.get_at(key, at)?.is_some() {
            return Ok(None);
        }
        let before = before.map(|before| shown(before, &self.space));
        let (change, object) = match (&before, now) {
            (Some(before), false) => (Change::Deleted, Arc::new(before.deleted(at))),
            (Some(_), true) => (Change::Modified, shown(&event.object, &self.space)),
            (None, _) => (Change::Added, shown(&event.object, &self.space)),
        };
        Ok(Some(Arc::new(Event::new(at, change, object, before))))
    }

    /// What a change of the tenant's own is to the tenant, which may have seen the system's
    /// before, or see it from now on.
    fn of_tenant(&self, event: Arc<Event>) -> Result<Arc<Event>, Lost> {
        if event.change == Change::Modified {
            return Ok(event);
        }
        let (key, at) = (&event.object.key, event.revision);
        let behind = self.system.get_at(key, at)?;
        let behind = behind.filter(|definition| is_published(definition));
        let Some(behind) = behind.map(|behind| shown(&behind, &self.space)) else {
            return Ok(event);
        };
        let (object, before): (_, Arc<Stored>) = match event.before.clone() {
            None => (Arc::clone(&event.object), behind),
            // Told at the revision at which it is seen again: whoever goes on watching from
            // an event must not be led back to what came before it.
            Some(own) => (Arc::new(behind.deleted(at)), own),
        };
        let event = Event::new(at, Change::Modified, object, Some(before));
        Ok(Arc::new(event))
    }
}
