//! Fills the cache from the store when a server starts.
//!
//! Several readers divide the keys among themselves ([`Regions`]), and each turns what it has read
//! into objects before it reads on. Collections that begin and end within one region are complete
//! at once. What a region has of others is kept as pointers until all readers have ended. So no
//! collection is filled object by object, and nothing is held twice but a page for each reader.

mod region;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use insula_core::{Layout, ResourceName, Revision, Space};
use insula_store::regions::Regions;
use insula_store::{At, Entry, Error, Key, KeyRange, Result, Store};
use tokio::task::JoinSet;

use crate::Cache;
use crate::collection::Collection;
use crate::entry::Stored;
use crate::feed::Feed;
use crate::hooks::Hooks;
use region::{Contents, Unfinished};

/// The entries of the first page of a region, while their size is unknown.
const FIRST_PAGE: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// The most entries of a page.
const MAX_PAGE: usize = 256;
/// The bytes that a page should have.
const PAGE_BYTES: usize = 1 << 20;
/// The most readers: each holds a page.
const MAX_READERS: usize = 16;

/// Loads the cache from the store, and returns it with the feed that follows from there.
pub async fn load(
    store: &Arc<dyn Store>,
    layout: Layout,
    hooks: Box<dyn Hooks>,
) -> Result<(Arc<Cache>, Feed)> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    // While one reader waits for the store, another one has work for its core.
    load_with(store, layout, hooks, (2 * cores).min(MAX_READERS)).await
}

async fn load_with(
    store: &Arc<dyn Store>,
    layout: Layout,
    hooks: Box<dyn Hooks>,
    readers: usize,
) -> Result<(Arc<Cache>, Feed)> {
    let everything = KeyRange::prefix(layout.everything().into_bytes());
    let resource = ResourceName {
        group: "",
        resource: "tenants",
    };
    let tenants = layout.collection(resource, &Space::System, None);
    let tenants = KeyRange::prefix(tenants.into_bytes());
    let revision = store.revision().await?;
    let cache = Arc::new(Cache::new(layout, revision, hooks));
    let source = Source {
        store,
        cache: &cache,
        revision,
        readers,
    };
    // Which space a custom object is in depends on which tenants exist.
    source.read::<Tenants>(tenants).await?;
    let regions = source.read::<Contents>(everything.clone()).await?;
    finish(regions.into_iter().flat_map(Contents::finish));
    let watch = store.watch(everything, revision).await?;
    Ok((Arc::clone(&cache), Feed::new(cache, watch)))
}

/// Completes the collections that several regions have objects of, in the order of regions.
fn finish(all: impl Iterator<Item = Unfinished>) {
    let mut collections: HashMap<*const Collection, Unfinished> = HashMap::new();
    for next in all {
        let place = Arc::as_ptr(&next.collection);
        match collections.get_mut(&place) {
            Some(before) => before.append(next),
            None => {
                collections.insert(place, next);
            }
        }
    }
    collections.into_values().for_each(Unfinished::load);
}

/// What a reader makes of the entries of one region.
trait Reading: Sized + Send + 'static {
    /// Begins a region.
    fn begin(cache: &Arc<Cache>) -> Self;

    /// Takes the next entry, in the order of keys.
    fn add(&mut self, entry: &Entry);
}

/// The store at one revision, and the cache that it is loaded into.
struct Source<'a> {
    store: &'a Arc<dyn Store>,
    cache: &'a Arc<Cache>,
    revision: Revision,
    readers: usize,
}

impl Source<'_> {
    /// Reads a range with several readers. Returns what each region has become, in the order of
    /// their keys.
    async fn read<R: Reading>(&self, range: KeyRange) -> Result<Vec<R>> {
        let regions = Arc::new(Regions::new(range));
        let mut readers = JoinSet::new();
        for _ in 0..self.readers {
            let reader = Reader {
                store: Arc::clone(self.store),
                cache: Arc::clone(self.cache),
                at: At::Revision(self.revision),
                regions: Arc::clone(&regions),
            };
            readers.spawn(reader.read::<R>());
        }
        let stopped = |error| Error::Unavailable(format!("loading was stopped: {error}"));
        let mut all = Vec::new();
        while let Some(read) = readers.join_next().await {
            all.extend(read.map_err(stopped)??);
        }
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all.into_iter().map(|(_, read)| read).collect())
    }
}

/// One of several readers of a range.
struct Reader {
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    at: At,
    regions: Arc<Regions>,
}

impl Reader {
    /// Reads regions until none is left. Returns what they have become, with their first keys.
    async fn read<R: Reading>(self) -> Result<Vec<(Key, R)>> {
        let mut all = Vec::new();
        while let Some(region) = self.regions.take() {
            let mut reading = None;
            let mut limit = FIRST_PAGE;
            loop {
                let rest = self.regions.rest(&region);
                let page = self.store.range(&rest, self.at, Some(limit)).await?;
                let keys = page.entries.iter().map(|entry| &*entry.key);
                let keys: Vec<&[u8]> = keys.collect();
                let accepted = self.regions.accept(&region, &keys, page.more);
                let entries = &page.entries[..accepted.count];
                if !entries.is_empty() {
                    let reading = reading.get_or_insert_with(|| R::begin(&self.cache));
                    entries.iter().for_each(|entry| reading.add(entry));
                }
                if accepted.is_last {
                    break;
                }
                limit = next_limit(limit, entries);
            }
            all.extend(reading.map(|reading| (region.start().clone(), reading)));
        }
        Ok(all)
    }
}

/// Tenants: their spaces have to be known first.
struct Tenants(Arc<Cache>);

impl Reading for Tenants {
    fn begin(cache: &Arc<Cache>) -> Self {
        Self(Arc::clone(cache))
    }

    fn add(&mut self, entry: &Entry) {
        if let Some(found) = self.0.parse(&entry.key) {
            let tenant = Stored::new(found.key.into(), entry.modified, &entry.value);
            self.0.note_space(&tenant, entry.created);
        }
    }
}

/// The number of entries for the next page, if they are like the largest of the last. It grows in
/// steps, because large objects may follow small ones.
fn next_limit(last: NonZeroUsize, entries: &[Entry]) -> NonZeroUsize {
    let largest = entries.iter().map(|entry| entry.value.len()).max();
    let fitting = PAGE_BYTES / largest.unwrap_or(0).max(1);
    let limit = fitting.min(2 * last.get()).clamp(1, MAX_PAGE);
    NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN)
}
