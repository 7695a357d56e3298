//! Deleting objects, or marking them for deletion.

mod mark;
mod options;
mod restore;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use insula_admission::Operation;
use insula_core::{Revision, SYSTEM, Space};
use insula_kinds::{Kind, Object, Propagation};
use insula_store::{Expect, Outcome, Transaction};
use memchr::memmem;

pub use options::DeleteOptions;

use super::metadata;
use super::propagation::Policy;
use super::strategy;
use crate::codec::input::Sent;
use crate::codec::view::View;
use crate::pipeline::authorize::Caller;
use crate::read::{Listing, collect};
use crate::registry::encoding::encoded;
use crate::registry::publish::{self, absent};
use crate::registry::resource::Resource;
use crate::registry::versions;
use crate::registry::{Address, Registry};
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use crate::write::admission::webhooks::{self, Attributes};
use crate::write::admission::{credential_revocation, node_restriction};
use insula_cache::Stored;
use insula_cache::bootstrap_objects::NAMESPACES;
use insula_cache::expiry;
use insula_kinds::core_kind;
use mark::{Mark, mark};

/// How many objects of a collection are deleted concurrently: a store that waits for its disk
/// commits many for the price of one.
const MAX_CONCURRENT_DELETES: usize = 16;

/// The result of a delete.
#[derive(Debug)]
pub struct Deleted {
    /// The object before it was removed, or with its deletion timestamp. A pod has that always.
    pub object: Arc<Stored>,
    /// Whether the object is removed.
    pub gone: bool,
    /// Whether the response is 202 Accepted.
    pub accepted: bool,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

/// The result of deleting a collection.
#[derive(Debug)]
pub struct DeletedCollection {
    /// The objects before they were deleted.
    pub listing: Listing,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

/// An object to delete if it is unchanged.
#[derive(Clone, Debug)]
pub struct PendingDelete {
    /// The address of the object.
    pub address: Address,
    /// The object at the expected revision.
    pub object: Arc<Stored>,
    /// The propagation to its dependents.
    pub policy: Policy,
}

impl Deleted {
    /// Returns the result for an object that is marked for deletion.
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
    caller: Caller<'_>,
    query: &Query,
    sent: &Sent,
) -> Result<Deleted> {
    let options = DeleteOptions::read(query, sent)?;
    let path = caller.path();
    let kind = path.of();
    let address = caller.address()?;
    let warning = publish::deletion_warning(registry, &address).await?;
    let attributes = Attributes::new(registry, caller, Operation::Delete, &path.kind, &address);
    let deleted = remove_admitted(registry, kind, &address, &options, Some(attributes)).await?;
    let gone = || absent(registry, kind, &address, publish::Act::Delete);
    let mut deleted = deleted.ok_or_else(gone)?;
    deleted.accepted = !deleted.gone && options.asks_for_cascade;
    deleted.warnings.extend(options.warning(kind));
    deleted.warnings.extend(warning);
    Ok(deleted)
}

/// Deletes the objects that path and selectors match, and returns them.
pub async fn delete_collection(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    sent: &Sent,
    view: &View,
) -> Result<DeletedCollection> {
    let options = DeleteOptions::read(query, sent)?;
    let mut listing = collect(registry, caller, query, view).await?;
    let kind = &caller.path().kind;
    let stored = kind.storage();
    let space = caller.space()?;
    // Built-in objects and definitions published by the system are not part of the collection.
    listing
        .objects
        .retain(|object| !registry.built_in().has_key(&stored, &object.key));
    if publish::concerns(&stored, space) {
        let own = |object: &Arc<Stored>| publish::is_own(registry, space, object);
        listing.objects.retain(own);
    }
    // Convert the response first: an object that cannot be converted is not deleted.
    let context = Some(caller.context);
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
        .try_for_each_concurrent(MAX_CONCURRENT_DELETES, |address| async move {
            let mut attributes =
                Attributes::new(registry, caller, Operation::Delete, kind, &address);
            attributes.name = "";
            let removed =
                remove_admitted(registry, kind, &address, options, Some(attributes)).await;
            removed.map(drop)
        })
        .await?;
    Ok(DeletedCollection {
        listing,
        warnings: options.warning(kind).into_iter().collect(),
    })
}

/// Deletes objects in one transaction. Returns `None`, and deletes none, if one has changed. The
/// objects must fit into one transaction.
pub async fn remove_atomically(
    registry: &Registry,
    pending: &[PendingDelete],
) -> Result<Option<Revision>> {
    let mut transaction = Transaction::new();
    for PendingDelete {
        address,
        object,
        policy,
    } in pending
    {
        check_deletable(registry, address.of(), address).await?;
        let key = registry.key(address);
        if *policy == Policy::Background && can_remove_now(address, object) {
            let at = Expect::At(object.revision);
            transaction = transaction.delete(key.clone()).check(key, at);
            continue;
        }
        let mut tree = object.tree();
        let options = DeleteOptions::default().propagating(*policy);
        transaction = match mark(address, &mut tree, &options) {
            Mark::Unchanged => continue,
            Mark::Remove => transaction.delete(key.clone()),
            Mark::Changed => transaction.put(key.clone(), encode_unversioned(address, &mut tree)),
        }
        .check(key, Expect::At(object.revision));
    }
    if transaction.changes().is_empty() {
        return Ok(Some(registry.cache().applied()));
    }
    Ok(match registry.commit(transaction.releasing()).await? {
        Outcome::Committed(revision) | Outcome::Unchanged(revision) => Some(revision),
        Outcome::Conflict(_) => None,
    })
}

/// Whether an object can be removed at once, as far as its encoding shows without decoding.
fn can_remove_now(address: &Address, object: &Stored) -> bool {
    waits_only_for_finalizers(&address.kind)
        && memmem::find(&object.body(), br#""finalizers":["#).is_none()
}

/// Whether only finalizers delay the deletion of objects of a kind.
pub fn waits_only_for_finalizers(kind: &Resource) -> bool {
    let special = ["pods", "namespaces", "tenants"];
    !kind.is(insula_cache::definitions()) && !special.iter().any(|name| kind.is(core_kind(name)))
}

/// Deletes an object, or marks it for deletion. Returns `None` if it does not exist.
pub async fn remove(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
) -> Result<Option<Deleted>> {
    remove_admitted(registry, kind, address, options, None).await
}

/// Deletes an object as [`remove`] does, after webhooks and policies admitted a caller's request.
pub async fn remove_admitted(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    attributes: Option<Attributes<'_>>,
) -> Result<Option<Deleted>> {
    let attributes = attributes.map(|attributes| Attributes {
        dry_run: options.dry_run,
        options: Some(&options.object),
        ..attributes
    });
    check_deletable(registry, kind, address).await?;
    if registry.built_in().is_restored(address)
        && let Some(replaced) =
            restore::replace(registry, kind, address, options, attributes.as_ref()).await?
    {
        return Ok(Some(replaced));
    }
    // The cache is nearly always current, so the first attempt uses it. A result without a commit
    // may be an artefact of a stale cache: only a fresh read confirms it.
    let mut is_fresh = options.dry_run;
    let mut current = match is_fresh {
        true => registry.fresh(address).await?,
        false => registry.cached(address),
    };
    loop {
        // A built-in object that was never changed is not in the store.
        let Some(object) = current.filter(|object| !object.built_in) else {
            if is_fresh {
                return Ok(None);
            }
            is_fresh = true;
            current = registry.fresh(address).await?;
            continue;
        };
        if let Some(attributes) = &attributes {
            credential_revocation::check_delete(attributes.caller, address, &object)?;
            node_restriction::check_delete(attributes.caller, address, &object)?;
        }
        match try_delete(
            registry,
            kind,
            address,
            options,
            attributes.as_ref(),
            &object,
        )
        .await
        {
            Ok(Attempt::Done(deleted)) => return Ok(Some(deleted)),
            Ok(Attempt::Unchanged(deleted)) if is_fresh => return Ok(Some(deleted)),
            Ok(Attempt::Conflict(at)) => {
                registry.cache().await_applied(at).await;
                current = registry.cached(address);
            }
            Err(error) if is_fresh => return Err(error),
            undone => {
                is_fresh = true;
                current = registry.fresh(address).await?;
                let now = current.as_ref().map(|current| current.revision);
                // Webhooks are not called again for an unchanged object.
                if now == Some(object.revision)
                    && !matches!(undone, Ok(Attempt::Done(_) | Attempt::Conflict(_)))
                {
                    return undone.map(Attempt::deleted);
                }
            }
        }
    }
}

enum Attempt {
    Done(Deleted),
    /// The object was marked before, provided it was read fresh.
    Unchanged(Deleted),
    /// Another write changed the object at this revision.
    Conflict(Revision),
}

impl Attempt {
    fn deleted(self) -> Option<Deleted> {
        match self {
            Self::Done(deleted) | Self::Unchanged(deleted) => Some(deleted),
            Self::Conflict(_) => None,
        }
    }
}

async fn try_delete(
    registry: &Registry,
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    attributes: Option<&Attributes<'_>>,
    current: &Arc<Stored>,
) -> Result<Attempt> {
    check_preconditions(kind, address, options, current)?;
    let attributes = attributes.filter(|attributes| attributes.has_configurations());
    if attributes.is_none() && is_removed_at_once(address, options, current) {
        let shown = Arc::clone(current);
        return commit_removal(registry, address, options, current, shown).await;
    }
    if let Some(attributes) = attributes {
        admit(registry, attributes, current).await?;
    }
    let mut object = current.tree();
    match mark(address, &mut object, options) {
        Mark::Remove => {
            let shown = match address.kind.is(core_kind("pods")) {
                true => {
                    let value = encode_unversioned(address, &mut object);
                    let key = Arc::clone(&current.key);
                    Arc::new(Stored::new(key, current.revision, &value))
                }
                false => Arc::clone(current),
            };
            commit_removal(registry, address, options, current, shown).await
        }
        Mark::Unchanged => Ok(Attempt::Unchanged(Deleted::marked(Arc::clone(current)))),
        Mark::Changed => {
            let key = registry.key(address);
            let value = encode_unversioned(address, &mut object);
            let marked = |revision| {
                let object = Stored::new(Arc::clone(&current.key), revision, &value);
                Attempt::Done(Deleted::marked(Arc::new(object)))
            };
            if options.dry_run {
                return Ok(marked(current.revision));
            }
            let stored = expiry::stored(&address.kind, value.clone());
            // The mark makes the object larger; a full store must take it all the same.
            let transaction = Transaction::update(key, current.revision, stored).releasing();
            Ok(match registry.commit(transaction).await? {
                Outcome::Committed(revision) | Outcome::Unchanged(revision) => marked(revision),
                Outcome::Conflict(conflict) => Attempt::Conflict(conflict.revision),
            })
        }
    }
}

/// Asks the webhooks and policies about the deletion of an object.
async fn admit(
    registry: &Registry,
    attributes: &Attributes<'_>,
    current: &Arc<Stored>,
) -> Result<()> {
    let old = match attributes.kind.custom() {
        None => current.tree(),
        Some(_) => {
            let (caller, kind) = (Some(attributes.caller), attributes.kind);
            strategy::convert_from_storage(registry, caller, kind, current).await?
        }
    };
    webhooks::mutate(attributes, None, Some(&old)).await?;
    webhooks::validate(attributes, None, Some(&old)).await
}

/// Whether an object is removed without being marked, as far as that shows without decoding it.
fn is_removed_at_once(address: &Address, options: &DeleteOptions, current: &Stored) -> bool {
    let is_background = match (address.of().default_propagation, options.policy) {
        (Propagation::Unsupported, _) | (_, Some(Policy::Background)) => true,
        (Propagation::Orphan, None) => false,
        (_, policy) => policy.is_none(),
    };
    is_background && can_remove_now(address, current)
}

async fn commit_removal(
    registry: &Registry,
    address: &Address,
    options: &DeleteOptions,
    current: &Stored,
    shown: Arc<Stored>,
) -> Result<Attempt> {
    let gone = Deleted {
        gone: true,
        ..Deleted::marked(shown)
    };
    if options.dry_run {
        return Ok(Attempt::Done(gone));
    }
    let transaction = Transaction::remove(registry.key(address), current.revision);
    Ok(match registry.commit(transaction).await? {
        Outcome::Committed(_) | Outcome::Unchanged(_) => Attempt::Done(gone),
        Outcome::Conflict(conflict) => Attempt::Conflict(conflict.revision),
    })
}

/// Encodes the object for the store, without its resource version.
fn encode_unversioned(address: &Address, object: &mut Object) -> Bytes {
    metadata::of(object).remove("resourceVersion");
    encoded(address.of(), object)
}

fn check_preconditions(
    kind: &Kind,
    address: &Address,
    options: &DeleteOptions,
    current: &Stored,
) -> Result<()> {
    let is = current.uid().unwrap_or("");
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

/// Rejects the deletion of objects that every space needs, unless the space is terminating.
async fn check_deletable(registry: &Registry, kind: &Kind, address: &Address) -> Result<()> {
    let namespace =
        address.kind.is(core_kind("namespaces")) && NAMESPACES.contains(&address.name.as_str());
    let built_in = registry.built_in();
    let built_in = built_in.has(address) && !built_in.is_restored(address);
    if (namespace || built_in) && !is_terminating_space(registry, &address.space).await? {
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

/// Whether the tenant of the space is terminating or deleted.
async fn is_terminating_space(registry: &Registry, space: &Space) -> Result<bool> {
    let Space::Tenant(tenant) = space else {
        return Ok(false);
    };
    registry.catch_up().await?;
    let tenant = registry.tenant(tenant.as_str());
    Ok(tenant.is_none_or(|tenant| tenant.terminating))
}
