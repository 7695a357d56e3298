//! Events from the store, for a watch that fell behind the log of the cache.
//!
//! The log of a collection is short: a thousand events, and those of a kind over all spaces are
//! no more. The store keeps minutes of history whatever is written, so a watch reads on there
//! until it has caught up with the log.

use std::sync::Arc;

use insula_cache::{Collection, Cursor, Event, Lost, SpaceState};
use insula_core::{ResourceName, Revision, Space, Spaces};
use insula_store::{At, Changed, Error, KeyRange, Watch, WatchItem};

use super::too_old;
use crate::pipeline::authorize::Granted;
use crate::registry::Registry;
use crate::registry::apis::definition_address;
use crate::status::{Result, StatusError};

/// A position in the history of the store.
pub(super) struct Replay {
    changes: Box<dyn Watch>,
    /// Every event up to this revision was returned.
    after: Revision,
    /// The space that is watched, and its state if it is a tenant's; `None` of a watch over all.
    space: Option<(Space, Option<Arc<SpaceState>>)>,
    /// Whether the objects before changes are read: a selector needs them.
    reads_before: bool,
}

/// The number of transactions without an event for the watch after which other tasks run.
const YIELD_INTERVAL: usize = 64;

impl Replay {
    /// Begins after a revision.
    ///
    /// # Errors
    ///
    /// 410 if the store's history begins later, or if the space or the definition of the resource
    /// did not exist then.
    pub async fn begin(
        registry: &Registry,
        granted: &Granted,
        log: &Collection,
        after: Revision,
        reads_before: bool,
    ) -> Result<Self> {
        let space = watched_space(registry, granted, after)?;
        let origin = log.origin().max(defined_at(registry, granted).await?);
        if after < origin {
            return Err(too_old(Lost::Passed(origin), after));
        }
        let kind = granted.path().kind.storage();
        let resource = ResourceName {
            group: &kind.group,
            resource: &kind.resource,
        };
        let layout = registry.layout();
        // The keys of the system's space have no prefix of their own.
        let prefix = match &space {
            Some((space, _)) => layout.collection(resource, space, None),
            None => layout.resource(resource),
        };
        let range = KeyRange::prefix(prefix.into_bytes());
        let changes = registry.store().watch(range, after).await;
        let mut changes = changes.map_err(|error| lost(error, after))?;
        // Without progress, a range without further changes would never end.
        let requested = changes.request_progress().await;
        requested.map_err(|error| lost(error, after))?;
        Ok(Self {
            changes,
            after,
            space,
            reads_before,
        })
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
        let space = self
            .space
            .as_ref()
            .map_or(&Space::System, |(space, _)| space);
        let _turn = registry.history_turns().acquire(space).await;
        let mut transactions = 0;
        let mut caught_up = None;
        while events.len() < limit {
            match log.after(self.after) {
                Ok(cursor) => {
                    caught_up = Some(cursor);
                    break;
                }
                Err(Lost::Passed(_)) => {}
                Err(closed @ Lost::Closed) => return Err(too_old(closed, self.after)),
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
                        let event = self.event(registry, revision, change).await;
                        let event = event.map_err(|error| lost(error, self.after))?;
                        events.extend(event.map(Arc::new));
                    }
                    self.after = revision;
                }
            }
            transactions += 1;
            if transactions % YIELD_INTERVAL == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.check_tenant(registry).await?;
        Ok(caught_up)
    }

    /// Fails if the watched tenant was deleted before the revision that was reached. The store may
    /// be ahead of the cache, and what follows in it may belong to another tenant of that name.
    async fn check_tenant(&mut self, registry: &Registry) -> Result<()> {
        let Some((_, Some(state))) = &self.space else {
            return Ok(());
        };
        registry.cache().await_applied(self.after).await;
        match state.is_over() {
            true => Err(too_old(Lost::Closed, self.after)),
            false => Ok(()),
        }
    }

    /// Returns the event of a change, if it is one of the watch.
    async fn event(
        &mut self,
        registry: &Registry,
        revision: Revision,
        change: &Changed,
    ) -> Result<Option<Event>, Error> {
        let had_before = match change {
            Changed::Put(entry) => self.reads_before && entry.created != entry.modified,
            Changed::Deleted(_) => true,
        };
        let before = match had_before {
            false => None,
            true => {
                let range = KeyRange::single(change.key().clone());
                let at = At::Revision(Revision::new(revision.get().saturating_sub(1)));
                let page = registry.store().range(&range, at, None).await?;
                page.entries.into_iter().next()
            }
        };
        let replayed = registry.cache().replay(revision, change, before.as_ref());
        let wanted = self.space.as_ref().map(|(space, _)| space);
        let event = replayed.filter(|(space, _)| wanted.is_none_or(|wanted| wanted == space));
        Ok(event.map(|(_, event)| event))
    }
}

/// Returns the space that is watched, if it is one, and the state of its tenant.
///
/// # Errors
///
/// 410 if the tenant was created after the revision: events until then are of a former tenant of
/// its name.
fn watched_space(
    registry: &Registry,
    granted: &Granted,
    after: Revision,
) -> Result<Option<(Space, Option<Arc<SpaceState>>)>> {
    let Spaces::One(space) = granted.spaces() else {
        return Ok(None);
    };
    if space.is_system() {
        return Ok(Some((space.clone(), None)));
    }
    let state = registry.cache().space_state(space);
    let state = state.ok_or_else(|| too_old(Lost::Closed, after))?;
    match after < state.birth {
        true => Err(too_old(Lost::Passed(state.birth), after)),
        false => Ok(Some((space.clone(), Some(state)))),
    }
}

/// Returns the revision at which the definition of a custom resource was created; zero for
/// built-in resources.
async fn defined_at(registry: &Registry, granted: &Granted) -> Result<Revision> {
    let Some(custom) = granted.path().kind.custom() else {
        return Ok(Revision::ZERO);
    };
    let name = custom.defined().kind().qualified_resource();
    let own = match granted.spaces() {
        Spaces::One(space) if !space.is_system() => Some(space),
        _ => None,
    };
    for space in own.into_iter().chain([&Space::System]) {
        let key = registry.key(&definition_address(space, &name));
        if let Some(definition) = registry.store().get(&key).await? {
            return Ok(definition.created);
        }
    }
    Ok(Revision::ZERO)
}

fn lost(error: Error, asked: Revision) -> StatusError {
    match error {
        Error::Compacted { floor } => {
            StatusError::expired(format!("too old resource version: {asked} ({floor})"))
        }
        error => error.into(),
    }
}
