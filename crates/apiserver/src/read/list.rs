//! Many objects.

use std::num::NonZeroUsize;
use std::sync::Arc;

use insula_core::{Layout, ResourceName, Revision, Space, Spaces};
use insula_kinds::{FieldError, kinds};
use insula_store::{At, Error, KeyRange};
use serde_json::json;

use super::{Selection, not_older};
use crate::authorize::Granted;
use crate::body::Body;
use crate::cache::Stored;
use crate::query::{self, Query};
use crate::registry::Registry;
use crate::status::{Refusal, Result};
use crate::token::{Listed, Resume};
use crate::view::{ListMeta, View};

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

/// An object and, in a list over all spaces, its space.
struct Placed {
    space: Option<Space>,
    object: Arc<Stored>,
}

/// A place in the order of a list: by space, then by key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    space: Option<Space>,
    key: Arc<str>,
}

/// The part of a list that one page has, if that can be told without looking at objects.
#[derive(Clone, Copy, Debug)]
struct Cut<'a> {
    after: Option<&'a Order>,
    limit: usize,
}

/// The objects that the path and the selectors choose.
pub async fn list(
    registry: &Registry,
    granted: &Granted,
    query: &Query,
    view: &View,
) -> Result<Body> {
    let listing = collect(registry, granted, query, view).await?;
    view.list(listing.objects, &listing.meta)
}

/// The same, before it is put into a body.
pub async fn collect(
    registry: &Registry,
    granted: &Granted,
    query: &Query,
    view: &View,
) -> Result<Listing> {
    let path = granted.path();
    let list = Listed {
        kind: path.of(),
        spaces: granted.spaces(),
        namespace: path.namespace.as_deref(),
    };
    let mut limit = query.integer("limit")?.unwrap_or(0).max(0) as usize;
    let (wanted, resume) = parameters(registry, query, list, &mut limit)?;
    let selection = Selection::read(query, path.of())?;
    let after = resume
        .as_ref()
        .map(|resume| Order::parse(&resume.after, list.spaces));
    let cut =
        (limit > 0 && selection.is_everything() && *list.spaces != Spaces::All).then_some(Cut {
            after: after.as_ref(),
            limit,
        });
    let found = read(registry, list, wanted, resume.as_ref(), cut).await?;
    Ok(page(
        registry,
        list,
        view,
        &selection,
        found,
        after.as_ref(),
        limit,
    ))
}

/// What is in the list at one revision.
struct Found {
    objects: Vec<Placed>,
    revision: Revision,
    /// How many come after these, if they are one page already.
    left: Option<usize>,
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
        .map_err(|why| Refusal::bad_request(format!("invalid resource version: {why}")))?;
    if let Some(token) = token {
        if revision.is_some_and(|revision| revision > Revision::ZERO) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(Refusal::bad_request(why));
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
    let mut forbid = |why: &str| errors.push(FieldError::forbidden("resourceVersionMatch", why));
    match matching {
        None => {}
        Some(_) if token.is_some() => {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        Some(_) if revision.is_none() => {
            forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        Some("Exact") if revision == Some("0") => {
            forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        Some("Exact" | "NotOlderThan") => {}
        Some(other) => {
            let known = ["Exact", "NotOlderThan", ""];
            let value = json!(other);
            errors.push(FieldError::not_supported(
                "resourceVersionMatch",
                &value,
                &known,
            ));
        }
    }
    if query.choice("sendInitialEvents").is_some() {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", why));
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Refusal::invalid_options("ListOptions", &errors))
    }
}

async fn read(
    registry: &Registry,
    list: Listed<'_>,
    wanted: Wanted,
    resume: Option<&Resume>,
    cut: Option<Cut<'_>>,
) -> Result<Found> {
    match wanted {
        Wanted::Fresh => {
            registry.catch_up().await?;
        }
        Wanted::Any => {}
        Wanted::NotOlder(revision) => not_older(registry, revision).await?,
        Wanted::Exact(revision) => {
            not_older(registry, revision).await?;
            return exactly(registry, list, revision, resume, cut).await;
        }
    }
    let (objects, last, left) = cached(registry, list, cut);
    // A change may be in the objects a moment before it counts as applied.
    let revision = registry.cache().applied().max(last);
    Ok(Found {
        objects,
        revision,
        left,
    })
}

/// The list as it was at a revision: the cache's, if nothing has happened since, or the
/// store's.
async fn exactly(
    registry: &Registry,
    list: Listed<'_>,
    revision: Revision,
    resume: Option<&Resume>,
    cut: Option<Cut<'_>>,
) -> Result<Found> {
    let (objects, last, left) = cached(registry, list, cut);
    if last <= revision {
        return Ok(Found {
            objects,
            revision,
            left,
        });
    }
    match from_store(registry, list, revision).await {
        Ok(objects) => Ok(Found {
            objects,
            revision,
            left: None,
        }),
        Err(Error::Compacted { .. }) => Err(match resume {
            None => Refusal::expired("The resourceVersion for the provided list is too old."),
            Some(resume) => {
                let now = Resume {
                    revision: None,
                    after: resume.after.clone(),
                };
                Refusal::expired_token(registry.tokens().make(list, &now))
            }
        }),
        Err(error) => Err(error.into()),
    }
}

/// What the cache has, the revision of its last change, and, if it is cut to a page, how
/// many come after it.
fn cached(
    registry: &Registry,
    list: Listed<'_>,
    cut: Option<Cut<'_>>,
) -> (Vec<Placed>, Revision, Option<usize>) {
    let prefix = list
        .namespace
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let (kind, cache) = (list.kind.storage(), registry.cache());
    let placed = |space: Option<&Space>, objects: Vec<Arc<Stored>>| {
        let place = move |object| Placed {
            space: space.cloned(),
            object,
        };
        objects.into_iter().map(place).collect::<Vec<_>>()
    };
    match list.spaces {
        Spaces::One(space) => {
            let Some(collection) = cache.find(kind, space) else {
                return (Vec::new(), Revision::ZERO, None);
            };
            let (snapshot, left) = match cut {
                None => (collection.snapshot(&prefix, None), None),
                Some(Cut { after, limit }) => {
                    let after = after.map(|after| after.key.as_ref());
                    let (page, left) = collection.page(&prefix, after, limit);
                    (page, Some(left))
                }
            };
            (placed(None, snapshot.objects), snapshot.last, left)
        }
        Spaces::All => {
            let (mut objects, mut last) = (Vec::new(), Revision::ZERO);
            for (space, collection) in cache.everywhere(kind) {
                let snapshot = collection.snapshot(&prefix, None);
                last = last.max(snapshot.last);
                objects.extend(placed(Some(&space), snapshot.objects));
            }
            (objects, last, None)
        }
    }
}

/// What the store had, at a revision.
async fn from_store(
    registry: &Registry,
    list: Listed<'_>,
    revision: Revision,
) -> Result<Vec<Placed>, Error> {
    const PAGE: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");
    let kind = kinds().get(list.kind.storage());
    let resource = ResourceName {
        group: &kind.group,
        resource: &kind.resource,
    };
    let prefix = match list.spaces {
        Spaces::One(space) => registry
            .layout()
            .collection(resource, space, list.namespace),
        Spaces::All => registry.layout().resource(resource),
    };
    let skip = registry.layout().resource(resource).len();
    let whole = KeyRange::prefix(prefix.into_bytes());
    let (mut rest, mut objects) = (whole.clone(), Vec::new());
    loop {
        let page = registry
            .store()
            .range(&rest, At::Revision(revision), Some(PAGE))
            .await?;
        for entry in &page.entries {
            let below = std::str::from_utf8(&entry.key[skip..]).unwrap_or("");
            let segments: Vec<&str> = below.split('/').collect();
            let Some(place) = Layout::place(&segments, kind.namespaced()) else {
                continue;
            };
            let inside = match list.spaces {
                Spaces::One(space) => *space == place.space,
                Spaces::All => true,
            };
            if !inside
                || list
                    .namespace
                    .is_some_and(|wanted| place.namespace != Some(wanted))
            {
                continue;
            }
            let key: Arc<str> = match place.namespace {
                Some(namespace) => format!("{namespace}/{}", place.name).into(),
                None => place.name.into(),
            };
            let object = Arc::new(Stored::new(key, entry.modified, &entry.value));
            let space = (*list.spaces == Spaces::All).then_some(place.space);
            objects.push(Placed { space, object });
        }
        match page.entries.last().map(|entry| entry.key.clone()) {
            Some(last) if page.more => rest = whole.after(&last),
            _ => break,
        }
    }
    objects.sort_by(|one, other| one.order().cmp(&other.order()));
    Ok(objects)
}

/// The part of the list that is asked for.
fn page(
    registry: &Registry,
    list: Listed<'_>,
    view: &View,
    selection: &Selection,
    found: Found,
    after: Option<&Order>,
    limit: usize,
) -> Listing {
    let mut meta = ListMeta {
        revision: found.revision,
        proceed: None,
        remaining: None,
    };
    let past = |one: &Placed| after.is_some_and(|after| one.order() <= after.parts());
    let from = match found.left {
        Some(_) => 0,
        None => found.objects.partition_point(past),
    };
    let rest = found.objects.into_iter().skip(from);
    let everything = selection.is_everything();
    let mut chosen = rest.filter(|one| everything || selection.chooses(view, &one.object));
    if limit == 0 {
        let objects = chosen.map(|one| one.object).collect();
        return Listing { objects, meta };
    }
    let mut objects = Vec::with_capacity(limit.min(1024));
    let mut last = None;
    for one in chosen.by_ref().take(limit) {
        last = Some(one.space);
        objects.push(one.object);
    }
    let left = match found.left {
        Some(left) => left,
        // How many there are is told only if nothing was selected; that there are more, always.
        None if everything => chosen.count(),
        None => usize::from(chosen.next().is_some()),
    };
    if let (Some(space), Some(object)) = (last, objects.last())
        && left > 0
    {
        let last = Order {
            space,
            key: Arc::clone(&object.key),
        };
        let resume = Resume {
            revision: Some(found.revision),
            after: last.print(),
        };
        meta.proceed = Some(registry.tokens().make(list, &resume));
        meta.remaining = everything.then_some(left);
    }
    Listing { objects, meta }
}

impl Placed {
    fn order(&self) -> (Option<&Space>, &str) {
        (self.space.as_ref(), &self.object.key)
    }
}

impl Order {
    fn parts(&self) -> (Option<&Space>, &str) {
        (self.space.as_ref(), &self.key)
    }

    /// As tokens say it. A slash cannot begin a key, so the space needs no escaping.
    fn print(&self) -> String {
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
