//! The events of a watch: a position in the log of a collection.

use std::sync::Arc;

use insula_cache::{Collection, Cursor, Event, Interest, Lost, Subscription};
use insula_core::Revision;
use tokio::sync::futures::Notified;

use super::replay::Replay;
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
    pub position: Position,
    subscription: Subscription,
    /// The definitions that the system publishes, merged with a tenant's own.
    pub published: Option<Overlay>,
    /// The revision of the last event that was read.
    pub seen: Revision,
    /// Whether the objects before changes are needed: by a selector.
    needs_before: bool,
    /// The most events that are read next.
    batch: usize,
}

/// Where a watch begins.
pub(super) struct Beginning {
    pub collection: Arc<Collection>,
    pub position: Position,
    pub published: Option<Overlay>,
    /// The revision up to which the client knows everything.
    pub revision: Revision,
    /// Whether the states of objects before their changes are needed.
    pub needs_before: bool,
}

/// Where a watch reads on.
pub(super) enum Position {
    /// In the log of the collection.
    Log(Cursor),
    /// In the history of the store, after this revision.
    History(Revision),
    /// In the history of the store.
    Replay(Replay),
}

/// The most events that are read at once.
const MAX_BATCH: usize = 256;

/// The most events that are read first. The next time it is twice as many, because the client has
/// read these: a client that reads nothing holds no more than this.
const FIRST_BATCH: usize = 8;

impl Events {
    /// The events from the beginning of a watch on, of the objects that it may select.
    pub fn new(
        registry: &Arc<Registry>,
        granted: &Granted,
        interest: Interest,
        begun: Beginning,
    ) -> Self {
        let cursor = match &begun.position {
            Position::Log(cursor) => *cursor,
            // The position is set when the replay has caught up with the log.
            Position::History(_) | Position::Replay(_) => begun.collection.end_of_log(),
        };
        // A definition of the tenant may hide or reveal a published one with other labels.
        let interest = match &begun.published {
            Some(_) => Interest::All,
            None => interest,
        };
        let payer = granted.principal().home.clone();
        Self {
            registry: Arc::clone(registry),
            subscription: begun.collection.subscribe(interest, payer, cursor),
            collection: begun.collection,
            position: begun.position,
            published: begun.published,
            seen: begun.revision,
            needs_before: begun.needs_before,
            batch: FIRST_BATCH,
        }
    }

    /// Waits until there may be further events.
    pub fn unread(&self) -> impl Future<Output = ()> + use<'_> {
        let (own, published) = (&self.subscription, self.published.as_ref());
        async move {
            match published {
                Some(published) => tokio::select! {
                    () = own.unread() => {}
                    () = published.unread() => {}
                },
                None => own.unread().await,
            }
        }
    }

    /// Returns the signal that the cache has applied more, if the events depend on that.
    pub fn progress<'a>(&self, registry: &'a Registry) -> Option<Notified<'a>> {
        let published = self.published.as_ref();
        published.map(|_| registry.cache().advanced().notified())
    }

    /// Returns the next events; empty if there are none yet. Objects that only a webhook can
    /// convert to the version that is watched are converted.
    pub async fn read(&mut self, granted: &Granted) -> Result<Vec<Arc<Event>>> {
        let mut events = Vec::new();
        loop {
            self.read_on(granted, &mut events).await?;
            if events.is_empty() {
                return Ok(events);
            }
            let last = events.iter().map(|event| event.revision).max();
            self.retain_shared(granted, &mut events);
            self.seen = self.seen.max(last.unwrap_or_default());
            if !events.is_empty() {
                break;
            }
        }
        self.batch = (self.batch * 2).min(MAX_BATCH);
        let kind = &granted.path().kind;
        if kind.custom().is_some() {
            let before = events.iter().filter_map(|event| event.before.as_ref());
            let objects = events.iter().map(|event| &event.object).chain(before);
            // Boxed, so that idle watches do not keep the space for calls of webhooks.
            Box::pin(versions::prepare(&self.registry, None, kind, objects)).await?;
        }
        Ok(events)
    }

    /// Appends the events that follow the position, and moves it.
    async fn read_on(&mut self, granted: &Granted, events: &mut Vec<Arc<Event>>) -> Result<()> {
        loop {
            match &mut self.position {
                Position::Log(cursor) => {
                    let read = match &mut self.published {
                        Some(published) => {
                            // Before the log is read, so that no later event is skipped.
                            self.subscription.skip_unread();
                            let applied = self.registry.cache().applied();
                            published.read_on(cursor, applied, events)
                        }
                        None => self.subscription.read_on(self.batch, events),
                    };
                    match read {
                        Err(Lost::Passed(_)) if self.published.is_none() => {
                            let read = self.subscription.read_up_to();
                            self.seen = self.seen.max(read.unwrap_or_default());
                            self.position = Position::History(self.seen);
                        }
                        read => return read.map_err(|lost| too_old(lost, self.seen)),
                    }
                }
                Position::History(after) => {
                    let (log, before) = (&self.collection, self.needs_before);
                    let replay = Replay::begin(&self.registry, granted, log, *after, before);
                    // Boxed, so that watches of the log do not keep the space for it.
                    self.position = Position::Replay(Box::pin(replay).await?);
                }
                Position::Replay(replay) => {
                    let (registry, log) = (&self.registry, &self.collection);
                    let batch = replay.read_on(registry, log, self.batch);
                    let batch = Box::pin(batch).await?;
                    events.extend(batch.events);
                    *replay = batch.replay;
                    if let Some(cursor) = batch.caught_up {
                        self.subscription.resume(cursor);
                        self.position = Position::Log(cursor);
                    }
                    if !events.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether the overlay waits for the cache to apply more.
    pub fn awaits_progress(&self, applied: Revision) -> bool {
        let published = self.published.as_ref();
        published.is_some_and(|published| published.is_ahead(applied))
    }

    /// Drops the events of spaces in which the resource's name means another definition.
    fn retain_shared(&self, granted: &Granted, events: &mut Vec<Arc<Event>>) {
        let (kind, spaces) = (&granted.path().kind, granted.spaces());
        if let Some(sharing) = Sharing::of(self.registry.cache(), kind, spaces) {
            events.retain(|event| sharing.includes_object(&event.object));
        }
    }
}
