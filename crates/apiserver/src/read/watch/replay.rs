//! Events from the store, for a watch that fell behind the log of the cache.
//!
//! The log of a collection is short: a thousand events, and those of a kind over all spaces are
//! no more. The store keeps minutes of history whatever is written, so a watch reads on there
//! until it has caught up with the log.

use std::sync::Arc;
use std::time::Duration;

use insula_cache::{Collection, Cursor, Event, Lost, SpaceState};
use insula_core::{ResourceName, Revision, Space, Spaces};
use insula_store::{At, Changed, Error, KeyRange, WatchItem};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::too_old;
use crate::pipeline::authorize::Granted;
use crate::registry::Registry;
use crate::registry::apis::definition_address;
use crate::status::{Result, StatusError};

/// A position in the history of the store. It holds nothing of the store between two batches.
#[derive(Clone)]
pub(super) struct Replay {
    range: KeyRange,
    /// Every event up to this revision was returned.
    after: Revision,
    /// The space that is watched, and its state if it is a tenant's; `None` of a watch over all.
    space: Option<(Space, Option<Arc<SpaceState>>)>,
    /// Whether the objects before changes are read: a selector needs them.
    reads_before: bool,
}

/// The next events of a replay.
pub(super) struct Batch {
    /// The position after them.
    pub replay: Replay,
    pub events: Vec<Arc<Event>>,
    /// The position in the log of the cache, if the replay has reached it.
    pub caught_up: Option<Cursor>,
}

/// The number of transactions without an event for the watch after which other tasks run.
const YIELD_INTERVAL: usize = 64;

/// The bytes of objects after which a batch ends. They are of this watch alone, unlike those of a
/// log.
const MAX_BATCH_BYTES: usize = 512 << 10;

/// How long a watch waits for its turn. A client that begins anew is served from memory.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

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
        Ok(Self {
            range: KeyRange::prefix(prefix.into_bytes()),
            after,
            space,
            reads_before,
        })
    }

    /// Reads about `limit` events. A task of its own does so: it takes and ends its turn also while
    /// the watch is not asked for events.
    ///
    /// # Errors
    ///
    /// 410 if the history is compacted, if the space is gone, or if too many watches wait to read
    /// history.
    pub async fn read_on(
        &self,
        registry: &Arc<Registry>,
        log: &Arc<Collection>,
        limit: usize,
    ) -> Result<Batch> {
        let (replay, registry, log) = (self.clone(), Arc::clone(registry), Arc::clone(log));
        // The task ends with the watch.
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { replay.read_batch(&registry, &log, limit).await });
        match tasks.join_next().await {
            Some(Ok(batch)) => batch,
            _ => Err(too_old(Lost::Passed(self.after), self.after)),
        }
    }

    async fn read_batch(
        mut self,
        registry: &Registry,
        log: &Collection,
        limit: usize,
    ) -> Result<Batch> {
        let space = self.space.as_ref();
        let space = space.map_or(&Space::System, |(space, _)| space);
        let turn = registry.history_turns().acquire(space);
        let Ok(_turn) = timeout(TURN_TIMEOUT, turn).await else {
            let why = "too many watches read the history of the store: list again";
            return Err(StatusError::expired(why));
        };
        let changes = registry.store().watch(self.range.clone(), self.after);
        let mut changes = changes.await.map_err(|error| lost(error, self.after))?;
        // Without progress, a range without further changes would never end.
        let requested = changes.request_progress().await;
        requested.map_err(|error| lost(error, self.after))?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        let mut transactions = 0;
        let mut caught_up = None;
        while events.len() < limit && bytes < MAX_BATCH_BYTES {
            if let Some(cursor) = self.reached(registry, log).await? {
                caught_up = Some(cursor);
                break;
            }
            let item = changes.next().await;
            match item.map_err(|error| lost(error, self.after))? {
                WatchItem::Progress(revision) => {
                    self.after = self.after.max(revision);
                    let requested = changes.request_progress().await;
                    requested.map_err(|error| lost(error, self.after))?;
                }
                WatchItem::Changes {
                    revision,
                    changes: of_transaction,
                } => {
                    for change in &of_transaction {
                        let event = self.event(registry, revision, change).await;
                        let event = event.map_err(|error| lost(error, self.after))?;
                        bytes += event.as_ref().map_or(0, Event::bytes);
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
        Ok(Batch {
            replay: self,
            events,
            caught_up,
        })
    }

    /// Returns the position in the log of the cache, if that reaches back to here.
    async fn reached(&self, registry: &Registry, log: &Collection) -> Result<Option<Cursor>> {
        let position = || match log.after(self.after) {
            Ok(cursor) => Ok(Some(cursor)),
            Err(Lost::Passed(_)) => Ok(None),
            Err(closed @ Lost::Closed) => Err(too_old(closed, self.after)),
        };
        if position()?.is_none() {
            return Ok(None);
        }
        // The store may be ahead of the log, which would then repeat what was read here.
        registry.cache().await_applied(self.after).await;
        position()
    }

    /// Fails if the watched tenant was deleted before the revision that was reached. The store may
    /// be ahead of the cache, and what follows in it may belong to another tenant of that name.
    async fn check_tenant(&self, registry: &Registry) -> Result<()> {
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
        &self,
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
