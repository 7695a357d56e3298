//! The kinds that users define, as a space serves them: its own, and those that the system
//! publishes to all.
//!
//! A space's own definition of a name wins, from the moment that it is established. What a space
//! serves is derived from its definitions when somebody asks, like its policy, and is
//! forgotten when nobody does; what a definition says is compiled once for all spaces that
//! have the same.

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

/// The kinds that users define, as one space serves them at one moment.
#[derive(Debug)]
pub struct Apis {
    offers: Vec<Offer>,
    /// What came of each definition, so that it is read once, whatever becomes of others.
    read: HashMap<Source, Option<Offer>>,
    /// The same for spaces that serve the same.
    fingerprint: u64,
}

/// A definition as it was at one moment: the space that it is in, its name and its revision.
type Source = (Space, Arc<str>, Revision);

/// What one definition makes a space serve.
#[derive(Clone, Debug)]
pub struct Offer {
    /// What it says.
    pub defined: Arc<Defined>,
    /// The space that the definition is in: this one, or the system's that publishes it.
    pub source: Space,
    /// Whether the definition is being deleted.
    pub terminating: bool,
}

/// Where a definition is.
pub fn definition_address(space: &Space, name: &str) -> Address {
    Address {
        kind: definitions().into(),
        space: space.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

impl Apis {
    /// The kind in this version, if it is served.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<Resource> {
        let offer = self.offer(group, resource)?;
        let version = offer.defined.version(version)?;
        offer.served(version)
    }

    /// The kind that objects call so, if it is served.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Resource> {
        let called = |offer: &&Offer| {
            let names = offer.defined.kind();
            names.group == group && names.kind == kind
        };
        let offer = self.offers.iter().find(called)?;
        offer.served(offer.defined.version(version)?)
    }

    /// Whatever serves the resource, in whichever version.
    pub fn offer(&self, group: &str, resource: &str) -> Option<&Offer> {
        let mut offers = self.offers.iter();
        offers.find(|offer| {
            let names = offer.defined.kind();
            names.resource == resource && names.group == group
        })
    }

    /// All of it.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// The same for spaces that serve the same; zero if there is nothing but what all have.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// All versions of all kinds that are served.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        let offers = self.offers.iter();
        offers.flat_map(|offer| offer.defined.definition().served())
    }

    /// What is told of it.
    pub fn discovered(&self) -> impl Iterator<Item = Discovered<'_>> {
        self.offers.iter().flat_map(|offer| {
            let served = offer.defined.definition().served();
            served.map(|version| Discovered {
                kind: &version.kind,
                terminating: offer.terminating,
            })
        })
    }

    /// Of what was there `before` only what changed is read again.
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
            let offer = known.unwrap_or_else(|| Offer::of(registry, &source.0, definition));
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
    /// What a definition makes its space serve: nothing before it is established.
    fn of(registry: &Registry, source: &Space, definition: &Stored) -> Option<Self> {
        let tree = definition.tree();
        if !is_established(&tree) {
            return None;
        }
        let defined = registry.definitions().get(&tree);
        let defined = defined.inspect_err(|error| {
            tracing::error!(%error, space = %source, name = definition.name(),
                "a definition that was accepted cannot be read");
        });
        Some(Self {
            defined: defined.ok()?,
            source: source.clone(),
            terminating: definition.is_terminating(),
        })
    }

    /// The kind in one of its versions, if that is served.
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
    /// The kinds that users define, as the space serves them; nothing if there is no such
    /// space.
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

    /// The kind that objects of a space call so, if it is served there.
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

    /// The kind of what a space keeps there, as it is stored, if it is served.
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
