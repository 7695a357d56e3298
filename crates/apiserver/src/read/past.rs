//! What was there, at a revision that is past: from the store.

use std::num::NonZeroUsize;
use std::sync::Arc;

use insula_core::{Layout, ResourceName, Revision, Space, Spaces};
use insula_kinds::Kind;
use insula_store::{At, Entry, Error, Key, KeyRange};

use super::list::{Ask, Found, Left, Order, Placed, choose, complete, placed};
use crate::registry::Registry;
use crate::registry::built_in;
use crate::registry::publish::{self, Sharing};
use crate::registry::resource::Resource;
use insula_cache::Stored;
use insula_cache::expiry;

/// How many entries are read at once.
const PAGE: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");

/// The part of the list that is asked for, as the store had it.
pub(super) async fn read(
    registry: &Registry,
    ask: Ask<'_>,
    revision: Revision,
) -> Result<Found, Error> {
    match ask.list.spaces {
        Spaces::One(space) => in_one(registry, ask, space, revision).await,
        Spaces::All => everywhere(registry, ask, revision).await,
    }
}

/// In one space the store's order is the list's: no more is read than is wanted.
async fn in_one(
    registry: &Registry,
    ask: Ask<'_>,
    space: &Space,
    revision: Revision,
) -> Result<Found, Error> {
    if publish::concerns(&ask.list.kind.storage(), space) {
        // What the system's looked like is to be read among the keys of all tenants only;
        // the cache remembers it for as long as it remembers anything.
        return Err(passed(registry));
    }
    let mut entries = Entries::of(registry, ask, revision);
    if built_in::are_some(&ask.list.kind.storage()) {
        let mut stored = Vec::new();
        while let Some(page) = entries.next().await? {
            stored.extend(page.into_iter().map(|one| one.object));
        }
        let all = complete(registry, ask, space, stored);
        return Ok(choose(ask, placed(ask, all), revision));
    }
    if let Some(after) = ask.after {
        let layout = registry.layout();
        let mut key = layout.collection(entries.resource(), space, None);
        key.push_str(&after.key);
        entries.skip_to(&key.into());
    }
    let everything = ask.selection.is_everything();
    let (mut objects, mut more) = (Vec::new(), 0);
    'pages: while let Some(page) = entries.next().await? {
        for one in page {
            if !everything && !ask.selection.chooses(ask.view, &one.object) {
                continue;
            }
            if ask.limit == 0 || objects.len() < ask.limit {
                objects.push(one);
                continue;
            }
            more += 1;
            if !everything || ask.left.is_some() {
                break 'pages;
            }
        }
    }
    let left = match ask.left {
        _ if more == 0 => Left::Nothing,
        _ if !everything => Left::Uncounted,
        // It is the same state that was counted when the list began.
        Some(left) => Left::Known(left.saturating_sub(objects.len()).max(1)),
        None => Left::Known(more),
    };
    Ok(Found {
        objects,
        left,
        revision,
    })
}

/// Over all spaces the store's order is another: the keys of the system space lie between
/// those of tenants.
async fn everywhere(registry: &Registry, ask: Ask<'_>, revision: Revision) -> Result<Found, Error> {
    let mut entries = Entries::of(registry, ask, revision);
    let mut objects = Vec::new();
    while let Some(page) = entries.next().await? {
        objects.extend(page);
    }
    if let Some(sharing) = Sharing::of(registry.cache(), ask.list.kind, ask.list.spaces) {
        let space = |one: &Placed| one.order.space.clone().unwrap_or(Space::System);
        let shared = sharing.retain(&mut objects, revision, space);
        shared.map_err(|_| passed(registry))?;
    }
    objects.sort_by(|one, other| one.order.cmp(&other.order));
    let rest = objects
        .into_iter()
        .skip_while(|one| ask.after.is_some_and(|after| one.order <= *after));
    Ok(choose(ask, rest, revision))
}

/// The cache does not remember it any more.
fn passed(registry: &Registry) -> Error {
    Error::Compacted {
        floor: registry.cache().applied(),
    }
}

/// The entries of a list, page by page.
struct Entries<'a> {
    registry: &'a Registry,
    ask: Ask<'a>,
    kind: Resource,
    revision: Revision,
    /// How long the part of a key is that all have.
    skip: usize,
    rest: Option<KeyRange>,
}

impl<'a> Entries<'a> {
    fn of(registry: &'a Registry, ask: Ask<'a>, revision: Revision) -> Self {
        let kind = ask.list.kind.storage();
        let (layout, list) = (registry.layout(), ask.list);
        let resource = name_of(&kind);
        let prefix = match list.spaces {
            Spaces::One(space) => layout.collection(resource, space, list.namespace),
            Spaces::All => layout.resource(resource),
        };
        Self {
            registry,
            ask,
            skip: layout.resource(resource).len(),
            kind,
            revision,
            rest: Some(KeyRange::prefix(prefix.into_bytes())),
        }
    }

    fn resource(&self) -> ResourceName<'_> {
        name_of(&self.kind)
    }

    fn skip_to(&mut self, key: &Key) {
        self.rest = self.rest.take().map(|rest| rest.after(key));
    }

    async fn next(&mut self) -> Result<Option<Vec<Placed>>, Error> {
        let Some(rest) = self.rest.take().filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let at = At::Revision(self.revision);
        let page = self.registry.store().range(&rest, at, Some(PAGE)).await?;
        if let Some(last) = page.entries.last().filter(|_| page.more) {
            self.rest = Some(rest.after(&last.key));
        }
        let placed = page.entries.iter().filter_map(|entry| self.place(entry));
        Ok(Some(placed.collect()))
    }

    /// The object of an entry, if it is in the list: the keys of the system space have no
    /// prefix of their own.
    fn place(&self, entry: &Entry) -> Option<Placed> {
        let below = std::str::from_utf8(entry.key.get(self.skip..)?).ok()?;
        let segments: Vec<&str> = below.split('/').collect();
        let place = Layout::place(&segments, self.kind.namespaced())?;
        if self.kind.custom().is_some() && !is_of(&entry.value, &place.space) {
            // Another space's, which says otherwise whether it has namespaces.
            return None;
        }
        let list = self.ask.list;
        let inside = match list.spaces {
            Spaces::One(space) => *space == place.space,
            Spaces::All => true,
        };
        let wanted = list.namespace.is_none() || list.namespace == place.namespace;
        if !inside || !wanted {
            return None;
        }
        let key: Arc<str> = match place.namespace {
            Some(namespace) => format!("{namespace}/{}", place.name).into(),
            None => place.name.into(),
        };
        let (value, _) = match self.kind.is(expiry::expiring()) {
            true => expiry::undated(&entry.value),
            false => ((&*entry.value).into(), 0),
        };
        let object = Stored::new(Arc::clone(&key), entry.modified, &value);
        let space = (*list.spaces == Spaces::All).then_some(place.space);
        Some(Placed {
            order: Order { space, key },
            object: Arc::new(object),
        })
    }
}

/// Whether an object is of this space, by its own word.
fn is_of(object: &[u8], space: &Space) -> bool {
    #[derive(serde::Deserialize)]
    struct Top {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        tenant: Option<String>,
    }
    let top: Result<Top, _> = serde_json::from_slice(object);
    let tenant = top.ok().and_then(|top| top.metadata.tenant);
    tenant.as_deref() == space.tenant().map(|tenant| tenant.as_str())
}

fn name_of(kind: &Kind) -> ResourceName<'_> {
    ResourceName {
        group: &kind.group,
        resource: &kind.resource,
    }
}
