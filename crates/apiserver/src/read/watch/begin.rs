//! The state and the place in the log that a watch begins with.

use std::sync::Arc;

use insula_core::{Revision, Spaces};

use super::start::Start;
use super::too_old;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::read::list::{Ask, complete};
use crate::read::{PANORAMAS, Selection, not_older, past};
use crate::registry::Registry;
use crate::registry::built_in;
use crate::registry::continue_token::Listed;
use crate::registry::publish::{self, Overlay, Sharing};
use crate::status::Result;
use insula_cache::{Collection, Cursor, Stored};

/// Where a watch begins.
pub(super) struct Begun {
    pub(super) collection: Arc<Collection>,
    pub(super) cursor: Cursor,
    pub(super) published: Option<Overlay>,
    pub(super) objects: Vec<Arc<Stored>>,
    /// The revision that the objects are of.
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
        let lost = |lost| too_old(lost, after);
        let cursor = collection.after(after).map_err(lost)?;
        return Ok(Begun {
            published: overlay(registry, granted, &collection, after)?,
            collection,
            cursor,
            objects: Vec::new(),
            revision: after,
            after,
        });
    }
    let namespace = granted.path().namespace.as_deref();
    let ask = Ask {
        list: Listed {
            kind: &granted.path().kind,
            spaces: granted.spaces(),
            // No token is made of it.
            life: "",
            namespace,
        },
        selection,
        view,
        after: None,
        left: None,
        limit: 0,
    };
    if *granted.spaces() == Spaces::All {
        return everywhere(registry, ask, collection, applied).await;
    }
    if let Some(published) = overlay(registry, granted, &collection, applied)? {
        return with_published(registry, granted, collection, published, applied);
    }
    let snapshot = collection.snapshot(&selection.prefix(namespace), None);
    let revision = applied.max(snapshot.last);
    let objects = match granted.spaces() {
        Spaces::One(space) if built_in::are_some(&kind) => {
            complete(registry, ask, space, snapshot.objects)
        }
        _ => snapshot.objects,
    };
    Ok(Begun {
        collection,
        cursor: snapshot.cursor,
        published: None,
        objects,
        revision,
        // The cursor alone says what is new: it is the place of this very snapshot.
        after: Revision::ZERO,
    })
}

/// What the system publishes beside a tenant's own, after a revision.
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

/// A tenant's definitions and those that the system publishes, at one revision.
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
        cursor: collection.after(revision).map_err(lost)?,
        collection,
        published: Some(published),
        objects: objects.map_err(lost)?,
        revision,
        after: revision,
    })
}

/// All spaces as of one moment: the cache's view of them, or the store's if the cache
/// changes too fast.
async fn everywhere(
    registry: &Registry,
    ask: Ask<'_>,
    collection: Arc<Collection>,
    applied: Revision,
) -> Result<Begun> {
    let prefix = ask.selection.prefix(ask.list.namespace);
    let kind = ask.list.kind.storage();
    let snapshot_all_spaces =
        (0..PANORAMAS).find_map(|_| registry.cache().snapshot_all_spaces(&kind, &prefix));
    if let Some(snapshot_all_spaces) = snapshot_all_spaces {
        let (mut objects, revision) = (
            snapshot_all_spaces.objects,
            applied.max(snapshot_all_spaces.last),
        );
        if let Some(sharing) = Sharing::of(registry.cache(), ask.list.kind, ask.list.spaces) {
            let shared = sharing.retain(&mut objects, revision, |(space, _)| space.clone());
            shared.map_err(|lost| too_old(lost, revision))?;
        }
        return Ok(Begun {
            // Not the one from before: the cursor is a place in this one.
            collection: snapshot_all_spaces.log,
            cursor: snapshot_all_spaces.cursor,
            published: None,
            objects: objects.into_iter().map(|(_, object)| object).collect(),
            revision,
            after: Revision::ZERO,
        });
    }
    let found = past::read(registry, ask, applied).await?;
    let cursor = collection.after(applied);
    Ok(Begun {
        collection,
        cursor: cursor.map_err(|lost| too_old(lost, applied))?,
        published: None,
        objects: found.objects.into_iter().map(|one| one.object).collect(),
        revision: applied,
        after: applied,
    })
}
