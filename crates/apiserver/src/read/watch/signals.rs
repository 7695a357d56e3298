//! What wakes a quiet watch.

use std::sync::Arc;

use insula_cache::{Collection, Lost, SpaceState};
use tokio::sync::futures::Notified;

use super::events::Events;
use super::permission::Permission;
use crate::pipeline::trust::CurrentTrust;
use crate::registry::Registry;

/// The parts of the server that a watch waits for.
pub(super) struct Sources {
    registry: Arc<Registry>,
    home: Arc<SpaceState>,
    impersonator_home: Option<Arc<SpaceState>>,
    trust: Arc<CurrentTrust>,
    definer: Option<Arc<SpaceState>>,
    collection: Arc<Collection>,
    /// The system's collection, of a watch on what it publishes too.
    published: Option<Arc<Collection>>,
}

/// Signals that count from the moment at which they were made: a change between then and the
/// wait is not missed.
pub(super) struct Signals<'a> {
    rights: Notified<'a>,
    impersonator_rights: Option<Notified<'a>>,
    trust: Notified<'a>,
    definitions: Option<Notified<'a>>,
    events: Notified<'a>,
    published: Option<Notified<'a>>,
    progress: Notified<'a>,
    shutdown: Notified<'a>,
}

impl Sources {
    pub fn new(permission: &Permission, events: &Events) -> Self {
        let published = events.published.as_ref();
        Self {
            registry: Arc::clone(&events.registry),
            home: Arc::clone(permission.home()),
            impersonator_home: permission.impersonator_home().cloned(),
            trust: Arc::clone(permission.trust()),
            definer: permission.definer().cloned(),
            collection: Arc::clone(&events.collection),
            published: published.map(|published| Arc::clone(published.system())),
        }
    }

    /// Whether the space that is watched is gone, or the server stops.
    pub fn are_closed(&self) -> bool {
        let applied = self.registry.cache().applied();
        let lost = self.collection.after(applied);
        matches!(lost, Err(Lost::Closed)) || self.registry.closing().is_closed()
    }

    /// Begins to listen.
    pub fn listen(&self) -> Signals<'_> {
        let definer = self.definer.as_ref();
        let published = self.published.as_ref();
        let impersonator = self.impersonator_home.as_ref();
        Signals {
            rights: self.home.changed().notified(),
            impersonator_rights: impersonator.map(|state| state.changed().notified()),
            trust: self.trust.changed().notified(),
            definitions: definer.map(|state| state.changed().notified()),
            events: self.collection.changed().notified(),
            published: published.map(|system| system.changed().notified()),
            progress: self.registry.cache().advanced().notified(),
            shutdown: self.registry.closing().signal().notified(),
        }
    }
}

impl Signals<'_> {
    /// Waits for any of them; for progress of the cache only if that is asked for, because the
    /// cache progresses with every write of every space.
    pub async fn any(self, progress: bool) {
        tokio::select! {
            () = self.events => {}
            () = optional(self.published) => {}
            () = optional(progress.then_some(self.progress)) => {}
            () = self.shutdown => {}
            () = self.rights => {}
            () = optional(self.impersonator_rights) => {}
            () = self.trust => {}
            () = optional(self.definitions) => {}
        }
    }
}

/// Waits for a signal, or for ever if there is none.
async fn optional(signal: Option<Notified<'_>>) {
    match signal {
        Some(signal) => signal.await,
        None => std::future::pending().await,
    }
}
