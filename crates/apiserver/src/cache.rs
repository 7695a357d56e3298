//! Every object once, as it is sent.
//!
//! One feed from the store keeps it; requests only read. It is never ahead of the store,
//! and [`Cache::reach`] waits until it is not behind what a caller has seen. What one
//! transaction changed is seen whole, in one space and over all.

mod collection;
mod entry;
mod feed;
mod life;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use insula_core::{Layout, Revision, Space, TenantName};
use insula_kinds::{KindId, kinds};
use tokio::sync::Notify;

pub use collection::{Change, Collection, Cursor, Event, Lost, Snapshot, frame};
pub use entry::{Stored, with_revision, without_revision};
pub use feed::{Feed, load};
pub use life::Life;

/// All collections of all spaces.
#[derive(Debug)]
pub struct Cache {
    layout: Layout,
    shelves: Vec<Shelf>,
    /// Everything that happened after it is told to watchers.
    start: Revision,
    /// The spaces that there are.
    lives: RwLock<HashMap<Space, Arc<Life>>>,
    /// The spaces whose policies are in memory, so that those that nobody asks are found
    /// without a look at all.
    compiled: Mutex<Vec<Weak<Life>>>,
    applied: AtomicU64,
    advanced: Notify,
    progress_wanted: Notify,
}

/// The collections of one kind.
#[derive(Debug)]
struct Shelf {
    spaces: RwLock<HashMap<Space, Arc<Collection>>>,
    /// What happened in all spaces, for those who watch all.
    everywhere: Arc<Collection>,
    /// Grows before and after a transaction changes the shelf: odd in between.
    version: AtomicU64,
}

/// The objects of a kind in every space, all of one moment.
#[derive(Debug)]
pub struct Panorama {
    /// The objects in the order of spaces and keys.
    pub objects: Vec<(Space, Arc<Stored>)>,
    /// Where changes to them begin in the log of all.
    pub cursor: Cursor,
    /// The revision of the last change.
    pub last: Revision,
}

/// How often progress is asked for while somebody waits: once at once, and again in case
/// the store grows where the cache does not look.
const ASK_AGAIN: Duration = Duration::from_millis(250);

impl Cache {
    fn new(layout: Layout, at: Revision) -> Self {
        let shelf = |_| Shelf {
            spaces: RwLock::default(),
            everywhere: Arc::new(Collection::new(at)),
            version: AtomicU64::new(0),
        };
        Self {
            layout,
            shelves: kinds().iter().map(shelf).collect(),
            start: at,
            lives: RwLock::default(),
            compiled: Mutex::default(),
            applied: AtomicU64::new(at.get()),
            advanced: Notify::new(),
            progress_wanted: Notify::new(),
        }
    }

    /// The objects of a kind in a space, if there ever was one.
    pub fn find(&self, kind: KindId, space: &Space) -> Option<Arc<Collection>> {
        let spaces = self
            .shelf(kind)
            .spaces
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        spaces.get(space).cloned()
    }

    /// The objects of a kind in a space.
    pub fn collection(&self, kind: KindId, space: &Space) -> Arc<Collection> {
        if let Some(found) = self.find(kind, space) {
            return found;
        }
        let mut spaces = self
            .shelf(kind)
            .spaces
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let floor = self.first_of(space);
        let made = spaces.entry(space.clone());
        Arc::clone(made.or_insert_with(|| Arc::new(Collection::new(floor))))
    }

    /// The collections of a kind, in the order of their spaces.
    pub fn everywhere(&self, kind: KindId) -> Vec<(Space, Arc<Collection>)> {
        self.shelf(kind).all()
    }

    /// The objects of a kind in every space whose keys begin with `prefix`; `None` if a
    /// transaction changed some while they were collected.
    pub fn panorama(&self, kind: KindId, prefix: &str) -> Option<Panorama> {
        let shelf = self.shelf(kind);
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
        untouched.then_some(Panorama {
            objects,
            cursor,
            last,
        })
    }

    /// The revision of the last change to an object of a kind in any space.
    pub fn last_of_all(&self, kind: KindId) -> Revision {
        self.shelf(kind).everywhere.last()
    }

    /// What happens to objects of a kind in every space: a log without objects.
    pub fn log_of_all(&self, kind: KindId) -> &Arc<Collection> {
        &self.shelf(kind).everywhere
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

    fn shelf(&self, kind: KindId) -> &Shelf {
        &self.shelves[kind.index()]
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
            Space::Tenant(_) => self.life(space).map_or(Revision::ZERO, |life| life.birth),
        }
    }

    /// The space, if there is such a tenant.
    pub fn life(&self, space: &Space) -> Option<Arc<Life>> {
        let lives = self.lives.read().unwrap_or_else(PoisonError::into_inner);
        lives.get(space).cloned()
    }

    /// Notes whose policy is in memory now.
    pub(crate) fn note_compiled(&self, life: &Arc<Life>) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.push(Arc::downgrade(life));
    }

    /// Gives back the memory of policies that nobody asked since the last call but one.
    fn drop_idle_policies(&self) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.retain(|life| {
            let life = life.upgrade();
            life.is_some_and(|life| life.keeps_policy())
        });
    }

    fn born(&self, tenant: &Stored, revision: Revision) {
        // Nothing that was made under the name of a former tenant is left to this one.
        self.close(tenant.name());
        self.note_birth(tenant, revision);
    }

    fn note_birth(&self, tenant: &Stored, revision: Revision) {
        if let Ok(space) = Space::parse(tenant.name()) {
            let life = Arc::new(Life::of(tenant, revision));
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
        for shelf in &self.shelves {
            let mut spaces = shelf.spaces.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(collection) = spaces.remove(&space) {
                collection.close();
            }
        }
        let mut lives = self.lives.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(life) = lives.remove(&space) {
            life.end();
        }
    }
}

impl Shelf {
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
