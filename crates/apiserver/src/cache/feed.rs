//! From the store into the cache.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_core::{Layout, Place, Revision, Space};
use insula_kinds::{KindId, kinds};
use insula_store::{At, Changed, Error, KeyRange, Result, Store, Watch, WatchItem};

use super::Cache;
use super::collection::{Collection, Put};
use super::entry::Stored;
use crate::{built_in, policy};

/// Keeps the cache up to date.
pub struct Feed {
    cache: Arc<Cache>,
    watch: Box<dyn Watch>,
    tenants: KindId,
    /// The collections whose logs hold something, and since when, oldest first: what is
    /// old is forgotten, so that an idle collection holds no history.
    remembering: VecDeque<(Instant, Arc<Collection>)>,
}

/// How long a log remembers: as long as the store itself promises to.
const MEMORY: Duration = Duration::from_secs(300);

/// How many entries are read from the store at once when it is loaded.
const PAGE: NonZeroUsize = NonZeroUsize::new(2_000).expect("not zero");

/// Reads everything, and prepares to follow.
pub async fn load(store: &Arc<dyn Store>, layout: Layout) -> Result<(Arc<Cache>, Feed)> {
    let everything = KeyRange::prefix(layout.everything().into_bytes());
    let mut at = At::Latest;
    let mut rest = everything.clone();
    let mut cache = None;
    let tenants = kinds()
        .find("", "v1", "tenants")
        .expect("tenants are in the table");
    loop {
        let page = store.range(&rest, at, Some(PAGE)).await?;
        at = At::Revision(page.revision);
        let cache: &mut Cache =
            cache.get_or_insert_with(|| Cache::new(layout.clone(), page.revision));
        for entry in &page.entries {
            let Some(found) = cache.parse(&entry.key) else {
                continue;
            };
            let object = Stored::new(found.key.into(), entry.modified, &entry.value);
            if found.kind == tenants {
                cache.note_birth(&object, entry.created);
            }
            cache.collection(found.kind, &found.space).load(object);
        }
        let last = page.entries.last().map(|entry| entry.key.clone());
        match last {
            Some(last) if page.more => rest = everything.after(&last),
            _ => break,
        }
    }
    let cache = Arc::new(cache.expect("the loop above made one"));
    let watch = store.watch(everything, cache.applied()).await?;
    let feed = Feed {
        cache: Arc::clone(&cache),
        watch,
        tenants,
        remembering: VecDeque::new(),
    };
    Ok((cache, feed))
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
                    cache.drop_idle_policies();
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
        let found: Vec<_> = changes
            .iter()
            .filter_map(|change| Some((cache.parse(change.key())?, change)))
            .collect();
        self.welcome(&found, revision);
        let mut parts: Vec<Part> = Vec::new();
        for (found, change) in &found {
            let put = match change {
                Changed::Put(entry) => {
                    let object = Stored::new(found.key.into(), entry.modified, &entry.value);
                    match built_in::shadowed(&cache, found.kind, &found.space, &object) {
                        Some(of) => Put::Shadow(object, of),
                        None => Put::Object(object),
                    }
                }
                Changed::Deleted(_) => Put::Gone(found.key.into()),
            };
            let same = |part: &&mut Part| part.kind == found.kind && part.space == found.space;
            match parts.iter_mut().find(same) {
                Some(part) => part.puts.push(put),
                None => parts.push(Part {
                    kind: found.kind,
                    space: found.space.clone(),
                    puts: vec![put],
                }),
            }
        }
        // By kind, which is a shelf; within it in the order of the keys, as it was.
        parts.sort_by_key(|part| part.kind.index());
        while let Some(kind) = parts.first().map(|part| part.kind) {
            let end = parts.partition_point(|part| part.kind.index() <= kind.index());
            self.apply_to_shelf(kind, parts.drain(..end), revision);
        }
        // A tenant's own object goes last, so its space is empty now.
        for (found, change) in &found {
            if found.kind == self.tenants && matches!(change, Changed::Deleted(_)) {
                cache.close(found.key);
            }
        }
    }

    /// Notes the births of tenants, before anything is put into their spaces.
    fn welcome(&self, found: &[(Found<'_>, &Changed)], revision: Revision) {
        for (found, change) in found {
            if found.kind == self.tenants
                && let Changed::Put(entry) = change
            {
                let tenants = self.cache.collection(found.kind, &found.space);
                if tenants.get(found.key).is_none() {
                    let tenant = Stored::new(found.key.into(), revision, &entry.value);
                    self.cache.born(&tenant, revision);
                }
            }
        }
    }

    fn apply_to_shelf(
        &mut self,
        kind: KindId,
        parts: impl Iterator<Item = Part>,
        revision: Revision,
    ) {
        let cache = Arc::clone(&self.cache);
        let shelf = cache.shelf(kind);
        let mut events = Vec::new();
        shelf.turn();
        for part in parts {
            let collection = cache.collection(kind, &part.space);
            let recorded = collection.apply(part.puts, revision);
            if policy::decides_access(kind, &recorded.events)
                && let Some(life) = cache.life(&part.space)
            {
                life.touch(revision);
            }
            events.extend(recorded.events);
            self.remember(collection, recorded.began);
        }
        let began = shelf.everywhere.record(events);
        shelf.turn();
        self.remember(Arc::clone(&shelf.everywhere), began);
    }

    fn remember(&mut self, collection: Arc<Collection>, log_began: bool) {
        if log_began {
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
            if let Some(oldest) = collection.forget(now - MEMORY) {
                self.remembering.push_back((oldest, collection));
            }
        }
    }
}

/// What a transaction does to one collection.
struct Part {
    kind: KindId,
    space: Space,
    puts: Vec<Put>,
}

/// What a key of the store is about.
struct Found<'a> {
    kind: KindId,
    space: Space,
    /// `namespace/name` or `name`.
    key: &'a str,
}

impl Cache {
    fn parse<'a>(&self, key: &'a [u8]) -> Option<Found<'a>> {
        let whole = std::str::from_utf8(key).ok()?;
        let mut segments = self.layout.below(whole)?;
        let first = segments.next()?;
        let kind = match kinds().stored("", first) {
            Some(kind) => kind,
            None => kinds().stored(first, segments.next()?)?,
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
        } = Layout::place(&rest[..count], kinds().get(kind).namespaced())?;
        let length = namespace.map_or(0, |namespace| namespace.len() + 1) + name.len();
        let key = &whole[whole.len() - length..];
        Some(Found { kind, space, key })
    }
}
