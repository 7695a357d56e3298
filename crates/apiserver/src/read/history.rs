//! Lists at a revision that the cache no longer has, from the store.

use std::num::NonZeroUsize;
use std::sync::Arc;

use insula_core::{Layout, ResourceName, Revision, Space, Spaces};
use insula_kinds::Kind;
use insula_store::{At, Entry, Error, Key, KeyRange};

use super::list::{
    Order, Page, PageRequest, Positioned, Remaining, choose, merge_built_in, positioned,
};
use crate::registry::Registry;
use crate::registry::built_in;
use crate::registry::publish::{self, Sharing};
use crate::registry::resource::Resource;
use insula_cache::{Stored, expiry, tenant_of};

/// The entries that are read at once.
const PAGE: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");

/// Returns the requested page at a revision, from the store.
pub(super) async fn read(
    registry: &Registry,
    request: PageRequest<'_>,
    revision: Revision,
) -> Result<Page, Error> {
    match request.list.spaces {
        Spaces::One(space) => in_one(registry, request, space, revision).await,
        Spaces::All => everywhere(registry, request, revision).await,
    }
}

/// Reads a page of one space. The store's order is the list's, so no more is read than needed.
async fn in_one(
    registry: &Registry,
    request: PageRequest<'_>,
    space: &Space,
    revision: Revision,
) -> Result<Page, Error> {
    if publish::concerns(&request.list.kind.storage(), space) {
        // In the store the system's definitions lie between the keys of all tenants, so they are
        // read from the cache's log.
        return Err(compacted(registry));
    }
    let mut entries = Entries::of(registry, request, revision);
    if built_in::are_some(&request.list.kind.storage()) {
        let mut stored = Vec::new();
        while let Some(page) = entries.next().await? {
            stored.extend(page.into_iter().map(|one| one.object));
        }
        let all = merge_built_in(registry, request, space, stored);
        return Ok(choose(request, positioned(request, all), revision));
    }
    if let Some(after) = request.after {
        let layout = registry.layout();
        let mut key = layout.collection(entries.resource(), space, None);
        key.push_str(&after.key);
        entries.skip_to(&key.into());
    }
    let everything = request.selection.is_everything();
    let (mut objects, mut more) = (Vec::new(), 0);
    'pages: while let Some(page) = entries.next().await? {
        for one in page {
            if !everything && !request.selection.chooses(request.view, &one.object) {
                continue;
            }
            if request.limit == 0 || objects.len() < request.limit {
                objects.push(one);
                continue;
            }
            more += 1;
            if !everything || request.left.is_some() {
                break 'pages;
            }
        }
    }
    let left = match request.left {
        _ if more == 0 => Remaining::Nothing,
        _ if !everything => Remaining::Uncounted,
        // The state is the one that was counted when the list began.
        Some(left) => Remaining::Known(left.saturating_sub(objects.len()).max(1)),
        None => Remaining::Known(more),
    };
    Ok(Page {
        objects,
        left,
        revision,
    })
}

/// Reads a page over all spaces. The store's order is not the list's: the keys of the system's
/// space lie between those of tenants.
async fn everywhere(
    registry: &Registry,
    request: PageRequest<'_>,
    revision: Revision,
) -> Result<Page, Error> {
    let mut entries = Entries::of(registry, request, revision);
    let mut objects = Vec::new();
    while let Some(page) = entries.next().await? {
        objects.extend(page);
    }
    if let Some(sharing) = Sharing::of(registry.cache(), request.list.kind, request.list.spaces) {
        let space = |one: &Positioned| one.order.space.clone().unwrap_or(Space::System);
        sharing.retain(&mut objects, revision, space);
    }
    objects.sort_by(|one, other| one.order.cmp(&other.order));
    let rest = objects
        .into_iter()
        .skip_while(|one| request.after.is_some_and(|after| one.order <= *after));
    Ok(choose(request, rest, revision))
}

/// The error of a revision that the cache's log no longer reaches.
fn compacted(registry: &Registry) -> Error {
    Error::Compacted {
        floor: registry.cache().applied(),
    }
}

/// The entries of a list, page by page.
struct Entries<'a> {
    registry: &'a Registry,
    request: PageRequest<'a>,
    kind: Resource,
    revision: Revision,
    /// The length of the keys' common prefix.
    skip: usize,
    rest: Option<KeyRange>,
}

impl<'a> Entries<'a> {
    fn of(registry: &'a Registry, request: PageRequest<'a>, revision: Revision) -> Self {
        let kind = request.list.kind.storage();
        let (layout, list) = (registry.layout(), request.list);
        let resource = name_of(&kind);
        let prefix = match list.spaces {
            Spaces::One(space) => layout.collection(resource, space, list.namespace),
            Spaces::All => layout.resource(resource),
        };
        Self {
            registry,
            request,
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

    async fn next(&mut self) -> Result<Option<Vec<Positioned>>, Error> {
        let Some(rest) = self.rest.take().filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let at = At::Revision(self.revision);
        let page = self.registry.store().range(&rest, at, Some(PAGE)).await?;
        if let Some(last) = page.entries.last().filter(|_| page.more) {
            self.rest = Some(rest.after(&last.key));
        }
        let positioned = page.entries.iter().filter_map(|entry| self.place(entry));
        Ok(Some(positioned.collect()))
    }

    /// Returns the object of an entry, if it is in the list: the keys of the system's space have no
    /// prefix of their own.
    fn place(&self, entry: &Entry) -> Option<Positioned> {
        let below = std::str::from_utf8(entry.key.get(self.skip..)?).ok()?;
        let segments: Vec<&str> = below.split('/').collect();
        let place = Layout::place(&segments, self.kind.namespaced())?;
        if self.kind.custom().is_some() && !is_of(&entry.value, &place.space) {
            // The object of another space, in which the resource has another scope.
            return None;
        }
        let list = self.request.list;
        let inside = match list.spaces {
            Spaces::One(space) => *space == place.space,
            Spaces::All => true,
        };
        let revision_match = list.namespace.is_none() || list.namespace == place.namespace;
        if !inside || !revision_match {
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
        Some(Positioned {
            order: Order { space, key },
            object: Arc::new(object),
        })
    }
}

/// Whether an object belongs to this space, by its metadata.
fn is_of(object: &[u8], space: &Space) -> bool {
    tenant_of(object).as_deref() == space.tenant().map(|tenant| tenant.as_str())
}

fn name_of(kind: &Kind) -> ResourceName<'_> {
    ResourceName {
        group: &kind.group,
        resource: &kind.resource,
    }
}
