//! The spaces that a list or watch of all spaces includes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use insula_core::{Revision, Space, Spaces};
use insula_custom::condition;

use crate::registry::resource::Resource;
use insula_cache::is_published;
use insula_cache::{Cache, Lost, Stored};

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
    pub fn includes(&self, space: &Space, revision: Revision) -> Result<bool, Lost> {
        if space.is_system() {
            return Ok(true);
        }
        let published = self.definition(&Space::System, revision)?;
        if !published.is_some_and(|definition| is_published(&definition)) {
            return Ok(false);
        }
        let own = self.definition(space, revision)?;
        Ok(!own.is_some_and(|own| condition::holds(&own.tree(), condition::ESTABLISHED)))
    }

    /// Whether the object's space shared the definition at the object's revision.
    pub fn includes_object(&self, object: &Stored) -> Result<bool, Lost> {
        match space_of(object) {
            Some(space) => self.includes(&space, object.revision),
            None => Ok(false),
        }
    }

    /// Retains the objects of spaces that share the definition as of `revision`.
    pub fn retain<T>(
        &self,
        objects: &mut Vec<T>,
        revision: Revision,
        space: impl Fn(&T) -> Space,
    ) -> Result<(), Lost> {
        let mut known: HashMap<Space, bool> = HashMap::new();
        for object in objects.iter() {
            if let Entry::Vacant(unknown) = known.entry(space(object)) {
                let included = self.includes(unknown.key(), revision)?;
                unknown.insert(included);
            }
        }
        objects.retain(|object| known.get(&space(object)) == Some(&true));
        Ok(())
    }

    fn definition(&self, space: &Space, revision: Revision) -> Result<Option<Arc<Stored>>, Lost> {
        match self.cache.find(insula_cache::definitions(), space) {
            Some(definitions) => definitions.get_at(&self.name, revision),
            None => Ok(None),
        }
    }
}

/// Returns the space of an object, from its metadata.
fn space_of(object: &Stored) -> Option<Space> {
    #[derive(serde::Deserialize)]
    struct Top<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow)]
        tenant: Option<Cow<'a, str>>,
    }
    let body = object.body();
    let top: Top<'_> = serde_json::from_slice(&body).ok()?;
    match top.metadata.tenant.as_deref() {
        None | Some("") => Some(Space::System),
        Some(tenant) => Space::parse(tenant).ok(),
    }
}
