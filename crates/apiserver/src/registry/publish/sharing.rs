//! The spaces that a list or watch of all spaces includes.

use std::sync::Arc;

use insula_core::{Revision, Space, Spaces};
use insula_custom::condition;

use crate::registry::resource::Resource;
use insula_cache::{Cache, Stored, is_published, tenant_of};

/// The spaces that share a definition of the system: the system space, and if it is published,
/// the tenants without their own definition of that name.
#[derive(Debug)]
pub struct Sharing<'a> {
    cache: &'a Cache,
    name: String,
}

impl<'a> Sharing<'a> {
    /// Returns the filter of a request for custom objects of all spaces.
    pub fn of(cache: &'a Cache, kind: &Resource, spaces: &Spaces) -> Option<Self> {
        let custom = kind.custom().filter(|_| *spaces == Spaces::All)?;
        let name = custom.defined().kind().qualified_resource();
        Some(Self { cache, name })
    }

    /// Whether the space shared the definition as of `revision`.
    pub fn includes(&self, space: &Space, revision: Revision) -> bool {
        if space.is_system() {
            return true;
        }
        let published = self.definition(&Space::System, revision);
        if !published.is_some_and(|definition| is_published(&definition)) {
            return false;
        }
        let own = self.definition(space, revision);
        !own.is_some_and(|own| condition::holds(&own.tree(), condition::ESTABLISHED))
    }

    /// Whether the object's space shared the definition at the object's revision.
    pub fn includes_object(&self, object: &Stored) -> bool {
        space_of(object).is_some_and(|space| self.includes(&space, object.revision))
    }

    /// Returns the definition as of `revision`, or the current one if the space has changed so
    /// many definitions since that the log has lost it: a tenant must not end the watches of
    /// all spaces.
    fn definition(&self, space: &Space, revision: Revision) -> Option<Arc<Stored>> {
        let definitions = self.cache.find(insula_cache::definitions(), space)?;
        let found = definitions.get_at(&self.name, revision);
        found.unwrap_or_else(|_| definitions.get(&self.name))
    }
}

/// Returns the space of an object, from its metadata.
fn space_of(object: &Stored) -> Option<Space> {
    match tenant_of(&object.body()) {
        None => Some(Space::System),
        Some(tenant) => Space::parse(&tenant).ok(),
    }
}
