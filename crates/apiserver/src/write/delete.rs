//! An object gone, or on its way.

mod mark;
mod options;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use insula_admission::Operation;
use insula_core::{Revision, SYSTEM, Space};
use insula_kinds::{Kind, Object};
use insula_store::{Expect, Outcome, Transaction};
use memchr::memmem;

pub use options::DeleteOptions;

use super::metadata;
use super::propagation::Policy;
use super::rules;
use crate::codec::input::Sent;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::read::{Listing, collect};
use crate::registry::built_in;
use crate::registry::encoding::encoded;
use crate::registry::publish::{self, absent};
use crate::registry::resource::Resource;
use crate::registry::versions;
use crate::registry::{Address, Registry};
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use crate::write::admission::webhooks::{self, Act};
use insula_cache::Stored;
use insula_cache::bootstrap_objects::NAMESPACES;
use insula_cache::expiry;
use insula_kinds::core_kind;
use mark::{Mark, mark};

/// How many objects of a collection are deleted at once: a store that waits for its disk
/// takes many for the price of one.
const AT_ONCE: usize = 16;

/// What became of a deletion.
#[derive(Debug)]
pub struct Deleted {
    /// The object as it was, or as it is while it is on its way.
    pub object: Arc<Stored>,
    /// Whether it is gone.
    pub gone: bool,
    /// Whether the caller is told that this was accepted, and not that it is done.
    pub accepted: bool,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// What became of the deletion of many.
#[derive(Debug)]
pub struct Emptied {
    /// The objects as they were before.
    pub listing: Listing,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

/// An object that is to be deleted exactly as it was seen.
#[derive(Clone, Debug)]
pub struct PendingDelete {
    /// Where it is.
    pub address: Address,
    /// How it was seen.
    pub object: Arc<Stored>,
    /// What becomes of its dependents.
    pub policy: Policy,
}

impl Deleted {
    /// The object is on its way.
    const fn marked(object: Arc<Stored>) -> Self {
        Self {
            object,
            gone: false,
            accepted: false,
            warnings: Vec::new(),
        }
    }
}

/// Deletes the object that the path names.
pub async fn delete(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    sent: &Sent,
) -> Result<Deleted> {
    let options = DeleteOptions::read(query, sent)?;
    let path = granted.path();
    let kind = path.of();
    let address = granted.address()?;
    let warning = publish::deletion_warning(registry, &address).await?;
    let act = Act::new(registry, granted, Operation::Delete, &path.kind, &address);
    let deleted = remove_for(registry, kind, &address, &options, Some(act)).await?;
    let gone = || absent(registry, kind, &address, publish::Act::Delete);
    let mut deleted = deleted.ok_or_else(gone)?;
    deleted.accepted = !deleted.gone && options.asks_for_cascade;
    deleted.warnings.extend(options.warning(kind));
    deleted.warnings.extend(warning);
    Ok(deleted)
}

/// Deletes the objects that path and selectors choose, and says which they were.
pub async fn delete_collection(
    registry: &Registry,
    granted: Caller<'_>,
    query: &Query,
    sent: &Sent,
    view: &View,
) -> Result<Emptied> {
    let options = DeleteOptions::read(query, sent)?;
    let mut listing = collect(registry, granted, query, view).await?;
    let kind = &granted.path().kind;
    let stored = kind.storage();
    let space = granted.space()?;
    // What every space has is not meant by who deletes all.
    listing
        .objects
        .retain(|object| !built_in::is_one(&stored, &object.key));
    // Nor is what the system publishes.
    if publish::concerns(&stored, space) {
        let own = |object: &Arc<Stored>| publish::is_own(registry, space, object);
        listing.objects.retain(own);
    }
    // What cannot be shown is not deleted.
    let context = Some(granted.context);
    versions::prepare(registry, context, kind, listing.objects.iter()).await?;
    let addresses = listing.objects.iter().map(|object| Address {
        kind: stored.clone(),
        space: space.clone(),
        namespace: object.namespace().map(str::to_owned),
        name: object.name().to_owned(),
    });
    let addresses: Vec<_> = addresses.map(Ok).collect();
    let options = &options;
    stream::iter(addresses)
        .try_for_each_concurrent(AT_ONCE, |address| async move {
            let mut act = Act::new(registry, granted, Operation::Delete, kind, &address);
            act.name = "";
            let removed = remove_for(registry, kind, &address, options, Some(act)).await;
            removed.map(drop)
        })
        .await?;
    Ok(Emptied {
        listing,
        warnings: options.warning(kind).into_iter().collect(),
    })
}

/// Deletes objects in one transaction, all or none: `None` if one is not as it was seen any
/// more. There must not be more of them than a transaction takes.
pub async fn remove_together(
    registry: &Registry,
    doomed: &[PendingDelete],
) -> Result<Option<Revision>> {
    let mut transaction = Transaction::new();
    for PendingDelete {
        address,
        object,
        policy,
    } in doomed
    {
        refuse_the_immortal(registry, address.of(), address).await?;
        let key = registry.key(address);
        if *policy == Policy::Background && is_free(address, object) {
            let at = Expect::At(object.revision);
            transaction = transaction.delete(key.clone()).check(key, at);
            continue;
        }
        let mut tree = object.tree();
        let options = DeleteOptions::default().propagating(*policy);
        transaction = match mark(address, &mut tree, &options) {
            Mark::Unchanged => continue,
            Mark::Remove => transaction.delete(key.clone()),
            Mark::Changed => transaction.put(key.clone(), unversioned(address, &mut tree)),
        }
        .check(key, Expect::At(object.revision));
    }
    if transaction.changes().is_empty() {
        return Ok(Some(registry.cache().applied()));
    }
    Ok(match registry.commit(transaction).await? {
        Outcome::Committed(revision) | Outcome::Unchanged(revision) => Some(revision),
        Outcome::Conflict(_) => None,
    })
}

/// Whether nothing holds an object, as can be said without reading it.
fn is_free(address: &Address, object: &Stored) -> bool {
    goes_at_once(&address.kind) && memmem::find(&object.body(), br#""finalizers":["#).is_none()
}

/// Whether objects of a kind wait for nothing but finalizers when they are deleted.
pub fn goes_at_once(kind: &Resource) -> bool {
    let special = ["pods", "namespaces", "tenants"];
    !kind.is(insula_cache::definitions()) && !special.iter().any(|name| kind.is(core_kind(name)))
}

/// Deletes an object, or marks it. `None` if there is no such object.
pub async fn remove(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
) -> Result<Option<Deleted>> {
    remove_for(registry, kind, address, options, None).await
}

/// The same, if others admit it whom somebody's wish concerns.
pub async fn remove_for(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    act: Option<Act<'_>>,
) -> Result<Option<Deleted>> {
    let act = act.map(|act| Act {
        dry_run: options.dry_run,
        options: Some(&options.object),
        ..act
    });
    refuse_the_immortal(registry, kind, address).await?;
    // What the cache has is nearly always what is there. An answer that changes nothing must
    // not be about the past, so it is given only after another look.
    let mut certain = options.dry_run;
    let mut current = match certain {
        true => registry.fresh(address).await?,
        false => registry.cached(address),
    };
    loop {
        // What no store has cannot be removed from one.
        let Some(object) = current.filter(|object| !object.built_in) else {
            if certain {
                return Ok(None);
            }
            certain = true;
            current = registry.fresh(address).await?;
            continue;
        };
        match attempt(registry, kind, address, options, act.as_ref(), &object).await {
            Ok(Attempt::Done(deleted)) => return Ok(Some(deleted)),
            Ok(Attempt::Unchanged(deleted)) if certain => return Ok(Some(deleted)),
            Ok(Attempt::Lost(at)) => {
                registry.cache().await_applied(at).await;
                current = registry.cached(address);
            }
            Err(refusal) if certain => return Err(refusal),
            undone => {
                certain = true;
                current = registry.fresh(address).await?;
                let now = current.as_ref().map(|current| current.revision);
                // Nobody is asked twice about the same.
                if now == Some(object.revision)
                    && !matches!(undone, Ok(Attempt::Done(_) | Attempt::Lost(_)))
                {
                    return undone.map(Attempt::deleted);
                }
            }
        }
    }
}

enum Attempt {
    Done(Deleted),
    /// It was on its way before, if it is still as it was seen.
    Unchanged(Deleted),
    /// Somebody else changed it at this revision.
    Lost(Revision),
}

impl Attempt {
    fn deleted(self) -> Option<Deleted> {
        match self {
            Self::Done(deleted) | Self::Unchanged(deleted) => Some(deleted),
            Self::Lost(_) => None,
        }
    }
}

async fn attempt(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    act: Option<&Act<'_>>,
    current: &Arc<Stored>,
) -> Result<Attempt> {
    let mut object = current.tree();
    check_preconditions(kind, address, options, current, &object)?;
    if let Some(act) = act.filter(|act| act.concerns_anybody()) {
        let shown;
        let old = match act.kind.custom() {
            None => &object,
            Some(_) => {
                shown = rules::shown(registry, Some(act.by), act.kind, current).await?;
                &shown
            }
        };
        webhooks::mutate(act, None, Some(old)).await?;
        webhooks::validate(act, None, Some(old)).await?;
    }
    let key = registry.key(address);
    let transaction = match mark(address, &mut object, options) {
        Mark::Remove => Transaction::remove(key, current.revision),
        Mark::Unchanged => {
            return Ok(Attempt::Unchanged(Deleted::marked(Arc::clone(current))));
        }
        Mark::Changed => {
            let value = unversioned(address, &mut object);
            let marked = |revision| {
                let object = Stored::new(Arc::clone(&current.key), revision, &value);
                Attempt::Done(Deleted::marked(Arc::new(object)))
            };
            if options.dry_run {
                return Ok(marked(current.revision));
            }
            let stored = expiry::stored(&address.kind, value.clone());
            let transaction = Transaction::update(key, current.revision, stored);
            return Ok(match registry.commit(transaction).await? {
                Outcome::Committed(revision) | Outcome::Unchanged(revision) => marked(revision),
                Outcome::Conflict(conflict) => Attempt::Lost(conflict.revision),
            });
        }
    };
    let gone = Deleted {
        gone: true,
        ..Deleted::marked(Arc::clone(current))
    };
    if options.dry_run {
        return Ok(Attempt::Done(gone));
    }
    Ok(match registry.commit(transaction).await? {
        Outcome::Committed(_) | Outcome::Unchanged(_) => Attempt::Done(gone),
        Outcome::Conflict(conflict) => Attempt::Lost(conflict.revision),
    })
}

/// The object as it is stored, which must not say which version it is.
fn unversioned(address: &Address, object: &mut Object) -> Bytes {
    metadata::of(object).remove("resourceVersion");
    encoded(address.of(), object)
}

fn check_preconditions(
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    current: &Stored,
    object: &Object,
) -> Result<()> {
    let is = metadata::text(object, "uid").unwrap_or("");
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != is) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({is}). The \
             object might have been deleted and then recreated"
        );
        return Err(StatusError::precondition(kind, &address.name, &why));
    }
    let is = current.revision.to_string();
    if let Some(revision) = options
        .revision
        .as_deref()
        .filter(|revision| *revision != is)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({revision}) does not match the \
             ResourceVersion in record ({is}). The object might have been modified"
        );
        return Err(StatusError::precondition(kind, &address.name, &why));
    }
    Ok(())
}

/// What every space needs stays, as long as the space does.
async fn refuse_the_immortal(registry: &Registry, kind: &Kind, address: &Address) -> Result<()> {
    let namespace =
        address.kind.is(core_kind("namespaces")) && NAMESPACES.contains(&address.name.as_str());
    let built_in = built_in::is_one(&address.kind, &address.within());
    if (namespace || built_in) && !is_going(registry, &address.space).await? {
        let why = match namespace {
            true => "this namespace may not be deleted",
            false => "every space has it, so it may not be deleted; it may be changed",
        };
        return Err(StatusError::not_allowed(kind, &address.name, why));
    }
    if address.kind.is(core_kind("tenants")) && address.name == SYSTEM {
        let why = "this tenant may not be deleted";
        return Err(StatusError::not_allowed(address.of(), &address.name, why));
    }
    Ok(())
}

/// Whether the space is on its way out with everything in it.
async fn is_going(registry: &Registry, space: &Space) -> Result<bool> {
    let Space::Tenant(tenant) = space else {
        return Ok(false);
    };
    registry.catch_up().await?;
    let tenant = registry.tenant(tenant.as_str());
    Ok(tenant.is_none_or(|tenant| tenant.terminating))
}
