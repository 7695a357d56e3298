//! The objects of one region of keys, on their way into collections.

use std::sync::Arc;

use insula_core::{Revision, Space};
use insula_kinds::KindId;
use insula_store::Entry;
use memchr::memchr_iter;

use super::Reading;
use crate::Cache;
use crate::collection::Collection;
use crate::collection_key::CollectionKey;
use crate::feed::{ObjectKey, has_owners};
use crate::forms::Forms;
use crate::objects::Sorted;
use crate::owner_refs::may_have_owner_refs;
use crate::usage::UsageKinds;

/// The collections that a region has objects of.
pub(super) struct Contents {
    cache: Arc<Cache>,
    forms: Forms,
    usage_kinds: UsageKinds,
    /// The run of the last object in a tenant's space: the keys of its collection follow each
    /// other.
    tenant: Option<Run>,
    /// The run of the last object in the system's space: tenants' keys are among its own.
    system: Option<Run>,
    /// Whether the tenant's run is the region's first, and may have begun in another one.
    is_first: bool,
    unfinished: Vec<Unfinished>,
}

/// Objects of one collection that were found one after the other.
struct Run {
    /// What the keys in the store begin with, before `namespace/name` or `name`.
    head: Box<[u8]>,
    /// The number of slashes in the rest of a key.
    slashes: usize,
    /// Whether every key of this form belongs to the collection.
    is_exact: bool,
    /// The kind, if it is built in.
    kind: Option<KindId>,
    has_owners: bool,
    space: Space,
    bytes: usize,
    found: Unfinished,
}

/// Objects of a collection that other regions may have objects of, too.
pub(super) struct Unfinished {
    pub collection: Arc<Collection>,
    objects: Sorted,
    last: Revision,
}

impl Contents {
    /// Ends the region. Returns the collections that may go on in another one, or may have begun
    /// there.
    pub fn finish(mut self) -> Vec<Unfinished> {
        for run in [self.tenant.take(), self.system.take()]
            .into_iter()
            .flatten()
        {
            let unfinished = self.count(run);
            self.unfinished.push(unfinished);
        }
        self.unfinished
    }

    /// Returns the run of an object that does not belong to those before.
    fn run_of(&mut self, found: &ObjectKey<'_>, key: &[u8]) -> &mut Run {
        let is_system = found.space.is_system();
        let current = match is_system {
            true => &mut self.system,
            false => &mut self.tenant,
        };
        // Custom objects of the system are looked up each time.
        let is_same = |run: &mut Run| is_system && run.has_head_of(found, key);
        let ended = current.take_if(|run| !is_same(run));
        if let Some(ended) = ended {
            let ended = self.count(ended);
            if is_system || self.is_first {
                self.unfinished.push(ended);
            } else {
                ended.load();
            }
            self.is_first &= is_system;
        }
        let cache = &self.cache;
        let current = match is_system {
            true => &mut self.system,
            false => &mut self.tenant,
        };
        current.get_or_insert_with(|| Run::new(cache, found, key))
    }

    /// Adds the objects of a run to the usage of its space.
    fn count(&self, run: Run) -> Unfinished {
        if let Some(state) = self.cache.space_state(&run.space) {
            let objects = run.found.objects.len();
            let more = self.usage_kinds.of(run.kind, objects, run.bytes);
            state.update_usage(|usage| usage + more);
        }
        run.found
    }
}

impl Reading for Contents {
    fn begin(cache: &Arc<Cache>) -> Self {
        Self {
            cache: Arc::clone(cache),
            forms: Forms::default(),
            usage_kinds: UsageKinds::new(),
            tenant: None,
            system: None,
            is_first: true,
            unfinished: Vec::new(),
        }
    }

    fn add(&mut self, entry: &Entry) {
        for run in [&mut self.tenant, &mut self.system].into_iter().flatten() {
            if let Some(key) = run.key_of(&entry.key) {
                run.add(&self.cache, &mut self.forms, key, entry);
                return;
            }
        }
        let cache = Arc::clone(&self.cache);
        let Some(found) = cache.parse(&entry.key) else {
            cache.note_fence(&entry.key, Some(entry.modified));
            return;
        };
        let mut forms = std::mem::take(&mut self.forms);
        let run = self.run_of(&found, &entry.key);
        run.add(&cache, &mut forms, found.key, entry);
        self.forms = forms;
    }
}

impl Run {
    fn new(cache: &Cache, found: &ObjectKey<'_>, key: &[u8]) -> Self {
        let kind = match found.collection {
            CollectionKey::BuiltIn(kind) => Some(kind),
            CollectionKey::Custom { .. } => None,
        };
        Self {
            head: head(found, key).into(),
            slashes: slashes(found.key.as_bytes()),
            // Whether a custom object of two segments is in a namespace of the system or in a
            // tenant depends on the first one.
            is_exact: kind.is_some() || !found.space.is_system(),
            kind,
            has_owners: has_owners(found.collection),
            space: found.space.clone(),
            bytes: 0,
            found: Unfinished {
                collection: cache.collection(found.collection, &found.space),
                objects: Sorted::default(),
                last: Revision::ZERO,
            },
        }
    }

    /// Returns the object's own part of a key, if the object belongs to the collection. That it
    /// does is known from the object before, so the key need not be parsed.
    fn key_of<'k>(&self, key: &'k [u8]) -> Option<&'k str> {
        let own = key.strip_prefix(&*self.head)?;
        let belongs = self.is_exact && slashes(own) == self.slashes;
        std::str::from_utf8(own).ok().filter(|_| belongs)
    }

    fn has_head_of(&self, found: &ObjectKey<'_>, key: &[u8]) -> bool {
        *self.head == *head(found, key)
    }

    fn add(&mut self, cache: &Cache, forms: &mut Forms, key: &str, entry: &Entry) {
        let object = cache.stored_with(self.kind, key, entry, Some(forms));
        self.bytes += object.bytes;
        let object = Arc::new(object.object);
        if self.has_owners
            && may_have_owner_refs(&entry.value)
            && let Some(found) = cache.parse(&entry.key)
        {
            let graph = cache.owner_graph();
            graph.load(found.collection, &self.space, &object);
        }
        self.found.last = self.found.last.max(object.revision);
        self.found.objects.push(object);
    }
}

impl Unfinished {
    /// Adds the objects that another region has of the collection.
    pub fn append(&mut self, next: Self) {
        self.last = self.last.max(next.last);
        self.objects.append(next.objects);
    }

    /// Fills the collection.
    pub fn load(self) {
        self.collection.load(self.objects, self.last);
    }
}

fn head<'k>(found: &ObjectKey<'_>, key: &'k [u8]) -> &'k [u8] {
    &key[..key.len() - found.key.len()]
}

fn slashes(key: &[u8]) -> usize {
    memchr_iter(b'/', key).count()
}
