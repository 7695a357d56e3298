//! Many objects.

use std::sync::Arc;

use insula_core::{Revision, Space, Spaces};
use insula_kinds::FieldError;
use insula_store::Error;
use serde_json::json;

use super::{PANORAMAS, Selection, not_older, past};
use crate::codec::body::Body;
use crate::codec::view::{ListMeta, View};
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::built_in;
use crate::registry::continue_token::{Listed, Resume};
use crate::registry::publish::{self, Sharing};
use crate::registry::versions;
use crate::request::query::{self, Query};
use crate::status::{Result, StatusError};
use insula_cache::Stored;

/// The objects of a list, and what it says about itself.
#[derive(Debug)]
pub struct Listing {
    /// The objects, in key order.
    pub objects: Vec<Arc<Stored>>,
    /// What the list says about itself.
    pub meta: ListMeta,
}

/// How new a list must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// With everything that was acknowledged before.
    Fresh,
    /// However old.
    Any,
    /// Not older than this.
    NotOlder(Revision),
    /// As it was right then.
    Exact(Revision),
}

/// An object and its place in the order of the list.
pub(super) struct Placed {
    /// The name of the space and the key within it; of a list of one space only the key.
    pub(super) order: Order,
    pub(super) object: Arc<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) space: Option<Space>,
    pub(super) key: Arc<str>,
}

/// Which part of which list is asked for.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) list: Listed<'a>,
    pub(super) selection: &'a Selection,
    pub(super) view: &'a View,
    /// The last object that the caller has.
    pub(super) after: Option<&'a Order>,
    /// How many come after it, if that is known.
    pub(super) left: Option<usize>,
    /// The most objects; zero is no limit.
    pub(super) limit: usize,
}

/// A part of a list, at one revision.
pub(super) struct Found {
    pub(super) objects: Vec<Placed>,
    pub(super) left: Left,
    pub(super) revision: Revision,
}

/// What comes after a part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    Known(usize),
    /// Something, but how much nobody counts: with selectors that would be to read it all.
    Uncounted,
}

/// The objects that the path and the selectors choose.
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

/// The same, before it is put into a body.
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
    let list = Listed {
        kind: &path.kind,
        spaces: granted.spaces(),
        life: life.as_ref().map_or("", |life| &life.uid),
        namespace: path.namespace.as_deref(),
    };
    let mut limit = query.integer("limit")?.unwrap_or(0).max(0) as usize;
    let (wanted, resume) = parameters(registry, query, list, &mut limit)?;
    let selection = Selection::read(query, &path.kind)?;
    let after = resume
        .as_ref()
        .map(|resume| Order::parse(&resume.after, list.spaces));
    let ask = Ask {
        list,
        selection: &selection,
        view,
        after: after.as_ref(),
        left: resume.as_ref().and_then(|resume| resume.left),
        limit,
    };
    let found = read(registry, ask, wanted).await?;
    Ok(listing(registry, list, found))
}

/// Which list is wanted, and where it goes on.
fn parameters(
    registry: &Registry,
    query: &Query,
    list: Listed<'_>,
    limit: &mut usize,
) -> Result<(Wanted, Option<Resume>)> {
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
        let resume = registry.tokens().read(list, token)?;
        let wanted = resume.revision.map_or(Wanted::Fresh, Wanted::Exact);
        return Ok((wanted, Some(resume)));
    }
    let wanted = match (revision, matching) {
        (None, _) => Wanted::Fresh,
        (Some(Revision::ZERO), _) => {
            *limit = 0;
            Wanted::Any
        }
        (Some(revision), Some("Exact")) => Wanted::Exact(revision),
        (Some(revision), None) if *limit > 0 => Wanted::Exact(revision),
        (Some(revision), _) => Wanted::NotOlder(revision),
    };
    Ok((wanted, None))
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

async fn read(registry: &Registry, ask: Ask<'_>, wanted: Wanted) -> Result<Found> {
    match wanted {
        Wanted::Fresh => {
            registry.catch_up().await?;
        }
        Wanted::Any => {}
        Wanted::NotOlder(revision) => not_older(registry, revision).await?,
        Wanted::Exact(revision) => {
            not_older(registry, revision).await?;
            return exactly(registry, ask, revision).await;
        }
    }
    // Before the objects are looked at: a change that is in the number but not in the list
    // would be missed by who watches from there on. One that is in the list already counts
    // by the collection's own last revision.
    let applied = registry.cache().applied();
    if let Some(mut found) = cached(registry, ask, None) {
        found.revision = found.revision.max(applied);
        return Ok(found);
    }
    Ok(past::read(registry, ask, applied).await?)
}

/// The list as it was at a revision: the cache's, if nothing has happened since, or the
/// store's.
async fn exactly(registry: &Registry, ask: Ask<'_>, revision: Revision) -> Result<Found> {
    if let Some(found) = cached(registry, ask, Some(revision)) {
        return Ok(Found { revision, ..found });
    }
    // What was there before a tenant came about was another one's, if they share the name.
    let its_own = match ask.list.spaces {
        Spaces::One(space) => registry.cache().birth(space) <= revision,
        Spaces::All => true,
    };
    if its_own {
        match past::read(registry, ask, revision).await {
            Ok(found) => return Ok(found),
            Err(Error::Compacted { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(match ask.after {
        None => StatusError::expired("The resourceVersion for the provided list is too old."),
        Some(after) => {
            let now = Resume {
                revision: None,
                after: after.print(),
                left: None,
            };
            StatusError::expired_token(registry.tokens().make(ask.list, &now))
        }
    })
}

/// What the cache has, with the revision of its last change; `None` if that is after
/// `until`, or if the cache changed too fast for a look at all spaces at one moment.
fn cached(registry: &Registry, ask: Ask<'_>, until: Option<Revision>) -> Option<Found> {
    let prefix = ask.selection.prefix(ask.list.namespace);
    let (kind, cache) = (ask.list.kind.storage(), registry.cache());
    let too_new = |last| until.is_some_and(|until| last > until);
    let space = match ask.list.spaces {
        Spaces::One(space) => space,
        Spaces::All => return cached_everywhere(registry, ask, &prefix, until),
    };
    if built_in::are_some(&kind) {
        return with_built_in(registry, ask, space, &prefix, until);
    }
    if publish::concerns(&kind, space) {
        return with_published(registry, ask, space, &prefix, until);
    }
    let Some(collection) = cache.find(&kind, space) else {
        // Nothing has been there as long as the cache looks, or as the space exists.
        let last = cache.first_of(space);
        return (!too_new(last)).then_some(Found {
            objects: Vec::new(),
            left: Left::Nothing,
            revision: last,
        });
    };
    if too_new(collection.last()) {
        return None;
    }
    let after = ask.after.map(|after| after.key.as_ref());
    let counted = ask.limit > 0 && ask.selection.is_everything();
    let (snapshot, left) = if counted {
        collection.page(&prefix, after, ask.limit)
    } else {
        (collection.snapshot(&prefix, after), 0)
    };
    if too_new(snapshot.last) {
        return None;
    }
    let placed = snapshot.objects.into_iter().map(|object| Placed {
        order: Order {
            space: None,
            key: Arc::clone(&object.key),
        },
        object,
    });
    let mut found = choose(ask, placed, snapshot.last);
    if left > 0 {
        found.left = Left::Known(left);
    }
    Some(found)
}

/// The same of a kind of which every space has some that are not stored.
fn with_built_in(
    registry: &Registry,
    ask: Ask<'_>,
    space: &Space,
    prefix: &str,
    until: Option<Revision>,
) -> Option<Found> {
    let (kind, cache) = (ask.list.kind.storage(), registry.cache());
    let (stored, last) = match cache.find(&kind, space) {
        Some(collection) => {
            let snapshot = collection.snapshot(prefix, None);
            (snapshot.objects, snapshot.last)
        }
        None => (Vec::new(), cache.first_of(space)),
    };
    if until.is_some_and(|until| last > until) {
        return None;
    }
    let all = complete(registry, ask, space, stored);
    Some(choose(ask, placed(ask, all), last))
}

/// The same of definitions, of which the system publishes some.
fn with_published(
    registry: &Registry,
    ask: Ask<'_>,
    space: &Space,
    prefix: &str,
    until: Option<Revision>,
) -> Option<Found> {
    let cache = registry.cache();
    let revision = until.unwrap_or_else(|| cache.applied());
    let mut all = publish::at(cache, space, revision).ok()?;
    all.retain(|definition| definition.key.starts_with(prefix));
    Some(choose(ask, placed(ask, all), revision))
}

/// Adds to what is stored what every space has.
pub(super) fn complete(
    registry: &Registry,
    ask: Ask<'_>,
    space: &Space,
    stored: Vec<Arc<Stored>>,
) -> Vec<Arc<Stored>> {
    let Some(life) = registry.cache().space_state(space) else {
        return stored;
    };
    let prefix = ask.selection.prefix(ask.list.namespace);
    let kind = ask.list.kind.storage();
    built_in::merge(stored, built_in::all(&kind, space, &prefix, &life))
}

/// Objects of one space, from where the list goes on.
pub(super) fn placed<'a>(
    ask: Ask<'a>,
    objects: Vec<Arc<Stored>>,
) -> impl Iterator<Item = Placed> + 'a {
    let placed = objects.into_iter().map(|object| Placed {
        order: Order {
            space: None,
            key: Arc::clone(&object.key),
        },
        object,
    });
    placed.skip_while(move |one| ask.after.is_some_and(|after| one.order.key <= after.key))
}

fn cached_everywhere(
    registry: &Registry,
    ask: Ask<'_>,
    prefix: &str,
    until: Option<Revision>,
) -> Option<Found> {
    let (kind, cache) = (ask.list.kind.storage(), registry.cache());
    let applied = cache.applied();
    for _ in 0..PANORAMAS {
        if until.is_some_and(|until| cache.last_of_all(&kind) > until) {
            return None;
        }
        let Some(mut snapshot_all_spaces) = cache.snapshot_all_spaces(&kind, prefix) else {
            continue;
        };
        if until.is_some_and(|until| snapshot_all_spaces.last > until) {
            return None;
        }
        let revision = until.unwrap_or(snapshot_all_spaces.last.max(applied));
        if let Some(sharing) = Sharing::of(cache, ask.list.kind, ask.list.spaces) {
            let shared =
                sharing.retain(&mut snapshot_all_spaces.objects, revision, |(space, _)| {
                    space.clone()
                });
            shared.ok()?;
        }
        let objects = snapshot_all_spaces
            .objects
            .into_iter()
            .map(|(space, object)| Placed {
                order: Order {
                    space: Some(space),
                    key: Arc::clone(&object.key),
                },
                object,
            });
        let rest = objects.skip_while(|one| ask.after.is_some_and(|after| one.order <= *after));
        return Some(choose(ask, rest, revision));
    }
    None
}

/// The objects that the selectors choose, up to the limit.
pub(super) fn choose(
    ask: Ask<'_>,
    objects: impl Iterator<Item = Placed>,
    revision: Revision,
) -> Found {
    let everything = ask.selection.is_everything();
    let mut chosen =
        objects.filter(|one| everything || ask.selection.chooses(ask.view, &one.object));
    let most = match ask.limit {
        0 => usize::MAX,
        limit => limit,
    };
    let objects = chosen.by_ref().take(most).collect();
    let left = match chosen.next() {
        None => Left::Nothing,
        Some(_) if everything => Left::Known(chosen.count() + 1),
        Some(_) => Left::Uncounted,
    };
    Found {
        objects,
        left,
        revision,
    }
}

/// What is found, and how the list goes on.
fn listing(registry: &Registry, list: Listed<'_>, found: Found) -> Listing {
    let left = match found.left {
        Left::Known(count) => Some(count),
        Left::Nothing | Left::Uncounted => None,
    };
    let last = found.objects.last().filter(|_| found.left != Left::Nothing);
    let proceed = last.map(|last| {
        let resume = Resume {
            revision: Some(found.revision),
            after: last.order.print(),
            left,
        };
        registry.tokens().make(list, &resume)
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

impl Order {
    /// As tokens say it. A slash cannot begin a key, so the space needs no escaping.
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
