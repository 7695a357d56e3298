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

/// An object and its place in the order of the list.
struct Placed {
    /// The name of the space and the key within it; of a list of one space only the key.
    order: Order,
    object: Arc<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    space: Option<Space>,
    key: Arc<str>,
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
    let found = read(registry, list, wanted, resume.as_ref()).await?;
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

/// Everything in the list at one revision.
struct Found {
    objects: Vec<Placed>,
    revision: Revision,
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
) -> Result<Found> {
    match wanted {
        Wanted::Fresh => {
            registry.catch_up().await?;
        }
        Wanted::Any => {}
        Wanted::NotOlder(revision) => not_older(registry, revision).await?,
        Wanted::Exact(revision) => {
            not_older(registry, revision).await?;
            return exactly(registry, list, revision, resume).await;
        }
    }
    let (objects, last) = cached(registry, list);
    // A change may be in the objects a moment before it counts as applied.
    let revision = registry.cache().applied().max(last);
    Ok(Found { objects, revision })
}

/// The list as it was at a revision: the cache's, if nothing has happened since, or the
/// store's.
async fn exactly(
    registry: &Registry,
    list: Listed<'_>,
    revision: Revision,
    resume: Option<&Resume>,
) -> Result<Found> {
    let (objects, last) = cached(registry, list);
    if last <= revision {
        return Ok(Found { objects, revision });
    }
    if let Spaces::One(space) = list.spaces
        && revision < registry.birth(space).await?
    {
        return Err(expired(registry, list, resume));
    }
    match from_store(registry, list, revision).await {
        Ok(objects) => Ok(Found { objects, revision }),
        Err(Error::Compacted { .. }) => Err(expired(registry, list, resume)),
        Err(error) => Err(error.into()),
    }
}

fn expired(registry: &Registry, list: Listed<'_>, resume: Option<&Resume>) -> Refusal {
    let Some(resume) = resume else {
        return Refusal::expired("The resourceVersion for the provided list is too old.");
    };
    let now = Resume {
        revision: None,
        after: resume.after.clone(),
    };
    Refusal::expired_token(registry.tokens().make(list, &now))
}

/// What the cache has, and the revision of its last change.
fn cached(registry: &Registry, list: Listed<'_>) -> (Vec<Placed>, Revision) {
    let prefix = list
        .namespace
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let (kind, cache) = (list.kind.storage(), registry.cache());
    let (collections, all) = match list.spaces {
        Spaces::One(space) => {
            let found = cache.find(kind, space);
            (
                found
                    .map(|found| (space.clone(), found))
                    .into_iter()
                    .collect(),
                false,
            )
        }
        Spaces::All => (cache.everywhere(kind), true),
    };
    let (mut objects, mut last) = (Vec::new(), Revision::ZERO);
    for (space, collection) in collections {
        let snapshot = collection.snapshot(&prefix, None);
        last = last.max(snapshot.last);
        objects.extend(snapshot.objects.into_iter().map(|object| Placed {
            order: Order {
                space: all.then(|| space.clone()),
                key: Arc::clone(&object.key),
            },
            object,
        }));
    }
    (objects, last)
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
            let object = Stored::new(Arc::clone(&key), entry.modified, &entry.value);
            let space = (*list.spaces == Spaces::All).then_some(place.space);
            objects.push(Placed {
                order: Order { space, key },
                object: Arc::new(object),
            });
        }
        match page.entries.last().map(|entry| entry.key.clone()) {
            Some(last) if page.more => rest = whole.after(&last),
            _ => break,
        }
    }
    objects.sort_by(|one, other| one.order.cmp(&other.order));
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
    let from = after.map_or(0, |after| {
        found.objects.partition_point(|one| one.order <= *after)
    });
    let rest = found.objects.into_iter().skip(from);
    let mut chosen =
        rest.filter(|one| selection.is_everything() || selection.chooses(view, &one.object));
    if limit == 0 {
        let objects = chosen.map(|one| one.object).collect();
        return Listing { objects, meta };
    }
    let mut objects = Vec::with_capacity(limit.min(1024));
    let mut last = None;
    for one in chosen.by_ref().take(limit) {
        last = Some(one.order);
        objects.push(one.object);
    }
    if let (Some(last), Some(_)) = (last, chosen.next()) {
        let resume = Resume {
            revision: Some(found.revision),
            after: last.print(),
        };
        meta.proceed = Some(registry.tokens().make(list, &resume));
        meta.remaining = selection.is_everything().then(|| chosen.count() + 1);
    }
    Listing { objects, meta }
}

impl Order {
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
