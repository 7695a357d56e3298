//! From the store into the cache.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use insula_core::{Layout, Place, ResourceName, Revision, Space};
use insula_kinds::quota::CountedResource;
use insula_kinds::{KindId, kinds};
use insula_store::{At, Changed, Entry, Error, KeyRange, Result, Store, Watch, WatchItem};

use crate::Cache;
use crate::collection::{Change, Collection, Event, Put};
use crate::collection_key::{CollectionKey, definitions};
use crate::entry::Stored;
use crate::expiry;
use crate::hooks::Hooks;
use crate::usage::{Apart, Usage};
use insula_kinds::core_kind;

/// Keeps the cache up to date.
pub struct Feed {
    cache: Arc<Cache>,
    watch: Box<dyn Watch>,
    tenants: KindId,
    definitions: KindId,
    quotas: KindId,
    apart: Apart,
    /// The collections whose logs hold something, and since when, oldest first: what is
    /// old is forgotten, so that an idle collection holds no history. One that is gone with
    /// its space is not held for that.
    remembering: VecDeque<(Instant, Weak<Collection>)>,
    /// How many tenants went since those were last looked through.
    gone: usize,
}

/// How long a log remembers: as long as the store itself promises to.
const MEMORY: Duration = Duration::from_secs(300);

/// Of how many kinds a tenant has objects that only the server put there.
const KINDS_EACH: usize = 5;

/// How many entries are read from the store at once when it is loaded.
const PAGE: NonZeroUsize = NonZeroUsize::new(2_000).expect("not zero");

/// Reads everything, and prepares to follow.
pub async fn load(
    store: &Arc<dyn Store>,
    layout: Layout,
    hooks: Box<dyn Hooks>,
) -> Result<(Arc<Cache>, Feed)> {
    let everything = KeyRange::prefix(layout.everything().into_bytes());
    // Whose an object is may depend on whether there is such a tenant.
    let (cache, at) = load_tenants(store, layout, hooks).await?;
    let apart = Apart::new();
    let mut rest = everything.clone();
    loop {
        let page = store.range(&rest, at, Some(PAGE)).await?;
        for entry in &page.entries {
            let Some(found) = cache.parse(&entry.key) else {
                cache.note_fence(&entry.key, Some(entry.modified));
                continue;
            };
            let object = cache.stored(&found, entry);
            if has_kin(found.shelf) {
                cache.owner_graph.load(found.shelf, &found.space, &object);
            }
            if let Some(life) = cache.space_state(&found.space) {
                life.count(|usage| apart.with(usage, found.shelf, &object));
            }
            cache.collection(found.shelf, &found.space).load(object);
        }
        let last = page.entries.last().map(|entry| entry.key.clone());
        match last {
            Some(last) if page.more => rest = everything.after(&last),
            _ => break,
        }
    }
    let cache = Arc::new(cache);
    let watch = store.watch(everything, cache.applied()).await?;
    let feed = Feed {
        cache: Arc::clone(&cache),
        watch,
        tenants: core_kind("tenants"),
        definitions: definitions(),
        quotas: core_kind("resourcequotas"),
        apart,
        remembering: VecDeque::new(),
        gone: 0,
    };
    Ok((cache, feed))
}

/// A cache that knows of the tenants and of nothing else yet, and when that was.
async fn load_tenants(
    store: &Arc<dyn Store>,
    layout: Layout,
    hooks: Box<dyn Hooks>,
) -> Result<(Cache, At)> {
    let resource = ResourceName {
        group: "",
        resource: "tenants",
    };
    let all = layout.collection(resource, &Space::System, None);
    let all = KeyRange::prefix(all.into_bytes());
    let mut page = store.range(&all, At::Latest, Some(PAGE)).await?;
    let at = At::Revision(page.revision);
    let cache = Cache::new(layout, page.revision, hooks);
    loop {
        for entry in &page.entries {
            if let Some(found) = cache.parse(&entry.key) {
                let tenant = Stored::new(found.key.into(), entry.modified, &entry.value);
                cache.note_space(&tenant, entry.created);
            }
        }
        let last = page.entries.last().map(|entry| entry.key.clone());
        match last {
            Some(last) if page.more => {
                page = store.range(&all.after(&last), at, Some(PAGE)).await?
            }
            _ => return Ok((cache, at)),
        }
    }
}

impl Feed {
    /// Follows the store until it cannot any more.
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
                _ = minute.tick() => {
                    self.forget();
                    cache.evict_idle();
                    continue;
                }
            };
            match item {
                Ok(WatchItem::Changes { revision, changes }) => {
                    self.apply(&changes, revision);
                    cache.advance(revision);
                }
                Ok(WatchItem::Progress(revision)) => cache.advance(revision),
                Err(error) => return error,
            }
        }
    }

    /// Applies a transaction: each collection takes its part of it whole, and so does the
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
        self.welcome(&found, revision);
        let quotas = CollectionKey::BuiltIn(self.quotas);
        let charging = found.iter().filter(|(about, _)| about.shelf == quotas);
        let charging = charging.count();
        // A quota that changes together with something else was charged for it.
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
            let same =
                |part: &&mut Part<'_>| part.shelf == found.shelf && part.space == found.space;
            match parts.iter_mut().find(same) {
                Some(part) => part.puts.push(put),
                None => parts.push(Part {
                    shelf: found.shelf,
                    space: found.space.clone(),
                    puts: vec![put],
                }),
            }
        }
        // By kind, which is a shelf; within it in the order of the keys, as it was.
        parts.sort_by_key(|part| part.shelf);
        while let Some(shelf) = parts.first().map(|part| part.shelf) {
            let end = parts.partition_point(|part| part.shelf <= shelf);
            self.apply_to_shelf(shelf, parts.drain(..end), revision, charged);
        }
        // A tenant's own object goes last, so its space is empty now.
        for (found, change) in &found {
            if found.shelf == CollectionKey::BuiltIn(self.tenants)
                && matches!(change, Changed::Deleted(_))
            {
                cache.close(found.key);
                self.gone += 1;
            }
        }
        self.let_go();
    }

    /// Gives back what collections leave that are gone with their spaces, when it may be a
    /// good part of all.
    fn let_go(&mut self) {
        if self.gone * KINDS_EACH < self.remembering.len() / 2 || self.gone == 0 {
            return;
        }
        self.gone = 0;
        self.remembering.retain(|(_, of)| of.strong_count() > 0);
        self.remembering.shrink_to_fit();
    }

    /// Notes the births of tenants, before anything is put into their spaces.
    fn welcome(&self, found: &[(Found<'_>, &Changed)], revision: Revision) {
        for (found, change) in found {
            if found.shelf == CollectionKey::BuiltIn(self.tenants)
                && let Changed::Put(entry) = change
            {
                let tenants = self.cache.collection(found.shelf, &found.space);
                if tenants.get(found.key).is_none() {
                    let tenant = Stored::new(found.key.into(), revision, &entry.value);
                    self.cache.add_space(&tenant, revision);
                }
            }
        }
    }

    fn apply_to_shelf<'p>(
        &mut self,
        mark: CollectionKey<'_>,
        parts: impl Iterator<Item = Part<'p>>,
        revision: Revision,
        charged: bool,
    ) {
        let cache = Arc::clone(&self.cache);
        let shelf = cache.collections(mark);
        let mut events = Vec::new();
        shelf.bump_version();
        for part in parts {
            let collection = cache.collection(mark, &part.space);
            let recorded = collection.apply(part.puts, revision);
            if has_kin(mark) {
                let events = recorded.events.iter().map(AsRef::as_ref);
                cache.owner_graph.note(mark, &part.space, events);
            }
            self.count(mark, &part.space, &recorded.events, charged);
            if let CollectionKey::BuiltIn(kind) = mark {
                if let Some(stale) = cache.hooks.invalidates(kind, &recorded.events)
                    && let Some(life) = cache.space_state(&part.space)
                {
                    life.invalidate(stale, revision);
                }
                if kind == self.definitions {
                    cache.redefine(&part.space, &recorded.events, revision);
                }
            }
            events.extend(recorded.events);
            self.remember(&collection, recorded.began);
        }
        let began = shelf.everywhere.record(events);
        shelf.bump_version();
        self.remember(&shelf.everywhere, began);
    }

    /// Counts what there is now, and notes where somebody has to look who says so.
    fn count(&self, mark: CollectionKey<'_>, space: &Space, events: &[Arc<Event>], charged: bool) {
        let cache = &self.cache;
        if mark == CollectionKey::BuiltIn(self.tenants) {
            self.change_tenants(events);
        }
        if let Some(life) = cache.space_state(space).filter(|_| !space.is_system()) {
            let events = events.iter().map(|event| &**event);
            life.count(|usage| self.apart.after(usage, mark, events));
            if life.is_limited() {
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
            if self.is_uncounted(mark, event.change, charged)
                && quotas.count(&format!("{namespace}/"), 1) > 0
            {
                let place = (space.clone(), Some(namespace.into()));
                cache.dirty_quotas.note(place);
            }
        }
    }

    /// Whether a quota may say something else now than there is.
    fn is_uncounted(&self, mark: CollectionKey<'_>, change: Change, charged: bool) -> bool {
        let CollectionKey::BuiltIn(kind) = mark else {
            return change == Change::Deleted || (change == Change::Added && !charged);
        };
        let kind = kinds().get(kind);
        let counted = CountedResource {
            group: &kind.group,
            resource: &kind.resource,
        };
        let is_quota = mark == CollectionKey::BuiltIn(self.quotas);
        counted.is_counted()
            && match change {
                Change::Deleted => true,
                Change::Added => !charged,
                // What charges one quota may give something back to another.
                Change::Modified => counted.is_measured() || (is_quota && !charged),
            }
    }

    /// Whether they are limited, and how, may be another matter now.
    fn change_tenants(&self, events: &[Arc<Event>]) {
        for event in events {
            let space = Space::parse(event.object.name()).ok();
            let Some((space, life)) = space.and_then(|space| {
                let life = self.cache.space_state(&space)?;
                Some((space, life))
            }) else {
                continue;
            };
            let was_limited = life.is_limited();
            life.change(&event.object);
            if life.is_limited() || was_limited {
                self.cache.dirty_quotas.note((space, None));
            }
        }
    }

    fn remember(&mut self, collection: &Arc<Collection>, log_began: bool) {
        if log_began {
            let collection = Arc::downgrade(collection);
            self.remembering.push_back((Instant::now(), collection));
        }
    }

    fn forget(&mut self) {
        let now = Instant::now();
        let old = |since: &Instant| now.duration_since(*since) > MEMORY;
        while self
            .remembering
            .front()
            .is_some_and(|(since, _)| old(since))
        {
            let Some((_, collection)) = self.remembering.pop_front() else {
                return;
            };
            let oldest = collection.upgrade().and_then(|of| of.forget(now - MEMORY));
            if let Some(oldest) = oldest {
                self.remembering.push_back((oldest, collection));
            }
        }
    }
}

/// What a transaction does to one collection.
struct Part<'a> {
    shelf: CollectionKey<'a>,
    space: Space,
    puts: Vec<Put>,
}

/// What a key of the store is about.
struct Found<'a> {
    shelf: CollectionKey<'a>,
    space: Space,
    /// `namespace/name` or `name`.
    key: &'a str,
}

impl Cache {
    fn parse<'a>(&self, key: &'a [u8]) -> Option<Found<'a>> {
        let whole = std::str::from_utf8(key).ok()?;
        let mut segments = self.layout.below(whole)?;
        let first = segments.next()?;
        let shelf = match kinds().find_storage("", first) {
            Some(kind) => CollectionKey::BuiltIn(kind),
            None => shelf_of(first, segments.next()?)?,
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
        } = match shelf {
            CollectionKey::BuiltIn(kind) => {
                Layout::place(&rest[..count], kinds().get(kind).namespaced())?
            }
            CollectionKey::Custom { .. } => self.place(&rest[..count])?,
        };
        let length = namespace.map_or(0, |namespace| namespace.len() + 1) + name.len();
        let key = &whole[whole.len() - length..];
        Some(Found { shelf, space, key })
    }

    /// Whose the object at a key is, how much it is with so many bytes, and how much is there.
    pub fn weigh(&self, key: &[u8], bytes: usize) -> Option<(Space, Usage, Usage)> {
        let found = self.parse(key)?;
        let objects = self.find(found.shelf, &found.space);
        let there = objects.and_then(|objects| objects.get(found.key));
        let there = there.map(|there| Usage::one(found.shelf, there.stored_length()));
        let usage = Usage::one(found.shelf, bytes);
        Some((found.space, usage, there.unwrap_or_default()))
    }

    /// Takes a fence for what it is, if the key is one's.
    fn note_fence(&self, key: &[u8], at: Option<Revision>) {
        let tenant = std::str::from_utf8(key).ok();
        if let Some(tenant) = tenant.and_then(|key| self.layout.fenced(key)) {
            self.move_fence(tenant, at);
        }
    }

    /// An entry as it is kept. Many spaces have the same definitions, and they are large; all
    /// have the same furniture.
    fn stored(&self, found: &Found<'_>, entry: &Entry) -> Stored {
        let (key, revision) = (found.key.into(), entry.modified);
        let CollectionKey::BuiltIn(kind) = found.shelf else {
            return Stored::new(key, revision, &entry.value);
        };
        if expiry::expires(found.shelf) {
            let (value, written) = expiry::undated(&entry.value);
            Stored::new(key, revision, &value).dated(written)
        } else if kind == definitions() {
            Stored::shared(key, revision, &entry.value, &self.pool)
        } else if self.bootstrap_objects.contains(kind, found.key) {
            Stored::templated(key, revision, &entry.value, &self.pool)
        } else {
            Stored::new(key, revision, &entry.value)
        }
    }

    /// Where an object is of a kind that users define: each space says for itself whether it
    /// has namespaces. No system namespace has the name of a tenant, so the keys tell.
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

/// The shelf of a group and a plural. Groups that users define have a dot, and no other
/// group that is not in the table is ever stored.
fn shelf_of<'a>(group: &'a str, resource: &'a str) -> Option<CollectionKey<'a>> {
    match kinds().find_storage(group, resource) {
        Some(kind) => Some(CollectionKey::BuiltIn(kind)),
        None if group.contains('.') => Some(CollectionKey::Custom { group, resource }),
        None => None,
    }
}

/// Whether objects of a kind may have owners and dependents. Events come in masses, and go by
/// themselves.
fn has_kin(mark: CollectionKey<'_>) -> bool {
    static EVENTS: OnceLock<KindId> = OnceLock::new();
    mark != CollectionKey::BuiltIn(*EVENTS.get_or_init(|| core_kind("events")))
}

/// The built-in object that one is put over, if it is.
fn shadowed(cache: &Cache, found: &Found<'_>, object: &Stored) -> Option<Arc<Stored>> {
    match found.shelf {
        CollectionKey::BuiltIn(kind) => {
            let life = cache.space_state(&found.space)?;
            cache.hooks.shadowed(kind, &found.space, object, &life)
        }
        CollectionKey::Custom { .. } => None,
    }
}
