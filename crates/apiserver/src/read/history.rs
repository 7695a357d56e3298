//! Lists at a revision that the cache no longer has, from the store.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use insula_core::{Layout, Place, ResourceName, Revision, Space, Spaces};
use insula_kinds::Kind;
use insula_store::{At, Entry, Error, Key, KeyRange};

use super::list::{Order, Page, PageRequest, Positioned, Remaining, built_in_objects};
use crate::registry::Registry;
use crate::registry::publish::{self, Sharing};
use crate::registry::resource::Resource;
use insula_cache::{Stored, expiry, tenant_of};

/// The most entries that are read at once.
const MAX_BATCH: usize = 1_000;

/// The entries that are read first after others were jumped over.
const SEARCH_BATCH: usize = 8;

/// Returns the requested page at a revision, from the store.
pub(super) async fn read(
    registry: &Registry,
    request: PageRequest<'_>,
    revision: Revision,
) -> Result<Page, Error> {
    let Spaces::One(space) = request.list.spaces else {
        return everywhere(registry, request, revision).await;
    };
    if publish::concerns(&request.list.kind.storage(), space) {
        // In the store the system's definitions lie between the keys of all tenants, so they are
        // read from the cache's log.
        return Err(compacted(registry));
    }
    let mut entries = Entries::of(registry, request, Wanted::One(space), revision);
    if let Some(after) = request.after {
        entries.skip_to(space, after);
    }
    let mut found = Found {
        built_in: built_in_objects(registry, request, space).into(),
        ..Found::default()
    };
    found.add(request, &mut entries).await?;
    found.add_built_in(request, None);
    Ok(found.into_page(request, revision))
}

/// Reads a page over all spaces: first the system's objects, then those of tenants. In the store
/// they lie between each other, and are in order among themselves.
async fn everywhere(
    registry: &Registry,
    request: PageRequest<'_>,
    revision: Revision,
) -> Result<Page, Error> {
    let after = request.after;
    let last = after.and_then(|after| after.space.as_ref());
    let mut found = Found::default();
    if last.is_none_or(Space::is_system) {
        let mut entries = Entries::of(registry, request, Wanted::System, revision);
        if let Some(after) = after {
            entries.skip_to(&Space::System, after);
        }
        found.add(request, &mut entries).await?;
    }
    if !found.more {
        let mut entries = Entries::of(registry, request, Wanted::Tenants, revision);
        if let (Some(space), Some(after)) = (last.filter(|last| !last.is_system()), after) {
            entries.skip_to(space, after);
        }
        found.add(request, &mut entries).await?;
    }
    Ok(found.into_page(request, revision))
}

/// The objects of a page, while it is read.
#[derive(Default)]
struct Found {
    objects: Vec<Positioned>,
    /// The built-in objects of the space that are not passed yet, in key order.
    built_in: VecDeque<Arc<Stored>>,
    /// Whether another one follows.
    more: bool,
}

impl Found {
    /// Adds objects up to the limit. The order of entries is the list's, so no more is read than
    /// needed.
    async fn add(
        &mut self,
        request: PageRequest<'_>,
        entries: &mut Entries<'_>,
    ) -> Result<(), Error> {
        let everything = request.selection.is_everything();
        loop {
            let most = match request.limit > 0 && everything {
                // One more, to know whether it is the last page.
                true => MAX_BATCH.min(request.limit + 1 - self.objects.len()),
                false => MAX_BATCH,
            };
            let Some(page) = entries.next(most).await? else {
                return Ok(());
            };
            for one in page {
                self.add_built_in(request, Some(&one.order.key));
                self.push(request, one);
                if self.more {
                    return Ok(());
                }
            }
        }
    }

    /// Adds the built-in objects with smaller keys, or all. Passes the one with this key, which
    /// the stored one shadows.
    fn add_built_in(&mut self, request: PageRequest<'_>, until: Option<&str>) {
        while let Some(first) = self.built_in.front()
            && until.is_none_or(|until| *first.key <= *until)
        {
            let is_shadowed = until == Some(&*first.key);
            if let Some(first) = self.built_in.pop_front().filter(|_| !is_shadowed) {
                self.push(request, Positioned::in_one_space(first));
            }
        }
    }

    /// Adds an object if it is selected, and the page is not full.
    fn push(&mut self, request: PageRequest<'_>, one: Positioned) {
        let selection = request.selection;
        if !selection.is_everything() && !selection.chooses(request.view, &one.object) {
            return;
        }
        match request.limit > 0 && self.objects.len() == request.limit {
            true => self.more = true,
            false => self.objects.push(one),
        }
    }

    fn into_page(self, request: PageRequest<'_>, revision: Revision) -> Page {
        let left = match request.left {
            _ if !self.more => Remaining::Nothing,
            // The state is the one that was counted when the list began.
            Some(left) if request.selection.is_everything() => {
                Remaining::Known(left.saturating_sub(self.objects.len()).max(1))
            }
            // Counting would mean to read all.
            _ => Remaining::Uncounted,
        };
        Page {
            visited: self.objects.len(),
            objects: self.objects,
            left,
            revision,
        }
    }
}

/// The error of a revision that the cache's log no longer reaches.
fn compacted(registry: &Registry) -> Error {
    Error::Compacted {
        floor: registry.cache().applied(),
    }
}

/// Which entries of a resource are read.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// Those of one space.
    One(&'a Space),
    /// Those of the system.
    System,
    /// Those of all tenants.
    Tenants,
}

/// The entries of a list, page by page.
struct Entries<'a> {
    registry: &'a Registry,
    request: PageRequest<'a>,
    wanted: Wanted<'a>,
    /// The tenants that a list of custom objects over all spaces includes, as far as known.
    sharing: Option<(Sharing<'a>, HashMap<Space, bool>)>,
    kind: Resource,
    revision: Revision,
    /// The length of the keys' common prefix.
    skip: usize,
    rest: Option<KeyRange>,
    /// The most entries that are read next.
    batch: usize,
}

/// Whether an entry is in the list.
enum Placed {
    Inside(Positioned),
    /// It is not, and the list continues at this key or later.
    Outside(Option<Key>),
}

impl<'a> Entries<'a> {
    fn of(
        registry: &'a Registry,
        request: PageRequest<'a>,
        wanted: Wanted<'a>,
        revision: Revision,
    ) -> Self {
        let kind = request.list.kind.storage();
        let (layout, list) = (registry.layout(), request.list);
        let resource = name_of(&kind);
        let prefix = match list.spaces {
            Spaces::One(space) => layout.collection(resource, space, list.namespace),
            Spaces::All => layout.resource(resource),
        };
        let sharing = Sharing::of(registry.cache(), list.kind, list.spaces);
        Self {
            registry,
            request,
            wanted,
            sharing: sharing.map(|sharing| (sharing, HashMap::new())),
            skip: layout.resource(resource).len(),
            kind,
            revision,
            rest: Some(KeyRange::prefix(prefix.into_bytes())),
            batch: MAX_BATCH,
        }
    }

    fn resource(&self) -> ResourceName<'_> {
        name_of(&self.kind)
    }

    /// Continues after an object of this space.
    fn skip_to(&mut self, space: &Space, after: &Order) {
        let layout = self.registry.layout();
        let mut key = layout.collection(self.resource(), space, None);
        key.push_str(&after.key);
        self.rest = self.rest.take().map(|rest| rest.after(&key.into()));
    }

    /// Returns the objects among the next entries, of which at most so many are read.
    async fn next(&mut self, most: usize) -> Result<Option<Vec<Positioned>>, Error> {
        let Some(rest) = self.rest.take().filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let at = At::Revision(self.revision);
        let batch = NonZeroUsize::new(self.batch.min(most));
        let page = self.registry.store().range(&rest, at, batch).await?;
        self.registry.cache().note_visited(page.entries.len());
        let (mut found, mut next) = (Vec::new(), None);
        for entry in &page.entries {
            match self.place(entry) {
                Placed::Inside(one) => {
                    found.push(one);
                    next = None;
                }
                Placed::Outside(later) => next = later,
            }
        }
        let skips = next.is_some();
        if let Some(last) = page.entries.last().filter(|_| page.more) {
            let rest = rest.after(&last.key);
            self.rest = Some(match next {
                Some(next) => rest.from(next),
                None => rest,
            });
        }
        self.batch = match skips {
            true => SEARCH_BATCH,
            false => MAX_BATCH.min(self.batch * 8),
        };
        Ok(Some(found))
    }

    /// Returns the object of an entry, if it is in the list: the keys of the system's space have no
    /// prefix of their own.
    fn place(&mut self, entry: &Entry) -> Placed {
        const NOWHERE: Placed = Placed::Outside(None);
        let below = entry.key.get(self.skip..).map(std::str::from_utf8);
        let Some(Ok(below)) = below else {
            return NOWHERE;
        };
        let segments: Vec<&str> = below.split('/').collect();
        let Some(place) = Layout::place(&segments, self.kind.namespaced()) else {
            return NOWHERE;
        };
        if self.kind.custom().is_some() && !is_of(&entry.value, &place.space) {
            // The object of another space, in which the resource has another scope.
            return NOWHERE;
        }
        if !self.includes(&place.space) {
            // Neither are the other objects of the tenant, or of the system's namespace.
            let group = segments.first().filter(|_| segments.len() > 1);
            return Placed::Outside(group.map(|group| self.end_of(entry, group)));
        }
        let list = self.request.list;
        if let (Some(wanted), Some(namespace)) = (list.namespace, place.namespace)
            && wanted != namespace
        {
            return Placed::Outside(Some(self.next_namespace(entry, &place, wanted)));
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
        Placed::Inside(Positioned {
            order: Order { space, key },
            object: Arc::new(object),
        })
    }

    fn includes(&mut self, space: &Space) -> bool {
        let wanted = match self.wanted {
            Wanted::One(one) => one == space,
            Wanted::System => space.is_system(),
            Wanted::Tenants => !space.is_system(),
        };
        let revision = self.revision;
        wanted
            && self.sharing.as_mut().is_none_or(|(sharing, known)| {
                let known = known.entry(space.clone());
                *known.or_insert_with_key(|space| sharing.includes(space, revision))
            })
    }

    /// Returns the first key after those that begin with the entry's first segment.
    fn end_of(&self, entry: &Entry, first: &str) -> Key {
        let mut end = entry.key[..self.skip].to_vec();
        end.extend_from_slice(first.as_bytes());
        // The byte after a slash.
        end.push(b'/' + 1);
        end.into()
    }

    /// Returns the key from which on the namespace may follow, in this space or the next.
    fn next_namespace(&self, entry: &Entry, place: &Place<'_>, wanted: &str) -> Key {
        let layout = self.registry.layout();
        let start = layout.collection(self.resource(), &place.space, Some(wanted));
        if start.as_bytes() > &entry.key[..] {
            return start.into_bytes().into();
        }
        match place.space.tenant() {
            Some(tenant) => self.end_of(entry, tenant.as_str()),
            None => {
                let mut end = entry.key[..self.skip - 1].to_vec();
                end.push(b'/' + 1);
                end.into()
            }
        }
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
