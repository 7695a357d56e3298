//! A watch cache: every object once, as the bytes that are sent.
//!
//! A [`Feed`] follows the store and fills it; requests only read. The cache is never ahead of
//! the store, and [`Cache::await_applied`] waits until it is not behind a revision. Readers see
//! a transaction whole, in one space and across spaces.
//!
//! The crate knows neither HTTP nor RBAC nor admission: what the layers above derive from
//! objects is kept in slots that they fill ([`Derived`]), and what depends on the meaning of
//! objects is asked of them ([`Hooks`]).

mod all_spaces;
mod applied;
pub mod bootstrap_objects;
mod collection;
mod collection_key;
mod definitions;
mod delivery;
mod derived;
mod entry;
pub mod expiry;
mod feed;
mod forms;
mod hooks;
mod index;
mod load;
mod objects;
mod owner_graph;
mod owner_refs;
mod pool;
mod quota_dirty;
mod replay;
mod snapshots;
mod space_state;
mod superseded;
mod template;
mod tenant_fields;
mod text;
mod tree;
mod usage;
mod versions;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use insula_core::{Layout, Revision, Space, TenantName};
use insula_kinds::kinds;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use all_spaces::{AllContents, AllObjects, SpaceObjects};
pub use collection::{
    Change, Collection, Contents, Cursor, Encoding, Event, Interest, Lost, Snapshot, Subscription,
    frame,
};
pub use collection_key::{CollectionKey, Keyed, definitions};
pub use definitions::{PUBLISHED, is_published};
pub use derived::Derived;
pub use entry::{Message, Stored, without_revision};
pub use feed::Feed;
pub use hooks::Hooks;
pub use index::{MIN_VISITED, Term};
pub use load::load;
pub use objects::{Candidates, Objects, Range};
pub use owner_graph::{Hold, Node, OwnerGraph};
pub use owner_refs::{OwnerRefs, Reference};
pub use pool::Pool;
pub use quota_dirty::{DirtyQuotas, Place};
pub use replay::tenant_of;
pub use space_state::SpaceState;
pub use tenant_fields::{TENANT_FIELDS, TenantFields};
pub use usage::Usage;
pub use versions::{Shown, Versions};

use all_spaces::AllSpaces;
use applied::Applied;
use bootstrap_objects::BootstrapObjects;
use snapshots::Budget;

/// All collections of all spaces.
#[derive(Debug)]
pub struct Cache {
    layout: Layout,
    /// The collections of built-in kinds, by the index of the kind.
    built_in: Vec<Arc<KindCollections>>,
    /// The collections of custom resources, by group and plural.
    custom: RwLock<HashMap<Box<str>, Group>>,
    /// Chunks that objects of many spaces share.
    pool: Arc<Pool>,
    bootstrap_objects: BootstrapObjects,
    hooks: Box<dyn Hooks>,
    /// The revision at which a collection of a custom resource was last dropped.
    cleared: AtomicU64,
    /// Watches can start from here on.
    start: Revision,
    owner_graph: OwnerGraph,
    spaces: RwLock<HashMap<Space, Arc<SpaceState>>>,
    /// The spaces with derived values in memory, so that idle ones are found without a scan of
    /// all spaces.
    with_derived: Mutex<Vec<Weak<SpaceState>>>,
    /// The revision of the last write that was charged to a tenant's quota, by tenant.
    fences: RwLock<HashMap<TenantName, Revision>>,
    dirty_quotas: DirtyQuotas,
    applied: Applied,
    progress_wanted: Notify,
    /// How many times a change has woken a watch.
    watches_woken: AtomicU64,
    /// The memory that kept snapshots may take.
    snapshot_budget: Arc<Budget>,
    /// The collections with indexes, so that idle ones are found without a scan of all.
    indexed: Mutex<Vec<Weak<Collection>>>,
    visited: AtomicU64,
}

/// The custom resources of a group, by plural.
type Group = HashMap<Box<str>, Arc<KindCollections>>;

/// The collections of one kind.
#[derive(Debug)]
struct KindCollections {
    spaces: RwLock<HashMap<Space, Arc<Collection>>>,
    /// The events of all spaces, for watches across spaces.
    everywhere: Arc<Collection>,
    /// The objects of all spaces. The feed holds this lock while it applies a transaction, so
    /// that readers see a transaction whole.
    all_spaces: Mutex<AllSpaces>,
}

/// When progress is requested from the store while a reader waits, in case the store's revision
/// grew by keys that the cache does not watch, and how often it is requested again.
const PROGRESS_DELAY: Duration = Duration::from_millis(2);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

impl Cache {
    fn new(layout: Layout, at: Revision, hooks: Box<dyn Hooks>) -> Self {
        Self {
            layout,
            built_in: kinds().iter().map(|_| KindCollections::new(at)).collect(),
            custom: RwLock::default(),
            pool: Arc::default(),
            bootstrap_objects: BootstrapObjects::new(),
            hooks,
            cleared: AtomicU64::new(0),
            start: at,
            owner_graph: OwnerGraph::default(),
            spaces: RwLock::default(),
            with_derived: Mutex::default(),
            fences: RwLock::default(),
            dirty_quotas: DirtyQuotas::default(),
            applied: Applied::new(at),
            progress_wanted: Notify::new(),
            watches_woken: AtomicU64::new(0),
            snapshot_budget: Arc::default(),
            indexed: Mutex::default(),
            visited: AtomicU64::new(0),
        }
    }

    /// Returns the collection of a kind in a space, if it ever had an object.
    pub fn find(&self, kind: impl Keyed, space: &Space) -> Option<Arc<Collection>> {
        self.find_collections(kind.collection_key())?.find(space)
    }

    /// Returns the collection of a kind in a space.
    pub fn collection(&self, kind: impl Keyed, space: &Space) -> Arc<Collection> {
        let key = kind.collection_key();
        let collections = self.collections(key);
        if let Some(found) = collections.find(space) {
            return found;
        }
        let mut spaces = collections
            .spaces
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let origin = self.birth(space).max(self.floor_of(key));
        let floor = self.first_of(key, space);
        let entry = spaces.entry(space.clone());
        Arc::clone(entry.or_insert_with(|| Arc::new(Collection::since(origin, floor))))
    }

    /// Returns the collections of a kind, sorted by space.
    pub fn everywhere(&self, kind: impl Keyed) -> Vec<(Space, Arc<Collection>)> {
        let collections = self.find_collections(kind.collection_key());
        collections
            .map(|collections| collections.all())
            .unwrap_or_default()
    }

    /// Returns the revision of the last change to an object of a kind in any space.
    pub fn last_of_all(&self, kind: impl Keyed) -> Revision {
        self.collections(kind.collection_key()).everywhere.last()
    }

    /// Returns the log of a kind over all spaces, without objects.
    pub fn log_of_all(&self, kind: impl Keyed) -> Arc<Collection> {
        Arc::clone(&self.collections(kind.collection_key()).everywhere)
    }

    /// Keeps the objects of a collection for the next page of a list.
    pub fn keep(&self, collection: &Collection, space: &Space, contents: &Contents) {
        collection.keep(contents, &self.snapshot_budget, space);
    }

    /// Notes that a list visited many objects of a collection for want of an index: one is built
    /// if that happens often.
    pub fn note_scan(&self, kind: impl Keyed, space: &Space, term: &Term) {
        let Some(collections) = self.find_collections(kind.collection_key()) else {
            return;
        };
        let Some(collection) = collections.find(space) else {
            return;
        };
        if collection.note_scan(term, &self.snapshot_budget, space) {
            let mut indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
            indexed.push(Arc::downgrade(&collection));
            drop(indexed);
            collections.all_spaces().note_stale(space);
        }
    }

    /// Counts objects that a list has looked at.
    pub fn note_visited(&self, objects: usize) {
        self.visited.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Returns the number of objects that lists have looked at.
    pub fn visited(&self) -> u64 {
        self.visited.load(Ordering::Relaxed)
    }

    /// Owners and dependents, in every space.
    pub const fn owner_graph(&self) -> &OwnerGraph {
        &self.owner_graph
    }

    /// Returns the revision up to which everything is applied.
    pub fn applied(&self) -> Revision {
        self.applied.revision()
    }

    /// Waits until everything up to `revision` is applied.
    pub async fn await_applied(&self, revision: Revision) {
        if let Some(reached) = self.applied.wait_for(revision) {
            // Boxed, because nearly always nothing is awaited.
            Box::pin(self.await_reached(reached)).await;
        }
    }

    /// Waits for a revision, and asks the store for progress meanwhile.
    async fn await_reached(&self, mut reached: oneshot::Receiver<()>) {
        // Most changes arrive within a millisecond.
        let first = Instant::now() + PROGRESS_DELAY;
        let mut ask = tokio::time::interval_at(first, PROGRESS_INTERVAL);
        loop {
            tokio::select! {
                _ = &mut reached => return,
                _ = ask.tick() => self.progress_wanted.notify_one(),
            }
        }
    }

    /// Notified whenever a revision is applied.
    pub const fn advanced(&self) -> &Notify {
        self.applied.advanced()
    }

    /// Returns how many times a change has woken a watch, since the start.
    pub fn watches_woken(&self) -> u64 {
        self.watches_woken.load(Ordering::Relaxed)
    }

    fn find_collections(&self, key: CollectionKey<'_>) -> Option<Arc<KindCollections>> {
        match key {
            CollectionKey::BuiltIn(id) => self.built_in.get(id.index()).cloned(),
            CollectionKey::Custom { group, resource } => {
                let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
                custom.get(group)?.get(resource).cloned()
            }
        }
    }

    fn collections(&self, key: CollectionKey<'_>) -> Arc<KindCollections> {
        if let Some(found) = self.find_collections(key) {
            return found;
        }
        let floor = self.start.max(self.floor_of(key));
        let (group, resource) = match key {
            CollectionKey::Custom { group, resource } => (group, resource),
            // The table has collections for each of its kinds.
            CollectionKey::BuiltIn(_) => return KindCollections::new(floor),
        };
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        let group = custom.entry(group.into()).or_default();
        Arc::clone(
            group
                .entry(resource.into())
                .or_insert_with(|| KindCollections::new(floor)),
        )
    }

    /// Returns the revision after which no collection of the kind was dropped.
    fn floor_of(&self, key: CollectionKey<'_>) -> Revision {
        match key {
            CollectionKey::BuiltIn(_) => Revision::ZERO,
            CollectionKey::Custom { .. } => Revision::new(self.cleared.load(Ordering::Acquire)),
        }
    }

    /// Returns group and plural of the custom resources that the space has, or had, objects of.
    pub fn custom_resources(&self, space: &Space) -> Vec<(Box<str>, Box<str>)> {
        let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
        let all = custom.iter().flat_map(|(group, shelves)| {
            let in_space = shelves
                .iter()
                .filter(|(_, collections)| collections.find(space).is_some());
            in_space.map(move |(resource, _)| (group.clone(), resource.clone()))
        });
        all.collect()
    }

    /// Drops the collection of a custom resource that the space no longer serves: its watches
    /// end and its memory is freed.
    pub(crate) fn clear(&self, group: &str, resource: &str, space: &Space, revision: Revision) {
        self.cleared.fetch_max(revision.get(), Ordering::AcqRel);
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        let Some(shelves) = custom.get_mut(group) else {
            return;
        };
        if shelves
            .get(resource)
            .is_some_and(|collections| collections.clear(space))
            && let Some(collections) = shelves.remove(resource)
        {
            // Watches across spaces end, because nothing is added to this log any more.
            collections.everywhere.close();
        }
        if shelves.is_empty() {
            custom.remove(group);
        }
    }

    fn advance(&self, revision: Revision) {
        self.applied.advance(revision);
    }

    /// Returns the revision after which every event of a kind in the space is known.
    pub fn first_of(&self, kind: impl Keyed, space: &Space) -> Revision {
        let origin = self.birth(space).max(self.floor_of(kind.collection_key()));
        origin.max(self.start)
    }

    /// Returns the revision at which the space was created: earlier objects under its name
    /// belonged to another tenant. The system's space always existed.
    pub fn birth(&self, space: &Space) -> Revision {
        match space {
            Space::System => Revision::ZERO,
            Space::Tenant(_) => self
                .space_state(space)
                .map_or(Revision::ZERO, |state| state.birth),
        }
    }

    /// Returns the revision of a tenant's fence, if it has one.
    pub fn fence(&self, tenant: &TenantName) -> Option<Revision> {
        let fences = self.fences.read().unwrap_or_else(PoisonError::into_inner);
        fences.get(tenant).copied()
    }

    fn move_fence(&self, tenant: TenantName, to: Option<Revision>) {
        let mut fences = self.fences.write().unwrap_or_else(PoisonError::into_inner);
        match to {
            Some(revision) => fences.insert(tenant, revision),
            None => fences.remove(&tenant),
        };
    }

    /// Quotas with a usage that may be stale.
    pub const fn dirty_quotas(&self) -> &DirtyQuotas {
        &self.dirty_quotas
    }

    /// Returns the state of a space, if its tenant exists.
    pub fn space_state(&self, space: &Space) -> Option<Arc<SpaceState>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).cloned()
    }

    /// Returns the usage of every tenant's space.
    pub fn usages(&self) -> Vec<(Space, Usage)> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let tenants = spaces.iter().filter(|(space, _)| !space.is_system());
        let usages = tenants.map(|(space, state)| (space.clone(), state.usage()));
        usages.collect()
    }

    /// Notes that the space has derived values in memory.
    pub(crate) fn note_derived(&self, state: &Arc<SpaceState>) {
        let mut with_derived = self
            .with_derived
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !state.noted.swap(true, Ordering::AcqRel) {
            with_derived.push(Arc::downgrade(state));
        }
    }

    /// Makes the served resources of every space stale.
    fn invalidate_all_apis(&self, revision: Revision) {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        for state in spaces.values() {
            state.invalidate(Derived::Apis, revision);
        }
    }

    /// Drops derived values that were not read since the last call but one.
    fn evict_idle(&self) {
        self.drop_idle_snapshots();
        self.drop_idle_indexes();
        let mut with_derived = self
            .with_derived
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        with_derived.retain(|state| {
            let Some(state) = state.upgrade() else {
                return false;
            };
            let kept = state.evict_idle();
            state.noted.store(kept, Ordering::Release);
            kept
        });
    }

    fn drop_idle_indexes(&self) {
        let mut indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = std::time::Instant::now();
        indexed.retain(|collection| {
            let collection = collection.upgrade();
            collection.is_some_and(|collection| collection.drop_idle_indexes(now))
        });
    }

    fn add_space(&self, tenant: &Stored, revision: Revision) {
        // A new tenant inherits nothing of a former one of its name.
        self.close(tenant.name());
        self.note_space(tenant, revision);
    }

    fn note_space(&self, tenant: &Stored, revision: Revision) {
        if let Ok(space) = Space::parse(tenant.name()) {
            self.hooks.note_tenant(&space, Some(tenant));
            let state = Arc::new(SpaceState::of(tenant, revision));
            let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
            spaces.insert(space, state);
        }
    }

    /// Drops a tenant's space: its watches end and its memory is freed.
    fn close(&self, tenant: &str) {
        let Ok(tenant) = TenantName::parse(tenant) else {
            return;
        };
        let space = Space::Tenant(tenant);
        self.owner_graph.close(&space);
        for collections in &self.built_in {
            collections.clear(&space);
        }
        for (group, resource) in self.custom_resources(&space) {
            self.clear(&group, &resource, &space, self.applied());
        }
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = spaces.remove(&space) {
            state.end();
        }
        self.hooks.note_tenant(&space, None);
        shrink(&mut spaces);
    }
}

/// Frees the capacity of a map that has lost most of its entries.
fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 1024 && map.len() < map.capacity() / 4 {
        map.shrink_to_fit();
    }
}

impl KindCollections {
    fn new(floor: Revision) -> Arc<Self> {
        Arc::new(Self {
            spaces: RwLock::default(),
            everywhere: Arc::new(Collection::new(floor)),
            all_spaces: Mutex::default(),
        })
    }

    fn find(&self, space: &Space) -> Option<Arc<Collection>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).cloned()
    }

    /// Drops the collection of a space. Returns whether no other is left.
    fn clear(&self, space: &Space) -> bool {
        let mut all_spaces = self.all_spaces();
        all_spaces.note_stale(space);
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(collection) = spaces.remove(space) {
            collection.close();
        }
        shrink(&mut spaces);
        spaces.is_empty()
    }

    /// Returns every space's collection, sorted by space.
    fn all(&self) -> Vec<(Space, Arc<Collection>)> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let all = spaces
            .iter()
            .map(|(space, of)| (space.clone(), Arc::clone(of)));
        let mut all: Vec<_> = all.collect();
        drop(spaces);
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}
