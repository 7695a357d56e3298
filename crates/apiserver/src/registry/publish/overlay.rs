//! The merged event log of a tenant's own definitions and the published ones.

use std::sync::Arc;

use insula_core::{Revision, Space};

use super::shown;
use insula_cache::is_published;
use insula_cache::{
    Cache, Change, Collection, Cursor, Event, Interest, Lost, Stored, Subscription,
};

/// The event log of the system's definitions, merged with a tenant's.
///
/// The tenant sees a change of a system definition if that is published and the tenant has
/// none of the same name. A tenant's own definition replaces the published one. Both are
/// decided as of the revision of the change, from the logs.
#[derive(Debug)]
pub struct Overlay {
    space: Space,
    own: Arc<Collection>,
    system: Arc<Collection>,
    cursor: Cursor,
    /// Wakes the watch when the system's definitions change.
    subscription: Subscription,
}

impl Overlay {
    /// Starts after `revision`, for a tenant with the definitions `own`.
    pub fn after(
        cache: &Cache,
        space: &Space,
        own: &Arc<Collection>,
        revision: Revision,
    ) -> Result<Self, Lost> {
        let system = cache.collection(insula_cache::definitions(), &Space::System);
        let cursor = system.after(revision)?;
        Ok(Self {
            space: space.clone(),
            own: Arc::clone(own),
            cursor,
            subscription: system.subscribe(Interest::All, space.clone(), cursor),
            system,
        })
    }

    /// Waits until the system's definitions have changed.
    pub async fn unread(&self) {
        self.subscription.unread().await;
    }

    /// Whether a log has events after `applied`. Their order is unknown until both logs have
    /// reached that revision.
    pub fn is_ahead(&self, applied: Revision) -> bool {
        self.own.last().max(self.system.last()) > applied
    }

    /// Appends the events that the tenant sees up to `applied`, where both logs are complete.
    pub fn read_on(
        &mut self,
        own: &mut Cursor,
        applied: Revision,
        events: &mut Vec<Arc<Event>>,
    ) -> Result<(), Lost> {
        let (mut mine, mut systems) = (Vec::new(), Vec::new());
        // Before the log is read, so that no later event is skipped.
        self.subscription.skip_unread();
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

    /// Converts an event of the system's log to the tenant's view.
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

    /// Converts an event of the tenant's log, which may replace or reveal a published
    /// definition.
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
            // Has the revision of the change: a watch that resumes from an event must not see
            // an older revision.
            Some(own) => (Arc::new(behind.deleted(at)), own),
        };
        let event = Event::new(at, Change::Modified, object, Some(before));
        Ok(Arc::new(event))
    }
}
