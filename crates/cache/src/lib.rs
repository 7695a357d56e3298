//! Every object once, as it is sent.
//!
//! One feed from the store keeps it; requests only read. It is never ahead of the store,
//! and [`Cache::reach`] waits until it is not behind what a caller has seen. What one
//! transaction changed is seen whole, in one space and over all.

pub mod bootstrap_objects;
mod collection;
mod collection_key;
mod definitions;
mod derived;
mod entry;
pub mod expiry;
mod feed;
mod hooks;
mod owner_graph;
mod owner_refs;
mod pool;
mod quota_dirty;
mod space_state;
mod template;
mod text;
mod usage;
mod versions;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use insula_core::{Layout, Revision, Space, TenantName};
use insula_kinds::kinds;
use tokio::sync::Notify;

pub use collection::{Change, Collection, Cursor, Event, Lost, Snapshot, frame};
pub use collection_key::{CollectionKey, Keyed, definitions};
pub use definitions::{PUBLISHED, is_published};
pub use derived::Derived;
pub use entry::{Stored, with_revision, without_revision};
pub use feed::{Feed, load};
pub use hooks::Hooks;
pub use owner_graph::{Hold, Node, OwnerGraph};
pub use owner_refs::{OwnerRefs, Reference};
pub use pool::Pool;
pub use quota_dirty::{DirtyQuotas, Place};
pub use space_state::SpaceState;
pub use usage::Usage;
pub use versions::{Shown, Versions};

use bootstrap_objects::BootstrapObjects;

/// All collections of all spaces.
#[derive(Debug)]
pub struct Cache {
    layout: Layout,
    shelves: Vec<Arc<KindCollections>>,
    /// Those of kinds that users define: by group and plural.
    customs: RwLock<HashMap<Box<str>, Group>>,
    /// What objects of many spaces have in common.
    pool: Arc<Pool>,
    /// What every space has.
    bootstrap_objects: BootstrapObjects,
    hooks: Box<dyn Hooks>,
    /// The revision at which a collection of such a kind was last given up.
    cleared: AtomicU64,
    /// Everything that happened after it is told to watchers.
    start: Revision,
    /// Who depends on whom.
    owner_graph: OwnerGraph,
    /// The spaces that there are.
    lives: RwLock<HashMap<Space, Arc<SpaceState>>>,
    /// The spaces whose policies are in memory, so that those that nobody asks are found
    /// without a look at all.
    compiled: Mutex<Vec<Weak<SpaceState>>>,
    /// When a write last needed more of what a tenant may have, by tenant: see
    /// [`quota`](crate::write::quota).
    fences: RwLock<HashMap<TenantName, Revision>>,
    dirty_quotas: DirtyQuotas,
    applied: AtomicU64,
    advanced: Notify,
    progress_wanted: Notify,
}

/// The kinds of a group that users define, by their plurals.
type Group = HashMap<Box<str>, Arc<KindCollections>>;

/// The collections of one kind.
#[derive(Debug)]
struct KindCollections {
    spaces: RwLock<HashMap<Space, Arc<Collection>>>,
    /// What happened in all spaces, for those who watch all.
    everywhere: Arc<Collection>,
    /// Grows before and after a transaction changes the shelf: odd in between.
    version: AtomicU64,
}

/// The objects of a kind in every space, all of one moment.
#[derive(Debug)]
pub struct AllSpacesSnapshot {
    /// The objects in the order of spaces and keys.
    pub objects: Vec<(Space, Arc<Stored>)>,
    /// What happens in every space, as [`Cache::log_of_all`] has it.
    pub log: Arc<Collection>,
    /// Where changes to them begin in that log.
    pub cursor: Cursor,
    /// The revision of the last change.
    pub last: Revision,
}

/// How often progress is asked for while somebody waits: once at once, and again in case
/// the store grows where the cache does not look.
const ASK_AGAIN: Duration = Duration::from_millis(250);

impl Cache {
    fn new(layout: Layout, at: Revision, hooks: Box<dyn Hooks>) -> Self {
        Self {
            layout,
            shelves: kinds().iter().map(|_| KindCollections::new(at)).collect(),
            customs: RwLock::default(),
            pool: Arc::default(),
            bootstrap_objects: BootstrapObjects::new(),
            hooks,
            cleared: AtomicU64::new(0),
            start: at,
            owner_graph: OwnerGraph::default(),
            lives: RwLock::default(),
            compiled: Mutex::default(),
            fences: RwLock::default(),
            dirty_quotas: DirtyQuotas::default(),
            applied: AtomicU64::new(at.get()),
            advanced: Notify::new(),
            progress_wanted: Notify::new(),
        }
    }

    /// The objects of a kind in a space, if there ever was one.
    pub fn find(&self, kind: impl Keyed, space: &Space) -> Option<Arc<Collection>> {
        self.find_shelf(kind.collection_key())?.find(space)
    }

    /// The objects of a kind in a space.
    pub fn collection(&self, kind: impl Keyed, space: &Space) -> Arc<Collection> {
        let mark = kind.collection_key();
        let shelf = self.shelf(mark);
        if let Some(found) = shelf.find(space) {
            return found;
        }
        let mut spaces = shelf.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let floor = self.first_of(space).max(self.first_on(mark));
        let made = spaces.entry(space.clone());
        Arc::clone(made.or_insert_with(|| Arc::new(Collection::new(floor))))
    }

    /// The collections of a kind, in the order of their spaces.
    pub fn everywhere(&self, kind: impl Keyed) -> Vec<(Space, Arc<Collection>)> {
        let shelf = self.find_shelf(kind.collection_key());
        shelf.map(|shelf| shelf.all()).unwrap_or_default()
    }

    /// The objects of a kind in every space whose keys begin with `prefix`; `None` if a
    /// transaction changed some while they were collected.
    pub fn snapshot_all_spaces(&self, kind: impl Keyed, prefix: &str) -> Option<AllSpacesSnapshot> {
        let shelf = self.shelf(kind.collection_key());
        let version = shelf.version.load(Ordering::Acquire);
        let (cursor, last) = shelf.everywhere.end();
        let mut objects = Vec::new();
        for (space, collection) in shelf.all() {
            let found = collection.snapshot(prefix, None).objects.into_iter();
            objects.extend(found.map(|object| (space.clone(), object)));
        }
        // Who sees part of a transaction in a collection sees this number changed too: the
        // collection's lock is taken in between.
        let untouched =
            version.is_multiple_of(2) && shelf.version.load(Ordering::Acquire) == version;
        untouched.then_some(AllSpacesSnapshot {
            objects,
            log: Arc::clone(&shelf.everywhere),
            cursor,
            last,
        })
    }

    /// The revision of the last change to an object of a kind in any space.
    pub fn last_of_all(&self, kind: impl Keyed) -> Revision {
        self.shelf(kind.collection_key()).everywhere.last()
    }

    /// What happens to objects of a kind in every space: a log without objects.
    pub fn log_of_all(&self, kind: impl Keyed) -> Arc<Collection> {
        Arc::clone(&self.shelf(kind.collection_key()).everywhere)
    }

    /// Who depends on whom, in every space.
    pub const fn owner_graph(&self) -> &OwnerGraph {
        &self.owner_graph
    }

    /// Everything up to this revision is in it.
    pub fn applied(&self) -> Revision {
        Revision::new(self.applied.load(Ordering::Acquire))
    }

    /// Waits until everything up to `revision` is in it.
    pub async fn reach(&self, revision: Revision) {
        if self.applied() >= revision {
            return;
        }
        let mut ask = tokio::time::interval(ASK_AGAIN);
        while self.applied() < revision {
            let advanced = self.advanced.notified();
            if self.applied() >= revision {
                return;
            }
            tokio::select! {
                () = advanced => {}
                _ = ask.tick() => self.progress_wanted.notify_one(),
            }
        }
    }

    /// Is notified whenever more is in it.
    pub const fn advanced(&self) -> &Notify {
        &self.advanced
    }

    fn find_shelf(&self, mark: CollectionKey<'_>) -> Option<Arc<KindCollections>> {
        match mark {
            CollectionKey::BuiltIn(id) => self.shelves.get(id.index()).cloned(),
            CollectionKey::Custom { group, resource } => {
                let customs = self.customs.read().unwrap_or_else(PoisonError::into_inner);
                customs.get(group)?.get(resource).cloned()
            }
        }
    }

    fn shelf(&self, mark: CollectionKey<'_>) -> Arc<KindCollections> {
        if let Some(found) = self.find_shelf(mark) {
            return found;
        }
        let floor = self.start.max(self.first_on(mark));
        let (group, resource) = match mark {
            CollectionKey::Custom { group, resource } => (group, resource),
            // The table has a shelf for each of its kinds.
            CollectionKey::BuiltIn(_) => return KindCollections::new(floor),
        };
        let mut customs = self.customs.write().unwrap_or_else(PoisonError::into_inner);
        let group = customs.entry(group.into()).or_default();
        Arc::clone(
            group
                .entry(resource.into())
                .or_insert_with(|| KindCollections::new(floor)),
        )
    }

    /// The revision after which nothing of the kind was given up.
    fn first_on(&self, mark: CollectionKey<'_>) -> Revision {
        match mark {
            CollectionKey::BuiltIn(_) => Revision::ZERO,
            CollectionKey::Custom { .. } => Revision::new(self.cleared.load(Ordering::Acquire)),
        }
    }

    /// The kinds that users define of which the space has, or had, objects.
    pub fn customs_of(&self, space: &Space) -> Vec<(Box<str>, Box<str>)> {
        let customs = self.customs.read().unwrap_or_else(PoisonError::into_inner);
        let all = customs.iter().flat_map(|(group, shelves)| {
            let in_space = shelves
                .iter()
                .filter(|(_, shelf)| shelf.find(space).is_some());
            in_space.map(move |(resource, _)| (group.clone(), resource.clone()))
        });
        all.collect()
    }

    /// Forgets the objects of a kind in a space that does not serve it any more: its watches
    /// end, its memory is given back.
    pub(crate) fn clear(&self, group: &str, resource: &str, space: &Space, revision: Revision) {
        self.cleared.fetch_max(revision.get(), Ordering::AcqRel);
        let mut customs = self.customs.write().unwrap_or_else(PoisonError::into_inner);
        let Some(shelves) = customs.get_mut(group) else {
            return;
        };
        if shelves
            .get(resource)
            .is_some_and(|shelf| shelf.clear(space))
            && let Some(shelf) = shelves.remove(resource)
        {
            // Who watches all spaces reads a log that is written no more, and begins again.
            shelf.everywhere.close();
        }
        if shelves.is_empty() {
            customs.remove(group);
        }
    }

    fn advance(&self, revision: Revision) {
        self.applied.fetch_max(revision.get(), Ordering::AcqRel);
        self.advanced.notify_waiters();
    }

    /// The revision after which everything that happened in the space is known.
    pub fn first_of(&self, space: &Space) -> Revision {
        self.birth(space).max(self.start)
    }

    /// The revision at which the space came about: what was there before was not its own.
    /// The system's was always there.
    pub fn birth(&self, space: &Space) -> Revision {
        match space {
            Space::System => Revision::ZERO,
            Space::Tenant(_) => self
                .space_state(space)
                .map_or(Revision::ZERO, |life| life.birth),
        }
    }

    /// The revision of a tenant's fence, if it has one.
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

    /// Where something changed that is limited.
    pub const fn dirty_quotas(&self) -> &DirtyQuotas {
        &self.dirty_quotas
    }

    /// The space, if there is such a tenant.
    pub fn space_state(&self, space: &Space) -> Option<Arc<SpaceState>> {
        let lives = self.lives.read().unwrap_or_else(PoisonError::into_inner);
        lives.get(space).cloned()
    }

    /// Notes whose policy is in memory now.
    pub(crate) fn note_derived(&self, life: &Arc<SpaceState>) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if !life.noted.swap(true, Ordering::AcqRel) {
            compiled.push(Arc::downgrade(life));
        }
    }

    /// Makes the served resources of every space stale.
    fn invalidate_all_apis(&self, revision: Revision) {
        let lives = self.lives.read().unwrap_or_else(PoisonError::into_inner);
        for life in lives.values() {
            life.invalidate(Derived::Apis, revision);
        }
    }

    /// Gives back the memory of policies that nobody asked since the last call but one.
    fn evict_idle(&self) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.retain(|life| {
            let Some(life) = life.upgrade() else {
                return false;
            };
            let kept = life.evict_idle();
            life.noted.store(kept, Ordering::Release);
            kept
        });
    }

    fn born(&self, tenant: &Stored, revision: Revision) {
        // Nothing that was made under the name of a former tenant is left to this one.
        self.close(tenant.name());
        self.note_birth(tenant, revision);
    }

    fn note_birth(&self, tenant: &Stored, revision: Revision) {
        if let Ok(space) = Space::parse(tenant.name()) {
            let life = Arc::new(SpaceState::of(tenant, revision));
            let mut lives = self.lives.write().unwrap_or_else(PoisonError::into_inner);
            lives.insert(space, life);
        }
    }

    /// Forgets a tenant's space: its watches end, its memory is given back.
    fn close(&self, tenant: &str) {
        let Ok(tenant) = TenantName::parse(tenant) else {
            return;
        };
        let space = Space::Tenant(tenant);
        self.owner_graph.close(&space);
        for shelf in &self.shelves {
            shelf.clear(&space);
        }
        for (group, resource) in self.customs_of(&space) {
            self.clear(&group, &resource, &space, self.applied());
        }
        let mut lives = self.lives.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(life) = lives.remove(&space) {
            life.end();
        }
        give_back(&mut lives);
    }
}

/// Most of what was there is gone: so is the room for it.
fn give_back<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > 1024 && map.len() < map.capacity() / 4 {
        map.shrink_to_fit();
    }
}

impl KindCollections {
    fn new(floor: Revision) -> Arc<Self> {
        Arc::new(Self {
            spaces: RwLock::default(),
            everywhere: Arc::new(Collection::new(floor)),
            version: AtomicU64::new(0),
        })
    }

    fn find(&self, space: &Space) -> Option<Arc<Collection>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).cloned()
    }

    /// Forgets a space. Says whether no other is left.
    fn clear(&self, space: &Space) -> bool {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(collection) = spaces.remove(space) {
            collection.close();
        }
        give_back(&mut spaces);
        spaces.is_empty()
    }

    /// Every space's collection, in the order of the spaces.
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

    /// Marks the begin or the end of a transaction's changes.
    fn turn(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}
