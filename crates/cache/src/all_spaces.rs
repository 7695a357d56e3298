//! The objects of a kind in all spaces, at one revision.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use insula_core::{Revision, Space};

use crate::collection::{Collection, Cursor, Event};
use crate::objects::Objects;
use crate::snapshots::Snapshots;
use crate::tree::{Item, Tree};
use crate::{Cache, Keyed, KindCollections};

/// The objects of a kind in all spaces, ordered by space. A clone is a snapshot, and costs one
/// pointer.
#[derive(Clone, Debug, Default)]
pub struct AllObjects {
    spaces: Tree<SpaceObjects>,
}

/// The objects of a kind in one of all spaces.
#[derive(Clone, Debug)]
pub struct SpaceObjects {
    /// The space.
    pub space: Space,
    /// Its objects, at least one.
    pub objects: Objects,
}

impl Item for SpaceObjects {
    type Key = Space;
    type OwnedKey = Space;

    fn key(&self) -> &Space {
        &self.space
    }

    fn owned_key(&self) -> Space {
        self.space.clone()
    }

    fn weight(&self) -> usize {
        self.objects.len()
    }
}

/// The objects of a kind in all spaces at one revision.
#[derive(Clone, Debug)]
pub struct AllContents {
    /// The objects.
    pub objects: AllObjects,
    /// The events of all spaces, as in [`Cache::log_of_all`].
    pub log: Arc<Collection>,
    /// The position after these objects in that log, if they are the current ones.
    pub cursor: Cursor,
    /// The revision of the last change.
    pub last: Revision,
}

/// The objects of a kind in all spaces, collected while lists ask for them.
#[derive(Debug, Default)]
pub(crate) struct AllSpaces {
    collected: Option<Collected>,
    snapshots: Snapshots<AllObjects>,
}

#[derive(Debug)]
struct Collected {
    objects: AllObjects,
    /// The spaces that changed since they were collected.
    stale: HashSet<Space>,
    used: Instant,
}

/// How long the objects of all spaces stay collected without being asked for.
const MAX_IDLE: Duration = Duration::from_secs(120);

impl AllObjects {
    /// The number of objects.
    pub const fn len(&self) -> usize {
        self.spaces.weight()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Returns the spaces from this one on, or all, in order.
    pub fn from(&self, first: Option<&Space>) -> impl Iterator<Item = &SpaceObjects> {
        let is_before = |space: &Space| first.is_some_and(|first| space < first);
        self.spaces.iter_from(is_before)
    }

    /// Returns the number of objects after a position, in the order of spaces and keys.
    pub fn count_after(&self, after: Option<(&Space, &str)>) -> usize {
        let Some((space, key)) = after else {
            return self.len();
        };
        let later = self.len() - self.spaces.weight_before(|other| other <= space);
        let own = self.spaces.get(space);
        later + own.map_or(0, |own| own.objects.count("", Some(key)))
    }
}

impl AllSpaces {
    /// Notes the changes of a transaction to a space.
    pub fn note_changes(&mut self, space: &Space, revision: Revision, events: &[Arc<Event>]) {
        self.note_stale(space);
        let bytes = events.iter().map(|event| event.replaced_bytes()).sum();
        if !events.is_empty() {
            self.snapshots.note_change(revision, bytes);
        }
    }

    /// Notes that the objects of a space have to be collected again.
    pub fn note_stale(&mut self, space: &Space) {
        if let Some(collected) = &mut self.collected
            && !collected.stale.contains(space)
        {
            collected.stale.insert(space.clone());
        }
    }

    /// Returns the current objects. Of spaces that did not change since the last call none is
    /// visited.
    fn current(&mut self, of: &KindCollections) -> AllObjects {
        let now = Instant::now();
        let collected = self.collected.get_or_insert_with(|| {
            let mut objects = AllObjects::default();
            for (space, collection) in of.all() {
                objects.put(space, Some(&collection));
            }
            Collected {
                objects,
                stale: HashSet::new(),
                used: now,
            }
        });
        for space in collected.stale.drain() {
            let collection = of.find(&space);
            collected.objects.put(space, collection.as_deref());
        }
        collected.used = now;
        collected.objects.clone()
    }
}

impl AllObjects {
    fn put(&mut self, space: Space, collection: Option<&Collection>) {
        let objects = collection.map(|collection| collection.contents().objects);
        match objects.filter(|objects| !objects.is_empty()) {
            Some(objects) => self.spaces.insert(SpaceObjects { space, objects }),
            None => self.spaces.remove(&space),
        };
    }
}

impl KindCollections {
    pub(crate) fn all_spaces(&self) -> MutexGuard<'_, AllSpaces> {
        self.all_spaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// Returns the objects of a kind in all spaces.
    pub fn contents_of_all(&self, kind: impl Keyed) -> AllContents {
        let collections = self.collections(kind.collection_key());
        let mut all_spaces = collections.all_spaces();
        collections.contents(all_spaces.current(&collections))
    }

    /// Returns the objects of a kind in all spaces as of `revision`: the current ones, or those
    /// of a kept snapshot. Returns `None` if neither is of that revision.
    pub fn contents_of_all_at(&self, kind: impl Keyed, revision: Revision) -> Option<AllContents> {
        let collections = self.collections(kind.collection_key());
        let mut all_spaces = collections.all_spaces();
        if collections.everywhere.last() <= revision {
            return Some(collections.contents(all_spaces.current(&collections)));
        }
        let objects = all_spaces.snapshots.at(revision)?;
        let last = revision;
        Some(AllContents {
            last,
            ..collections.contents(objects)
        })
    }

    /// Keeps the objects of all spaces for the next page of a list.
    pub fn keep_all(&self, kind: impl Keyed, contents: &AllContents) {
        let collections = self.collections(kind.collection_key());
        let mut all_spaces = collections.all_spaces();
        let Ok(until) = collections.everywhere.next_after(contents.last) else {
            return;
        };
        // Only users of the system read all spaces.
        let (budget, payer) = (&self.snapshot_budget, &Space::System);
        let snapshots = &mut all_spaces.snapshots;
        snapshots.keep(contents.last, until, &contents.objects, budget, payer);
    }

    /// Drops what was collected or kept for lists over all spaces that are over.
    pub(crate) fn drop_idle_snapshots(&self) {
        let custom: Vec<_> = {
            let custom = self.custom.read().unwrap_or_else(PoisonError::into_inner);
            let all = custom.values().flat_map(|group| group.values());
            all.cloned().collect()
        };
        let now = Instant::now();
        for collections in self.built_in.iter().chain(&custom) {
            let mut all_spaces = collections.all_spaces();
            let is_idle = |collected: &mut Collected| now - collected.used > MAX_IDLE;
            all_spaces.collected.take_if(is_idle);
            all_spaces.snapshots.drop_idle(now);
        }
    }
}

impl KindCollections {
    fn contents(&self, objects: AllObjects) -> AllContents {
        let (cursor, last) = self.everywhere.end();
        AllContents {
            objects,
            log: Arc::clone(&self.everywhere),
            cursor,
            last,
        }
    }
}
