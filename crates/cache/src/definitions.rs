//! Definitions of custom resources: what a change to one does to the collections.

use std::sync::Arc;

use insula_core::{Revision, Space};

use crate::Cache;
use crate::collection::{Change, Event};
use crate::collection_key::{CollectionKey, definitions};
use crate::derived::Derived;
use crate::entry::Stored;

/// The annotation of a definition in the system's space that is served in all tenants.
pub const PUBLISHED: &str = "multi-tenancy.k8s.io/published";

/// Whether a definition of the system's space is served in all tenants.
pub fn is_published(definition: &Stored) -> bool {
    definition.annotation(PUBLISHED).as_deref() == Some("true")
}

impl Cache {
    /// Applies changes to the definitions of a space.
    pub(crate) fn note_definitions(
        &self,
        space: &Space,
        events: &[Arc<Event>],
        revision: Revision,
    ) {
        for event in events {
            let was = event.before.as_deref();
            let gone = event.change == Change::Deleted;
            let shared =
                space.is_system() && (is_published(&event.object) || was.is_some_and(is_published));
            if shared {
                self.invalidate_all_apis(revision);
                let withdrawn = gone || !is_published(&event.object);
                let withdrawn = event.object.uid().filter(|_| withdrawn);
                self.owner_graph().note_all_apis(withdrawn);
            } else if let Some(life) = self.space_state(space) {
                life.invalidate(Derived::Apis, revision);
                self.owner_graph().note_apis(space);
            }
            let Some((resource, group)) = event.object.name().split_once('.') else {
                continue;
            };
            if gone {
                self.drop_if_empty(group, resource, space, revision);
            }
            let withdrawn = || gone || !is_published(&event.object);
            if shared && withdrawn() && was.is_some_and(is_published) {
                self.withdraw(group, resource, event.object.name(), revision);
            }
        }
    }

    /// Ends the watches of tenants on a resource that the system no longer publishes.
    fn withdraw(&self, group: &str, resource: &str, name: &str, revision: Revision) {
        for (space, _) in self.everywhere(CollectionKey::Custom { group, resource }) {
            let own = self.find(definitions(), &space);
            let own = own.is_some_and(|own| own.get(name).is_some());
            if !space.is_system() && !own {
                self.drop_if_empty(group, resource, &space, revision);
            }
        }
    }

    /// Drops the collection of a resource that a space no longer serves, if it is empty. It may
    /// have objects, if the definition's finalizer was removed or the definition was withdrawn at
    /// the same moment. Those stay in the store, and are served again by the next definition.
    fn drop_if_empty(&self, group: &str, resource: &str, space: &Space, revision: Revision) {
        let objects = self.find(CollectionKey::Custom { group, resource }, space);
        if objects.is_none_or(|objects| objects.count("", 1) == 0) {
            self.clear(group, resource, space, revision);
        }
    }
}
