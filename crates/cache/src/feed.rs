//! The feed: changes from the store into the cache.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use insula_core::{Layout, Place, ResourceName, Revision, Space};
use insula_kinds::quota::CountedResource;
use insula_kinds::{KindId, kinds};
use insula_store::{Changed, Entry, Error, Watch, WatchItem};

use crate::Cache;
use crate::collection::{Change, Collection, Event, Put, Subscriber};
use crate::collection_key::{CollectionKey, definitions};
use crate::delivery::Delivery;
use crate::entry::Stored;
use crate::expiry;
use crate::forms::Forms;
use crate::usage::{Usage, UsageKinds};
use insula_kinds::core_kind;

/// Follows the store, and applies its changes to the cache.
pub struct Feed {
    cache: Arc<Cache>,
    watch: Box<dyn Watch>,
    tenants: KindId,
    definitions: KindId,
    quotas: KindId,
    usage_kinds: UsageKinds,
    /// The collections with events in their logs, and since when, oldest first: old events are
    /// dropped, so that an idle collection holds no history. Collections of deleted spaces are
    /// not kept alive by this.
    with_history: VecDeque<(Instant, Weak<Collection>)>,
    /// The watches that are yet to be woken.
    delivery: Delivery,
    /// How many tenants were deleted since that list was last compacted.
    deleted_tenants: usize,
}

/// How long a log keeps events: as long as the store promises to.
const HISTORY: Duration = Duration::from_secs(300);

/// The number of kinds that a new tenant has objects of.
const KINDS_PER_TENANT: usize = 5;

impl Feed {
    /// Follows the store with a watch from where the cache was loaded.
    pub(crate) fn new(cache: Arc<Cache>, watch: Box<dyn Watch>) -> Self {
        Self {
            cache,
            watch,
            tenants: core_kind("tenants"),
            definitions: definitions(),
            quotas: core_kind("resourcequotas"),
            usage_kinds: UsageKinds::new(),
            with_history: VecDeque::new(),
            delivery: Delivery::default(),
            deleted_tenants: 0,
        }
    }

    /// Follows the store until that fails.
    pub async fn run(mut self) -> Error {
        let cache = Arc::clone(&self.cache);
        let mut minute = tokio::time::interval(Duration::from_secs(60));
        loop {
            let item = tokio::select! {
                item = self.watch.next() => item,
                () = cache.progress_wanted.notified() => {
                    match self.watch.request_progress().await {
                        Ok(()) => continue,
                        Err(error) => return error,
                    }
                }
                // The tasks of the watches that were just woken run first.
                () = tokio::task::yield_now(), if !self.delivery.is_empty() => {
                    self.delivery.wake_some();
                    continue;
                }
                _ = minute.tick() => {
                    self.drop_old_history();
                    cache.evict_idle();
                    continue;
                }
            };
            match item {
                Ok(WatchItem::Changes { revision, changes }) => {
                    self.apply(&changes, revision);
                    cache.advance(revision);
                    // Also while one change follows the other without a pause.
                    self.delivery.wake_some();
                }
                Ok(WatchItem::Progress(revision)) => cache.advance(revision),
                Err(error) => return error,
            }
        }
    }

    /// Applies a transaction: each collection takes its part under one lock, and so does the
    /// log of each kind.
    fn apply(&mut self, changes: &[Changed], revision: Revision) {
        let cache = Arc::clone(&self.cache);
        let mut found = Vec::with_capacity(changes.len());
        for change in changes {
            match cache.parse(change.key()) {
                Some(about) => found.push((about, change)),
                None => {
                    let is_put = matches!(change, Changed::Put(_));
                    cache.note_fence(change.key(), is_put.then_some(revision));
                }
            }
        }
        self.add_spaces(&found, revision);
        let quotas = CollectionKey::BuiltIn(self.quotas);
        let charging = found.iter().filter(|(about, _)| about.collection == quotas);
        let charging = charging.count();
        // A quota that changes together with another object was charged for that object.
        let charged = charging > 0 && charging < found.len();
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (found, change) in &found {
            let put = match change {
                Changed::Put(entry) => {
                    let object = cache.stored(found, entry);
                    match shadowed(&cache, found, &object) {
                        Some(of) => Put::Shadow(object, of),
                        None => Put::Object(object),
                    }
                }
                Changed::Deleted(_) => Put::Gone(found.key.into()),
            };
            let same = |part: &&mut Part<'_>| {
                part.collection == found.collection && part.space == found.space
            };
            match parts.iter_mut().find(same) {
                Some(part) => part.puts.push(put),
                None => parts.push(Part {
                    collection: found.collection,
                    space: found.space.clone(),
                    puts: vec![put],
                }),
            }
        }
        // By kind; the sort is stable, so the order of the keys stays.
        parts.sort_by_key(|part| part.collection);
        while let Some(key) = parts.first().map(|part| part.collection) {
            let end = parts.partition_point(|part| part.collection <= key);
            self.apply_to_kind(key, parts.drain(..end), revision, charged);
        }
        // A tenant's object is deleted last, so its space is empty by now.
        for (found, change) in &found {
            if found.collection == CollectionKey::BuiltIn(self.tenants)
                && matches!(change, Changed::Deleted(_))
            {
                cache.close(found.key);
                self.deleted_tenants += 1;
            }
        }
        self.compact_history();
    }

    /// Drops the entries of collections that were deleted with their spaces, once they may be a
    /// large part of the list.
    fn compact_history(&mut self) {
        if self.deleted_tenants * KINDS_PER_TENANT < self.with_history.len() / 2
            || self.deleted_tenants == 0
        {
            return;
        }
        self.deleted_tenants = 0;
        self.with_history.retain(|(_, of)| of.strong_count() > 0);
        self.with_history.shrink_to_fit();
    }

    /// Adds the spaces of new tenants, before any object is put into them.
    fn add_spaces(&self, found: &[(ObjectKey<'_>, &Changed)], revision: Revision) {
        for (found, change) in found {
            if found.collection == CollectionKey::BuiltIn(self.tenants)
                && let Changed::Put(entry) = change
            {
                let tenants = self.cache.collection(found.collection, &found.space);
                if tenants.get(found.key).is_none() {
                    let tenant = Stored::new(found.key.into(), revision, &entry.value);
                    self.cache.add_space(&tenant, revision);
                }
            }
        }
    }

    fn apply_to_kind<'p>(
        &mut self,
        collection_key: CollectionKey<'_>,
        parts: impl Iterator<Item = Part<'p>>,
        revision: Revision,
        charged: bool,
    ) {
        let cache = Arc::clone(&self.cache);
        let collections = cache.collections(collection_key);
        let mut events = Vec::new();
        let mut all_spaces = collections.all_spaces();
        for part in parts {
            let collection = cache.collection(collection_key, &part.space);
            let recorded = collection.apply(part.puts, revision);
            if has_owners(collection_key) {
                let events = recorded.events.iter().map(AsRef::as_ref);
                cache.owner_graph.note(collection_key, &part.space, events);
            }
            self.count(collection_key, &part.space, &recorded.events, charged);
            if let CollectionKey::BuiltIn(kind) = collection_key {
                if let Some(stale) = cache.hooks.invalidates(kind, &recorded.events)
                    && let Some(state) = cache.space_state(&part.space)
                {
                    state.invalidate(stale, revision);
                }
                if kind == self.definitions {
                    cache.note_definitions(&part.space, &recorded.events, revision);
                }
            }
            all_spaces.note_changes(&part.space, revision, &recorded.events);
            events.extend(recorded.events);
            self.deliver(recorded.marked);
            self.track_history(&collection, recorded.began);
        }
        let (began, marked) = collections.everywhere.record(events);
        drop(all_spaces);
        self.deliver(marked);
        self.track_history(&collections.everywhere, began);
    }

    /// Wakes the watches that a change concerns.
    fn deliver(&mut self, marked: Vec<Arc<Subscriber>>) {
        if !marked.is_empty() {
            let count = marked.len() as u64;
            self.cache.watches_woken.fetch_add(count, Ordering::Relaxed);
            self.delivery.add(marked);
        }
    }

    /// Updates the usage of the space, and notes the quotas that have to be recounted.
    fn count(
        &self,
        collection_key: CollectionKey<'_>,
        space: &Space,
        events: &[Arc<Event>],
        charged: bool,
    ) {
        let cache = &self.cache;
        if collection_key == CollectionKey::BuiltIn(self.tenants) {
            self.note_tenants(events);
        }
        if let Some(state) = cache.space_state(space).filter(|_| !space.is_system()) {
            let before = events.iter().filter_map(|event| event.stored_before());
            let superseded: usize = before.map(|before| before.stored_length()).sum();
            if superseded > 0 {
                state.note_superseded(superseded as u64);
            }
            let events = events.iter().map(|event| &**event);
            state.update_usage(|usage| self.usage_kinds.after(usage, collection_key, events));
            if state.is_limited() || cache.hooks.limits_every_tenant() {
                cache.dirty_quotas.note((space.clone(), None));
            }
        }
        let Some(quotas) = cache.find(self.quotas, space) else {
            return;
        };
        for event in events {
            let Some(namespace) = event.object.namespace() else {
                return;
            };
            if self.makes_stale(collection_key, event.change, charged)
                && quotas.count(&format!("{namespace}/"), 1) > 0
            {
                let place = (space.clone(), Some(namespace.into()));
                cache.dirty_quotas.note(place);
            }
        }
    }

    /// Whether the recorded usage of a quota may be stale after a change.
    fn makes_stale(
        &self,
        collection_key: CollectionKey<'_>,
        change: Change,
        charged: bool,
    ) -> bool {
        let CollectionKey::BuiltIn(kind) = collection_key else {
            return change == Change::Deleted || (change == Change::Added && !charged);
        };
        let kind = kinds().get(kind);
        let counted = CountedResource {
            group: &kind.group,
            resource: &kind.resource,
        };
        let is_quota = collection_key == CollectionKey::BuiltIn(self.quotas);
        counted.is_counted()
            && match change {
                Change::Deleted => true,
                Change::Added => !charged,
                // A change that charges one quota may release usage of another.
                Change::Modified => counted.is_measured() || (is_quota && !charged),
            }
    }

    /// Notes which tenants have a quota or limits now, and which of them have to be recounted.
    fn note_tenants(&self, events: &[Arc<Event>]) {
        for event in events {
            let space = Space::parse(event.object.name()).ok();
            let Some((space, state)) = space.and_then(|space| {
                let state = self.cache.space_state(&space)?;
                Some((space, state))
            }) else {
                continue;
            };
            let was_limited = state.is_limited();
            state.note_tenant(&event.object);
            self.cache.hooks.note_tenant(&space, Some(&event.object));
            if state.is_limited() || was_limited || self.cache.hooks.limits_every_tenant() {
                self.cache.dirty_quotas.note((space, None));
            }
        }
    }

    fn track_history(&mut self, collection: &Arc<Collection>, log_began: bool) {
        if log_began {
            let collection = Arc::downgrade(collection);
            self.with_history.push_back((Instant::now(), collection));
        }
    }

    fn drop_old_history(&mut self) {
        let now = Instant::now();
        let old = |since: &Instant| now.duration_since(*since) > HISTORY;
        while self
            .with_history
            .front()
            .is_some_and(|(since, _)| old(since))
        {
            let Some((_, collection)) = self.with_history.pop_front() else {
                return;
            };
            let oldest = collection.upgrade().and_then(|of| of.forget(now - HISTORY));
            if let Some(oldest) = oldest {
                self.with_history.push_back((oldest, collection));
            }
        }
    }
}

/// An object, and how many bytes the store has of it.
pub(crate) struct Loaded {
    pub object: Stored,
    pub bytes: usize,
}

/// The part of a transaction that concerns one collection.
struct Part<'a> {
    collection: CollectionKey<'a>,
    space: Space,
    puts: Vec<Put>,
}

/// A key of the store, parsed.
pub(crate) struct ObjectKey<'a> {
    pub collection: CollectionKey<'a>,
    pub space: Space,
    /// `namespace/name` or `name`.
    pub key: &'a str,
}

impl Cache {
    pub(crate) fn parse<'a>(&self, key: &'a [u8]) -> Option<ObjectKey<'a>> {
        let whole = std::str::from_utf8(key).ok()?;
        let mut segments = self.layout.below(whole)?;
        let first = segments.next()?;
        let collection = match kinds().find_storage("", first) {
            Some(kind) => CollectionKey::BuiltIn(kind),
            None => key_of(first, segments.next()?)?,
        };
        let mut rest = [""; 4];
        let mut count = 0;
        for segment in segments {
            *rest.get_mut(count)? = segment;
            count += 1;
        }
        let Place {
            space,
            namespace,
            name,
        } = match collection {
            CollectionKey::BuiltIn(kind) => {
                Layout::place(&rest[..count], kinds().get(kind).namespaced())?
            }
            CollectionKey::Custom { .. } => self.place(&rest[..count])?,
        };
        let length = namespace.map_or(0, |namespace| namespace.len() + 1) + name.len();
        let key = &whole[whole.len() - length..];
        Some(ObjectKey {
            collection,
            space,
            key,
        })
    }

    /// Returns the resource, the space and the `namespace/name` or `name` of the object that a key
    /// of the store belongs to; `None` for keys that belong to none.
    pub fn locate<'a>(&self, key: &'a [u8]) -> Option<(ResourceName<'a>, Space, &'a str)> {
        let found = self.parse(key)?;
        let resource = match found.collection {
            CollectionKey::BuiltIn(kind) => {
                let kind = kinds().get(kind);
                ResourceName {
                    group: &kind.group,
                    resource: &kind.resource,
                }
            }
            CollectionKey::Custom { group, resource } => ResourceName { group, resource },
        };
        Some((resource, found.space, found.key))
    }

    /// Returns the space of a key, the usage of an object of so many bytes there, and the usage of
    /// the object that exists.
    pub fn weigh(&self, key: &[u8], bytes: usize) -> Option<(Space, Usage, Usage)> {
        let found = self.parse(key)?;
        let objects = self.find(found.collection, &found.space);
        let there = objects.and_then(|objects| objects.get(found.key));
        let there = there.map(|there| Usage::one(found.collection, there.stored_length()));
        let usage = Usage::one(found.collection, bytes);
        Some((found.space, usage, there.unwrap_or_default()))
    }

    /// Notes the revision of a fence, if the key is one.
    pub(crate) fn note_fence(&self, key: &[u8], at: Option<Revision>) {
        let tenant = std::str::from_utf8(key).ok();
        if let Some(tenant) = tenant.and_then(|key| self.layout.fenced(key)) {
            self.move_fence(tenant, at);
        }
    }

    /// Returns the entry as the cache holds it. Definitions are large and alike in many spaces, so
    /// they are shared; bootstrap objects are alike in all, so they are templates.
    pub(crate) fn stored(&self, found: &ObjectKey<'_>, entry: &Entry) -> Stored {
        let kind = match found.collection {
            CollectionKey::BuiltIn(kind) => Some(kind),
            CollectionKey::Custom { .. } => None,
        };
        self.stored_with(kind, found.key, entry, None).object
    }

    /// The same for an object of a kind, if it is built in, with the templates of those before.
    pub(crate) fn stored_with(
        &self,
        kind: Option<KindId>,
        key: &str,
        entry: &Entry,
        forms: Option<&mut Forms>,
    ) -> Loaded {
        let (revision, value) = (entry.modified, &entry.value);
        let loaded = |object| Loaded {
            object,
            bytes: value.len(),
        };
        let Some(kind) = kind else {
            return loaded(Stored::new(key.into(), revision, value));
        };
        if expiry::expires(CollectionKey::BuiltIn(kind)) {
            let (value, written) = expiry::undated(value);
            return Loaded {
                object: Stored::new(key.into(), revision, &value).dated(written),
                bytes: value.len(),
            };
        }
        if kind == definitions() {
            return loaded(Stored::shared(key.into(), revision, value, &self.pool));
        }
        if !self.bootstrap_objects.contains(kind, key) {
            return loaded(Stored::new(key.into(), revision, value));
        }
        loaded(match forms {
            Some(forms) => forms.templated(kind, key, revision, value, &self.pool),
            None => Stored::templated(key.into(), revision, value, &self.pool),
        })
    }

    /// Returns where a custom object is. Each space defines for itself whether the resource is
    /// namespaced; no system namespace has the name of a tenant, so the key decides.
    fn place<'a>(&self, segments: &[&'a str]) -> Option<Place<'a>> {
        let is_tenant = |name: &str| {
            let space = Space::parse(name).ok();
            space.is_some_and(|space| self.space_state(&space).is_some())
        };
        let namespaced = match segments {
            [first, _] => !is_tenant(first),
            [_, _, _] => true,
            _ => false,
        };
        Layout::place(segments, namespaced)
    }
}

/// Returns the collection of a group and a plural. Groups of custom resources contain a dot, and
/// no other group outside the table is ever stored.
fn key_of<'a>(group: &'a str, resource: &'a str) -> Option<CollectionKey<'a>> {
    match kinds().find_storage(group, resource) {
        Some(kind) => Some(CollectionKey::BuiltIn(kind)),
        None if group.contains('.') => Some(CollectionKey::Custom { group, resource }),
        None => None,
    }
}

/// Whether objects of a kind are tracked in the owner graph. Events are not: they are many, and
/// expire.
pub(crate) fn has_owners(collection_key: CollectionKey<'_>) -> bool {
    static EVENTS: OnceLock<KindId> = OnceLock::new();
    collection_key != CollectionKey::BuiltIn(*EVENTS.get_or_init(|| core_kind("events")))
}

/// Returns the built-in object that a stored one takes the place of.
pub(crate) fn shadowed(
    cache: &Cache,
    found: &ObjectKey<'_>,
    object: &Stored,
) -> Option<Arc<Stored>> {
    match found.collection {
        CollectionKey::BuiltIn(kind) => {
            let state = cache.space_state(&found.space)?;
            cache.hooks.shadowed(kind, &found.space, object, &state)
        }
        CollectionKey::Custom { .. } => None,
    }
}
