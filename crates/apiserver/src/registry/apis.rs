//! The custom resources that a space serves: its own, and those that the system publishes to
//! all spaces.
//!
//! A space's own definition of a name takes precedence once it is established. The served
//! resources are derived from the definitions on demand, like the RBAC policy, and dropped
//! when they are unused. Equal definitions are compiled once for all spaces.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use insula_core::{Revision, Space};
use insula_custom::condition;
use insula_custom::kind::Version;
use insula_kinds::discovery::Custom as Discovered;
use insula_kinds::{Object, kinds};

use crate::flow_control::cpu_bound::run_blocking;
use crate::registry::definitions::Defined;
use crate::registry::resource::{Custom, Resource};
use crate::registry::{Address, Registry};
use insula_cache::{Cache, CollectionKey, Derived, Stored, definitions, is_published};

/// The custom resources that one space serves, at one revision.
#[derive(Debug)]
pub struct Apis {
    offers: Vec<Offer>,
    /// The result of each definition, so that a change of one does not re-read the others.
    read: HashMap<Source, Option<Offer>>,
    /// Equal for spaces that serve the same resources.
    fingerprint: u64,
}

/// One revision of a definition: its space, its name and its revision.
type Source = (Space, Arc<str>, Revision);

/// A definition that a space serves.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The compiled definition.
    pub defined: Arc<Defined>,
    /// The space of the definition: this one, or the system space that publishes it.
    pub source: Space,
    /// Whether the definition is being deleted.
    pub terminating: bool,
    /// The revision since which it is defined like this, as far as that is known: at least that
    /// of the last change that clients notice.
    pub since: Revision,
}

/// Returns the address of a definition.
pub fn definition_address(space: &Space, name: &str) -> Address {
    Address {
        kind: definitions().into(),
        space: space.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

impl Apis {
    /// Returns the resource in this version, if it is served.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<Resource> {
        let offer = self.offer(group, resource)?;
        let version = offer.defined.version(version)?;
        offer.served(version)
    }

    /// Returns the resource of a `kind`, if it is served.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Resource> {
        let called = |offer: &&Offer| {
            let names = offer.defined.kind();
            names.group == group && names.kind == kind
        };
        let offer = self.offers.iter().find(called)?;
        offer.served(offer.defined.version(version)?)
    }

    /// Returns the definition of a resource, in any version.
    pub fn offer(&self, group: &str, resource: &str) -> Option<&Offer> {
        let mut offers = self.offers.iter();
        offers.find(|offer| {
            let names = offer.defined.kind();
            names.resource == resource && names.group == group
        })
    }

    /// Returns all definitions that the space serves.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// Returns a number that is equal for spaces that serve the same resources, and zero if
    /// the space serves only built-in ones.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns all served versions of all resources.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        let offers = self.offers.iter();
        offers.flat_map(|offer| offer.defined.definition().served())
    }

    /// Returns the entries for discovery.
    pub fn discovered(&self) -> impl Iterator<Item = Discovered<'_>> {
        self.offers.iter().flat_map(|offer| {
            let served = offer.defined.definition().served();
            served.map(|version| Discovered {
                kind: &version.kind,
                terminating: offer.terminating,
            })
        })
    }

    /// Returns what another revision of a definition offers, if it defines the same.
    fn same(&self, source: &Source, offer: &Offer) -> Option<&Offer> {
        let (space, name, _) = source;
        let mut offers = self.read.iter().filter_map(|((other, called, _), read)| {
            (other == space && called == name).then_some(read.as_ref())?
        });
        offers.find(|before| before.defined.id() == offer.defined.id())
    }

    /// Derives the resources of a space. Definitions that are unchanged since `before` are not
    /// read again.
    fn of(registry: &Registry, space: &Space, before: Option<Arc<Self>>) -> Self {
        let cache = registry.cache();
        let own = cache.find(definitions(), space);
        let own = own.map(|own| own.snapshot("", None).objects);
        let mut read = HashMap::new();
        let mut offer = |source: &Space, definition: &Stored| {
            let (name, revision) = (Arc::clone(&definition.key), definition.revision);
            let source = (source.clone(), name, revision);
            let known = before
                .as_ref()
                .and_then(|before| before.read.get(&source).cloned());
            let offer = known.unwrap_or_else(|| {
                let mut offer = Offer::of(registry, &source.0, definition)?;
                if let Some(before) = before
                    .as_ref()
                    .and_then(|before| before.same(&source, &offer))
                {
                    offer.since = before.since;
                }
                Some(offer)
            });
            read.insert(source, offer.clone());
            offer
        };
        let mut offers: Vec<Offer> = own
            .unwrap_or_default()
            .iter()
            .filter_map(|definition| offer(space, definition))
            .collect();
        if !space.is_system() {
            for definition in published(cache) {
                let offer = offer(&Space::System, &definition);
                offers.extend(offer.filter(|offer| !offers.iter().any(|own| own.meets(offer))));
            }
        }
        Self {
            fingerprint: fingerprint(&offers),
            offers,
            read,
        }
    }
}

impl Offer {
    /// Reads a definition. Returns `None` until it is established.
    fn of(registry: &Registry, source: &Space, definition: &Stored) -> Option<Self> {
        let tree = definition.tree();
        if !is_established(&tree) {
            return None;
        }
        let defined = registry.definitions().get(&tree);
        let defined = defined.inspect_err(|error| {
            tracing::error!(%error, space = %source, name = definition.name(),
                "stored definition rejected");
        });
        Some(Self {
            defined: defined.ok()?,
            source: source.clone(),
            terminating: definition.is_terminating(),
            since: definition.revision,
        })
    }

    /// Returns the resource in one version, if that is served.
    fn served(&self, version: usize) -> Option<Resource> {
        let custom = self.kind(version);
        custom.version().served.then_some(Resource::Custom(custom))
    }

    /// The kind as its objects are stored.
    pub fn storage(&self) -> Resource {
        Resource::Custom(self.kind(self.defined.storage()))
    }

    fn kind(&self, version: usize) -> Custom {
        Custom::new(Arc::clone(&self.defined), version, self.source.clone())
    }

    /// Whether a space cannot serve both: they share a name that clients use.
    fn meets(&self, other: &Self) -> bool {
        let (one, other) = (self.defined.kind(), other.defined.kind());
        one.group == other.group
            && (one.resource == other.resource
                || one.kind == other.kind
                || one.list_kind() == other.list_kind())
    }

    /// The name of the definition.
    pub fn name(&self) -> String {
        self.defined.kind().qualified_resource()
    }
}

/// The definitions that the system publishes.
pub fn published(cache: &Cache) -> Vec<Arc<Stored>> {
    let all = cache.find(definitions(), &Space::System);
    let all = all.map(|all| all.snapshot("", None).objects);
    let mut all = all.unwrap_or_default();
    all.retain(|definition| is_published(definition));
    all
}

fn is_established(definition: &Object) -> bool {
    condition::holds(definition, condition::ESTABLISHED)
}

fn fingerprint(offers: &[Offer]) -> u64 {
    if offers.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    for offer in offers {
        (offer.defined.id(), offer.terminating).hash(&mut hasher);
    }
    hasher.finish().max(1)
}

impl Registry {
    /// Returns the custom resources of a space, or `None` if the space does not exist.
    pub fn apis(&self, space: &Space) -> Option<Arc<Apis>> {
        let state = self.cache().space_state(space)?;
        if let Some(apis) = self.cache().derived(&state, Derived::Apis, Arc::clone) {
            return Some(apis);
        }
        // A space may have hundreds of large definitions, and other readers wait meanwhile.
        let apis = run_blocking(|| {
            let derive = |stale: Option<Box<Arc<Apis>>>, _| {
                Box::new(Arc::new(Apis::of(self, space, stale.map(|stale| *stale))))
            };
            self.cache()
                .derive(&state, Derived::Apis, derive, Arc::clone)
        });
        Some(apis)
    }

    /// Returns the resource of a `kind`, if the space serves it.
    pub fn of_kind(
        &self,
        space: &Space,
        group: &str,
        version: &str,
        kind: &str,
    ) -> Option<Resource> {
        match kinds().find_by_kind(group, version, kind) {
            Some(id) if kinds().get(id).system_only && !space.is_system() => None,
            Some(id) => Some(id.into()),
            None => self.apis(space)?.of_kind(group, version, kind),
        }
    }

    /// Returns the resource of a collection in its storage version, if the space serves it.
    pub fn kept(&self, space: &Space, mark: CollectionKey<'_>) -> Option<Resource> {
        match mark {
            CollectionKey::BuiltIn(id) => Some(id.into()),
            CollectionKey::Custom { group, resource } => {
                let apis = self.apis(space)?;
                apis.offer(group, resource).map(Offer::storage)
            }
        }
    }
}
