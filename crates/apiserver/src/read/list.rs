//! List, in pages and at a revision.

use std::sync::Arc;

use insula_core::{Revision, Space, Spaces};
use insula_kinds::FieldError;
use insula_store::Error;
use serde_json::json;

use super::{Selection, history, not_older};
use crate::codec::body::Body;
use crate::codec::view::{ListMeta, View};
use crate::flow_control::cpu_bound;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::continue_token::{ListScope, Resume};
use crate::registry::publish::{self, Sharing};
use crate::registry::versions;
use crate::request::query::{self, Query};
use crate::status::{Result, StatusError};
use insula_cache::{Collection, Contents, MIN_VISITED, Objects, Stored};

/// The objects and the metadata of a list.
#[derive(Debug)]
pub struct Listing {
    /// The objects, in key order.
    pub objects: Vec<Arc<Stored>>,
    /// The metadata of the list.
    pub meta: ListMeta,
}

/// Which revisions satisfy a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RevisionMatch {
    /// The newest: everything that was acknowledged before the request.
    Fresh,
    /// Any.
    Any,
    /// This one or a later one.
    NotOlder(Revision),
    /// Exactly this one.
    Exact(Revision),
}

/// An object and its position in the list.
pub(super) struct Positioned {
    /// The space and the key within it; of a list of one space, only the key.
    pub(super) order: Order,
    pub(super) object: Arc<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) space: Option<Space>,
    pub(super) key: Arc<str>,
}

/// A page of a list that is requested.
#[derive(Clone, Copy)]
pub(super) struct PageRequest<'a> {
    pub(super) list: ListScope<'a>,
    pub(super) selection: &'a Selection,
    pub(super) view: &'a View,
    /// The last object of the page before.
    pub(super) after: Option<&'a Order>,
    /// The number of objects after it, if known.
    pub(super) left: Option<usize>,
    /// The most objects; zero is no limit.
    pub(super) limit: usize,
}

/// A page of a list, at one revision.
pub(super) struct Page {
    pub(super) objects: Vec<Positioned>,
    pub(super) left: Remaining,
    pub(super) revision: Revision,
    /// The number of objects that were visited for it.
    pub(super) visited: usize,
}

/// How many objects follow a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    Nothing,
    Known(usize),
    /// Some; with selectors, counting them would mean to read all.
    Uncounted,
}

/// Returns the objects that path and selectors choose, encoded.
pub async fn list(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    view: &View,
) -> Result<Body> {
    let listing = collect(registry, granted, query, view).await?;
    versions::prepare(
        registry,
        Some(granted.context),
        &granted.path().kind,
        listing.objects.iter(),
    )
    .await?;
    view.list(listing.objects, &listing.meta)
}

/// Returns the objects that path and selectors choose.
pub async fn collect(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    view: &View,
) -> Result<Listing> {
    let path = granted.path();
    let life = match granted.spaces() {
        Spaces::One(space) => registry.cache().space_state(space),
        Spaces::All => None,
    };
    let list = ListScope {
        kind: &path.kind,
        spaces: granted.spaces(),
        tenant_uid: life.as_ref().map_or("", |life| &life.uid),
        namespace: path.namespace.as_deref(),
    };
    let mut limit = query.integer("limit")?.unwrap_or(0).max(0) as usize;
    let (revision_match, resume) = parameters(registry, query, list, &mut limit)?;
    let selection = Selection::read(query, &path.kind)?;
    let after = resume
        .as_ref()
        .map(|resume| Order::parse(&resume.after, list.spaces));
    let request = PageRequest {
        list,
        selection: &selection,
        view,
        after: after.as_ref(),
        left: resume.as_ref().and_then(|resume| resume.left),
        limit,
    };
    let found = read(registry, request, revision_match).await?;
    // A list that continues at the current revision begins anew.
    let began = resume.filter(|resume| resume.revision.is_some());
    let began = began.map_or_else(|| registry.continue_tokens().now(), |resume| resume.began);
    Ok(listing(registry, list, found, began))
}

/// Parses the query: which revisions satisfy the list, and where it continues.
fn parameters(
    registry: &Registry,
    query: &Query,
    list: ListScope<'_>,
    limit: &mut usize,
) -> Result<(RevisionMatch, Option<Resume>)> {
    let (text, matching) = (
        query.get("resourceVersion"),
        query.get("resourceVersionMatch"),
    );
    let token = query.get("continue");
    check_options(query, text, matching, token)?;
    let revision = text
        .map(query::revision)
        .transpose()
        .map_err(|why| StatusError::bad_request(format!("invalid resource version: {why}")))?;
    if let Some(token) = token {
        if revision.is_some_and(|revision| revision > Revision::ZERO) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(StatusError::bad_request(why));
        }
        if revision.is_some() {
            *limit = 0;
        }
        let resume = registry.continue_tokens().verify(list, token)?;
        let revision_match = resume
            .revision
            .map_or(RevisionMatch::Fresh, RevisionMatch::Exact);
        return Ok((revision_match, Some(resume)));
    }
    let revision_match = match (revision, matching) {
        (None, _) => RevisionMatch::Fresh,
        (Some(Revision::ZERO), _) => {
            *limit = 0;
            RevisionMatch::Any
        }
        (Some(revision), Some("Exact")) => RevisionMatch::Exact(revision),
        (Some(revision), None) if *limit > 0 => RevisionMatch::Exact(revision),
        (Some(revision), _) => RevisionMatch::NotOlder(revision),
    };
    Ok((revision_match, None))
}

fn check_options(
    query: &Query,
    revision: Option<&str>,
    matching: Option<&str>,
    token: Option<&str>,
) -> Result<()> {
    let mut errors = Vec::new();
    if let Some(matching) = matching {
        let mut forbid =
            |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
        if revision.is_none() {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if token.is_some() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if matching == "Exact" && revision == Some("0") {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let (value, known) = (json!(matching), ["Exact", "NotOlderThan", ""]);
            let error = FieldError::not_supported("resourceVersionMatch", &value, &known);
            errors.push(error);
        }
    }
    if query.choice("sendInitialEvents").is_some() {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", why));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(StatusError::invalid_options("ListOptions", &errors))
    }
}

async fn read(
    registry: &Registry,
    request: PageRequest<'_>,
    revision_match: RevisionMatch,
) -> Result<Page> {
    match revision_match {
        RevisionMatch::Fresh => {
            registry.catch_up().await?;
        }
        RevisionMatch::Any => {}
        RevisionMatch::NotOlder(revision) => not_older(registry, revision).await?,
        RevisionMatch::Exact(revision) => {
            not_older(registry, revision).await?;
            return exactly(registry, request, revision).await;
        }
    }
    // Read before the objects: a watch from this revision would miss a change that the revision
    // covers and the list does not. A later change in the list counts by the collection's own
    // last revision.
    let applied = registry.cache().applied();
    if let Some(mut found) = cached(registry, request, None) {
        found.revision = found.revision.max(applied);
        return Ok(found);
    }
    Ok(history::read(registry, request, applied).await?)
}

/// Returns the list at exactly a revision: from the cache if nothing changed since, or else from
/// the store.
async fn exactly(
    registry: &Registry,
    request: PageRequest<'_>,
    revision: Revision,
) -> Result<Page> {
    if let Some(found) = cached(registry, request, Some(revision)) {
        return Ok(Page { revision, ..found });
    }
    // Objects from before the tenant's creation belonged to a former tenant of its name.
    let its_own = match request.list.spaces {
        Spaces::One(space) => registry.cache().birth(space) <= revision,
        Spaces::All => true,
    };
    if its_own {
        match history::read(registry, request, revision).await {
            Ok(found) => return Ok(found),
            Err(Error::Compacted { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(match request.after {
        None => StatusError::expired("The resourceVersion for the provided list is too old."),
        Some(after) => {
            let tokens = registry.continue_tokens();
            StatusError::expired_token(tokens.issue_for_current(request.list, after.print()))
        }
    })
}

/// Returns the page from the cache, with the revision of the last change; `None` if the cache does
/// not have the objects as of `until`.
fn cached(registry: &Registry, request: PageRequest<'_>, until: Option<Revision>) -> Option<Page> {
    let prefix = request.selection.prefix(request.list.namespace);
    let (kind, cache) = (request.list.kind.storage(), registry.cache());
    let space = match request.list.spaces {
        Spaces::One(space) => space,
        Spaces::All => return cached_everywhere(registry, request, &prefix, until),
    };
    if publish::concerns(&kind, space) {
        return with_published(registry, request, space, &prefix, until);
    }
    // Read before the collection, which may come into being meanwhile.
    let floor = cache.first_of(&kind, space);
    let collection = cache.find(&kind, space);
    let contents = match &collection {
        Some(collection) => contents(collection, until)?,
        // The space had no object of the kind since the cache was loaded, or since its definition
        // was last deleted.
        None => Contents {
            objects: Objects::default(),
            last: floor,
        },
    };
    if until.is_some_and(|until| contents.last > until) {
        return None;
    }
    let (objects, after) = (&contents.objects, request.after_key());
    let mut built_in = built_in_objects(registry, request, space);
    built_in.retain(|one| objects.get(&one.key).is_none());
    let count = || Some(objects.count(&prefix, after) + built_in.len());
    let terms = request.selection.terms();
    let candidates = objects.candidates(&terms, &prefix, after);
    let is_indexed = candidates.is_indexed;
    let stored = candidates.objects.cloned();
    let all = merged(stored, built_in.iter().cloned()).map(Positioned::in_one_space);
    let page = choose(registry, request, all, contents.last, count);
    let Some(collection) = collection else {
        return Some(page);
    };
    if page.left != Remaining::Nothing {
        cache.keep(&collection, space, &contents);
    }
    if let Some((term, _)) = terms.first()
        && !is_indexed
        && page.visited > MIN_VISITED
    {
        // An index may be built now, which visits every object.
        cpu_bound::run_blocking(|| cache.note_scan(&kind, space, term));
    }
    Some(page)
}

fn contents(collection: &Collection, until: Option<Revision>) -> Option<Contents> {
    match until {
        None => Some(collection.contents()),
        Some(until) => collection.contents_at(until),
    }
}

/// Returns the built-in objects of a space from where the list continues, also those that stored
/// ones shadow.
pub(super) fn built_in_objects(
    registry: &Registry,
    request: PageRequest<'_>,
    space: &Space,
) -> Vec<Arc<Stored>> {
    let kind = request.list.kind.storage();
    if !registry.built_in().are_some(&kind) {
        return Vec::new();
    }
    let Some(state) = registry.cache().space_state(space) else {
        return Vec::new();
    };
    let prefix = request.selection.prefix(request.list.namespace);
    let mut all = registry.built_in().all(&kind, space, &prefix, &state);
    let after = request.after_key();
    all.retain(|one| after.is_none_or(|after| *one.key > *after));
    all
}

/// Merges two sequences of objects, each in key order.
fn merged(
    one: impl Iterator<Item = Arc<Stored>>,
    other: impl Iterator<Item = Arc<Stored>>,
) -> impl Iterator<Item = Arc<Stored>> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if first.key > second.key => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}

/// Returns the page of definitions, with those that the system publishes.
fn with_published(
    registry: &Registry,
    request: PageRequest<'_>,
    space: &Space,
    prefix: &str,
    until: Option<Revision>,
) -> Option<Page> {
    let cache = registry.cache();
    let revision = until.unwrap_or_else(|| cache.applied());
    let mut all = publish::at(cache, space, revision).ok()?;
    all.retain(|definition| definition.key.starts_with(prefix));
    Some(choose_of(registry, request, all, revision))
}

/// Merges the built-in objects of a space into its stored ones, which shadow them.
pub(super) fn merge_built_in(
    registry: &Registry,
    request: PageRequest<'_>,
    space: &Space,
    stored: Vec<Arc<Stored>>,
) -> Vec<Arc<Stored>> {
    let mut all = stored;
    all.extend(built_in_objects(registry, request, space));
    // The sort is stable: of two with the same key, the stored one is first.
    all.sort_by(|one, other| one.key.cmp(&other.key));
    all.dedup_by(|later, first| later.key == first.key);
    all
}

/// Selects from all objects of one space, in key order.
fn choose_of(
    registry: &Registry,
    request: PageRequest<'_>,
    mut objects: Vec<Arc<Stored>>,
    revision: Revision,
) -> Page {
    if let Some(after) = request.after_key() {
        objects.drain(..objects.partition_point(|one| *one.key <= *after));
    }
    let count = objects.len();
    let objects = objects.into_iter().map(Positioned::in_one_space);
    choose(registry, request, objects, revision, || Some(count))
}

fn cached_everywhere(
    registry: &Registry,
    request: PageRequest<'_>,
    prefix: &str,
    until: Option<Revision>,
) -> Option<Page> {
    let (kind, cache) = (request.list.kind.storage(), registry.cache());
    let applied = cache.applied();
    let contents = match until {
        None => cache.contents_of_all(&kind),
        Some(until) => cache.contents_of_all_at(&kind, until)?,
    };
    let revision = until.unwrap_or(contents.last.max(applied));
    let sharing = Sharing::of(cache, request.list.kind, request.list.spaces);
    let includes = |space: &Space| {
        let sharing = sharing.as_ref();
        sharing.is_none_or(|sharing| sharing.includes(space, revision))
    };
    let after = request.after.and_then(|after| {
        let space = after.space.as_ref()?;
        Some((space, &*after.key))
    });
    let rest = || {
        let spaces = contents.objects.from(after.map(|(space, _)| space));
        let spaces = spaces.filter(|of| includes(&of.space));
        spaces.map(|of| {
            let after = after.filter(|(space, _)| **space == of.space);
            (of, after.map(|(_, key)| key))
        })
    };
    let count = || match request.left.filter(|_| until.is_some()) {
        Some(left) => Some(left),
        None if prefix.is_empty() && sharing.is_none() => Some(contents.objects.count_after(after)),
        None => Some(
            rest()
                .map(|(of, after)| of.objects.count(prefix, after))
                .sum(),
        ),
    };
    let terms = request.selection.terms();
    let objects = rest().flat_map(|(of, after)| {
        let candidates = of.objects.candidates(&terms, prefix, after);
        candidates.objects.map(|object| Positioned {
            order: Order {
                space: Some(of.space.clone()),
                key: Arc::clone(&object.key),
            },
            object: Arc::clone(object),
        })
    });
    let page = choose(registry, request, objects, revision, count);
    if page.left != Remaining::Nothing {
        cache.keep_all(&kind, &contents);
    }
    if let Some((term, _)) = terms.first()
        && page.visited > MIN_VISITED
    {
        let large = rest().filter(|(of, _)| of.objects.len() > MIN_VISITED);
        cpu_bound::run_blocking(|| {
            large.for_each(|(of, _)| cache.note_scan(&kind, &of.space, term));
        });
    }
    Some(page)
}

/// Selects objects up to the limit, and visits no more. `count` returns the number of all
/// objects, if that is known without a visit to each.
pub(super) fn choose(
    registry: &Registry,
    request: PageRequest<'_>,
    objects: impl Iterator<Item = Positioned>,
    revision: Revision,
    count: impl FnOnce() -> Option<usize>,
) -> Page {
    let everything = request.selection.is_everything();
    let mut visited = 0;
    let mut chosen = objects
        .inspect(|_| visited += 1)
        .filter(|one| everything || request.selection.chooses(request.view, &one.object));
    let most = match request.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let objects: Vec<_> = chosen.by_ref().take(most).collect();
    let more = request.limit > 0 && chosen.next().is_some();
    registry.cache().note_visited(visited);
    let left = match more {
        false => Remaining::Nothing,
        true if !everything => Remaining::Uncounted,
        true => match count() {
            Some(count) => Remaining::Known(count.saturating_sub(objects.len()).max(1)),
            None => Remaining::Uncounted,
        },
    };
    Page {
        objects,
        left,
        revision,
        visited,
    }
}

/// Returns the page as a list, with its continue token.
fn listing(registry: &Registry, list: ListScope<'_>, found: Page, began: i64) -> Listing {
    let left = match found.left {
        Remaining::Known(count) => Some(count),
        Remaining::Nothing | Remaining::Uncounted => None,
    };
    let last = found
        .objects
        .last()
        .filter(|_| found.left != Remaining::Nothing);
    let proceed = last.map(|last| {
        let resume = Resume {
            revision: Some(found.revision),
            after: last.order.print(),
            left,
            began,
        };
        registry.continue_tokens().issue(list, &resume)
    });
    Listing {
        objects: found.objects.into_iter().map(|one| one.object).collect(),
        meta: ListMeta {
            revision: found.revision,
            remaining: left.filter(|_| proceed.is_some()),
            proceed,
        },
    }
}

impl Positioned {
    /// An object of a list of one space.
    pub(super) fn in_one_space(object: Arc<Stored>) -> Self {
        let order = Order {
            space: None,
            key: Arc::clone(&object.key),
        };
        Self { order, object }
    }
}

impl<'a> PageRequest<'a> {
    /// The key of the last object of the page before.
    fn after_key(&self) -> Option<&'a str> {
        self.after.map(|after| &*after.key)
    }
}

impl Order {
    /// Formats the position for a continue token. A key cannot begin with a slash, so the space
    /// needs no escaping.
    pub(super) fn print(&self) -> String {
        match &self.space {
            Some(space) => format!("{space}//{}", self.key),
            None => self.key.to_string(),
        }
    }

    fn parse(text: &str, spaces: &Spaces) -> Self {
        let (space, key) = match (spaces, text.split_once("//")) {
            (Spaces::All, Some((space, key))) => (Space::parse(space).ok(), key),
            _ => (None, text),
        };
        Self {
            space,
            key: key.into(),
        }
    }
}
