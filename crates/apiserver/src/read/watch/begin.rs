//! The initial state of a watch, and its position in the log.

use std::sync::Arc;

use insula_core::{Revision, Spaces};

use super::events::Position;
use super::permission::defining_space;
use super::start::Start;
use super::too_old;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::read::list::{PageRequest, merge_built_in};
use crate::read::{Selection, not_older};
use crate::registry::Registry;
use crate::registry::continue_token::ListScope;
use crate::registry::publish::{self, Overlay, Sharing};
use crate::status::Result;
use insula_cache::{Collection, Lost, Stored};

/// The beginning of a watch.
pub(super) struct Begun {
    pub(super) collection: Arc<Collection>,
    pub(super) position: Position,
    pub(super) published: Option<Overlay>,
    pub(super) objects: Vec<Arc<Stored>>,
    /// The revision of the objects.
    pub(super) revision: Revision,
    pub(super) after: Revision,
}

pub(super) async fn begin(
    registry: &Registry,
    granted: Caller<'_>,
    start: Start,
    selection: &Selection,
    view: &View,
) -> Result<Begun> {
    match start {
        Start::State { at_least: None, .. } | Start::Now => {
            registry.catch_up().await?;
        }
        Start::State {
            at_least: Some(revision),
            ..
        } => not_older(registry, revision).await?,
        Start::After(_) => {}
    }
    let (kind, cache) = (granted.path().kind.storage(), registry.cache());
    let applied = cache.applied();
    let collection = match granted.spaces() {
        Spaces::One(space) => cache.collection(&kind, space),
        Spaces::All => cache.log_of_all(&kind),
    };
    let after = match start {
        Start::After(revision) => revision,
        Start::Now | Start::State { .. } => applied,
    };
    if !matches!(start, Start::State { .. }) {
        if let Some(since) = defined_since(registry, granted).filter(|since| after < *since) {
            return Err(too_old(Lost::Passed(since), after));
        }
        let published = overlay(registry, granted, &collection, after)?;
        return Ok(Begun {
            position: position(&collection, published.as_ref(), after)?,
            published,
            collection,
            objects: Vec::new(),
            revision: after,
            after,
        });
    }
    let namespace = granted.path().namespace.as_deref();
    let request = PageRequest {
        list: ListScope {
            kind: &granted.path().kind,
            spaces: granted.spaces(),
            // No continue token is made of this list.
            tenant_uid: "",
            namespace,
        },
        selection,
        view,
        after: None,
        left: None,
        limit: 0,
    };
    if *granted.spaces() == Spaces::All {
        return Ok(everywhere(registry, request, applied));
    }
    if let Some(published) = overlay(registry, granted, &collection, applied)? {
        return with_published(registry, granted, collection, published, applied);
    }
    let snapshot = collection.snapshot(&selection.prefix(namespace), None);
    let revision = applied.max(snapshot.last);
    let objects = match granted.spaces() {
        Spaces::One(space) if registry.built_in().are_some(&kind) => {
            merge_built_in(registry, request, space, snapshot.objects)
        }
        _ => snapshot.objects,
    };
    Ok(Begun {
        collection,
        position: Position::Log(snapshot.cursor),
        published: None,
        objects,
        revision,
        // The cursor is the position of this snapshot, so it alone decides what is new.
        after: Revision::ZERO,
    })
}

/// Returns the revision since which a custom resource is defined as it is now. A client that knows
/// its objects from before has to list them again: defaults, versions and fields may be others.
fn defined_since(registry: &Registry, granted: Caller<'_>) -> Option<Revision> {
    let kind = &granted.path().kind;
    kind.custom()?;
    let apis = registry.apis(defining_space(granted.granted))?;
    let offer = apis.offer(&kind.group, &kind.resource)?;
    Some(offer.since)
}

/// Returns the position after a revision: in the log, or in the store's history if the log begins
/// later. Published definitions are merged by the logs, so they need these.
fn position(
    collection: &Collection,
    published: Option<&Overlay>,
    after: Revision,
) -> Result<Position> {
    match collection.after(after) {
        Ok(cursor) => Ok(Position::Log(cursor)),
        Err(Lost::Passed(_)) if published.is_none() => Ok(Position::History(after)),
        Err(lost) => Err(too_old(lost, after)),
    }
}

/// Returns the definitions that the system publishes beside a tenant's own, after a revision.
fn overlay(
    registry: &Registry,
    granted: Caller<'_>,
    own: &Arc<Collection>,
    after: Revision,
) -> Result<Option<Overlay>> {
    let Spaces::One(space) = granted.spaces() else {
        return Ok(None);
    };
    if !publish::concerns(&granted.path().kind.storage(), space) {
        return Ok(None);
    }
    let overlay = Overlay::after(registry.cache(), space, own, after);
    overlay.map(Some).map_err(|lost| too_old(lost, after))
}

/// Begins with a tenant's definitions and those that the system publishes, at one revision.
fn with_published(
    registry: &Registry,
    granted: Caller<'_>,
    collection: Arc<Collection>,
    published: Overlay,
    revision: Revision,
) -> Result<Begun> {
    let lost = |lost| too_old(lost, revision);
    let objects = publish::at(registry.cache(), granted.space()?, revision);
    Ok(Begun {
        position: Position::Log(collection.after(revision).map_err(lost)?),
        collection,
        published: Some(published),
        objects: objects.map_err(lost)?,
        revision,
        after: revision,
    })
}

/// Begins with all spaces at one revision.
fn everywhere(registry: &Registry, request: PageRequest<'_>, applied: Revision) -> Begun {
    let prefix = request.selection.prefix(request.list.namespace);
    let cache = registry.cache();
    let contents = cache.contents_of_all(request.list.kind.storage());
    let revision = applied.max(contents.last);
    let sharing = Sharing::of(cache, request.list.kind, request.list.spaces);
    let includes = |space| {
        let sharing = sharing.as_ref();
        sharing.is_none_or(|sharing| sharing.includes(space, revision))
    };
    let spaces = contents.objects.from(None);
    let spaces = spaces.filter(|of| includes(&of.space));
    let objects = spaces.flat_map(|of| of.objects.range(&prefix, None).cloned());
    Begun {
        objects: objects.collect(),
        // The log of these objects, because the cursor is a position in it.
        collection: contents.log,
        position: Position::Log(contents.cursor),
        published: None,
        revision,
        after: Revision::ZERO,
    }
}
