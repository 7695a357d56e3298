//! Accepts the names of CustomResourceDefinitions, establishes them, and removes their objects with
//! them.
//!
//! Names are unique per space: among its own definitions and those that the system publishes to it.

mod outline;

use std::sync::Arc;

use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::registry::apis::{self, Offer};
use insula_apiserver::status::Result;
use insula_apiserver::write::{Modified, Modify, modify};
use insula_cache::CollectionKey;
use insula_cache::{Cache, Stored};
use insula_core::{Revision, Space};
use insula_custom::condition::{self, Condition};
use insula_custom::definition::has_valid_ca_bundle;
use insula_custom::names::{Names, accept};
use insula_custom::{approval, set_condition};
use insula_kinds::{Object, Value, time};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::outline::status_only;
use crate::terminate::{DeletionScope, finalizers, uid};

/// Reconciles one definition, and those of its group that waited for its names. Returns whether no
/// work is left.
pub async fn reconcile(registry: &Registry, address: &Address) -> Result<bool> {
    let mut names_changed = true;
    let mut finished = true;
    if let Some(definition) = registry.cached(address) {
        let _turn = await_turn(&definition).await;
        let tree = outline::without_versions(&definition.body());
        if definition.is_terminating() {
            finished = terminate(registry, address, &tree).await?;
        } else {
            let before = Names::accepted(&tree);
            finished = establish(registry, address, &tree).await?;
            names_changed = before != Names::default();
        }
    }
    if names_changed {
        finished &= reconcile_waiting(registry, address, &address.space).await?;
        if address.space.is_system() {
            reconcile_tenants(registry, address).await?;
        }
    }
    Ok(finished)
}

/// The size from which a definition is large. Decoded it takes twenty times as much.
const LARGE_BYTES: usize = 64 << 10;

/// The large definitions that are reconciled at once.
static LARGE_TURNS: Semaphore = Semaphore::const_new(2);

/// Waits until few enough large definitions are in memory.
async fn await_turn(definition: &Stored) -> Option<SemaphorePermit<'static>> {
    if definition.stored_length() < LARGE_BYTES {
        return None;
    }
    // The semaphore is never closed.
    LARGE_TURNS.acquire().await.ok()
}

/// The revision of the last change, in any space, to objects of a definition.
pub fn last_change(cache: &Cache, name: &str) -> Revision {
    let mark = name.split_once('.');
    let mark = mark.map(|(resource, group)| CollectionKey::Custom { group, resource });
    mark.map_or(Revision::ZERO, |mark| cache.last_of_all(mark))
}

/// Reconciles definitions of the same group in a space that waited for names.
async fn reconcile_waiting(registry: &Registry, address: &Address, space: &Space) -> Result<bool> {
    let mut finished = true;
    for other in group_of(registry, address, space) {
        let waits = || has_false_condition(&status_only(&other.body()));
        let same = other.name() == address.name && *space == address.space;
        if !same && waits() && !other.is_terminating() {
            let other_address = apis::definition_address(space, other.name());
            let other = outline::without_versions(&other.body());
            finished &= establish(registry, &other_address, &other).await?;
        }
    }
    Ok(finished)
}

/// Reconciles tenants' definitions that waited for names of a published one. If they wait for
/// anything else, their own items handle it.
async fn reconcile_tenants(registry: &Registry, address: &Address) -> Result<()> {
    for (space, _) in registry.cache().everywhere(insula_cache::definitions()) {
        if !space.is_system() {
            reconcile_waiting(registry, address, &space).await?;
        }
    }
    Ok(())
}

/// Accepts the names, and establishes the definition once it has them.
async fn establish(registry: &Registry, address: &Address, definition: &Object) -> Result<bool> {
    let others = taken_names(registry, address);
    let (own, before) = (Names::requested(definition), Names::accepted(definition));
    let accepted = accept(&own, &before, others.iter());
    let blocked = blocking_condition(registry, address, definition);
    let named = accepted.condition.holds;
    let established = match (named, &blocked) {
        (true, None) => Some(Condition::established()),
        (true, Some(condition)) => Some(condition.clone()),
        (false, _) => condition::establishing(definition, false),
    };
    let established = established.filter(|_| !condition::holds(definition, condition::ESTABLISHED));
    let approved = approval::condition(definition);
    let now = time::now();
    write_status(registry, address, definition, |status| {
        status.insert("acceptedNames".to_owned(), accepted.names.to_value());
        let conditions = [
            Some(&accepted.condition),
            established.as_ref(),
            approved.as_ref(),
        ];
        for condition in conditions.into_iter().flatten() {
            set_condition(status, condition, &now);
        }
    })
    .await?;
    Ok(blocked.is_none())
}

/// Why a definition cannot be established: an invalid CA bundle of its webhook, or, in a tenant,
/// remaining objects of the published definition of the same name.
fn blocking_condition(
    registry: &Registry,
    address: &Address,
    definition: &Object,
) -> Option<Condition> {
    if condition::holds(definition, condition::ESTABLISHED) {
        return None;
    }
    if !has_valid_ca_bundle(definition) {
        return Some(Condition::invalid_ca_bundle());
    }
    if address.space.is_system() {
        return None;
    }
    let systems = registry.cached(&apis::definition_address(&Space::System, &address.name));
    systems.filter(|definition| insula_cache::is_published(definition))?;
    let (resource, group) = address.name.split_once('.')?;
    let mark = CollectionKey::Custom { group, resource };
    let collection = registry.cache().find(mark, &address.space)?;
    let remaining = collection.snapshot("", None).objects.len();
    let message = format!(
        "{remaining} objects of the definition that the system publishes under this name are still in \
         this space; they have to be deleted first"
    );
    (remaining > 0).then(|| {
        Condition::new(
            condition::ESTABLISHED,
            false,
            "InstancesOfPublished",
            &message,
        )
    })
}

/// The definitions of the same group in a space.
fn group_of(registry: &Registry, address: &Address, space: &Space) -> Vec<Arc<Stored>> {
    let Some((_, group)) = address.name.split_once('.') else {
        return Vec::new();
    };
    let all = registry.cache().find(insula_cache::definitions(), space);
    let all = all.map(|all| all.snapshot("", None).objects);
    let mut all = all.unwrap_or_default();
    all.retain(|other| is_in_group(other, group));
    all
}

fn is_in_group(definition: &Stored, group: &str) -> bool {
    let name = definition.name().split_once('.');
    name.is_some_and(|(_, of)| of == group)
}

/// The names taken by other definitions of the group: those of the space, and those that the system
/// publishes to it.
fn taken_names(registry: &Registry, address: &Address) -> Vec<Names> {
    let mut others = group_of(registry, address, &address.space);
    if !address.space.is_system() {
        let group = address.name.split_once('.').map_or("", |(_, group)| group);
        let own = |definition: &Arc<Stored>| others.iter().any(|own| own.key == definition.key);
        let published = apis::published(registry.cache()).into_iter();
        let published = published.filter(|definition| is_in_group(definition, group));
        let published: Vec<_> = published.filter(|definition| !own(definition)).collect();
        others.extend(published);
    }
    let others = others.iter().filter(|other| other.name() != address.name);
    others.map(|other| accepted_names(other)).collect()
}

fn has_false_condition(definition: &Object) -> bool {
    let conditions = definition.get("status").and_then(|of| of.get("conditions"));
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| condition["status"] == "False")
}

/// The accepted names of a definition.
fn accepted_names(definition: &Stored) -> Names {
    Names::accepted(&status_only(&definition.body()))
}

/// Removes the objects and then the finalizer. Returns whether that is done.
async fn terminate(registry: &Registry, address: &Address, definition: &Object) -> Result<bool> {
    if !finalizers(definition, "metadata").any(|name| name == condition::FINALIZER) {
        return Ok(true);
    }
    if condition::holds(definition, condition::ESTABLISHED) {
        if !is_waiting(definition) {
            let begun = Condition::deletion_in_progress();
            write_condition(registry, address, definition, &begun).await?;
        }
        if !remove_objects(registry, address).await? {
            // Every tenant can read a published definition: the message must not name a tenant's
            // objects.
            let waits = Condition::deletion_unconfirmed("some have finalizers and wait for them");
            write_condition(registry, address, definition, &waits).await?;
            return Ok(false);
        }
    }
    let end = match condition::holds(definition, condition::ESTABLISHED) {
        true => Condition::deletion_completed(),
        false => Condition::never_established(),
    };
    write_condition(registry, address, definition, &end).await?;
    remove_finalizer(registry, address, definition).await?;
    Ok(true)
}

/// Removes the objects of a definition in every space that it is served in. Returns whether none is
/// left.
async fn remove_objects(registry: &Registry, address: &Address) -> Result<bool> {
    // Objects created before the deletion mark are visible after this.
    registry.catch_up().await?;
    let Some((resource, group)) = address.name.split_once('.') else {
        return Ok(true);
    };
    let Some(offer) = offer(registry, &address.space, group, resource) else {
        return Ok(true);
    };
    let kind = offer.storage();
    let mut remaining = false;
    for (space, _) in registry.cache().everywhere(&kind) {
        let here = offer_source(registry, &space, group, resource);
        if here.as_ref() != Some(&address.space) {
            continue;
        }
        let scope = DeletionScope {
            registry,
            space: &space,
            namespace: None,
        };
        remaining |= !scope.empty(std::slice::from_ref(&kind)).await?.is_empty();
    }
    Ok(!remaining)
}

fn offer(registry: &Registry, space: &Space, group: &str, resource: &str) -> Option<Offer> {
    let apis = registry.apis(space)?;
    apis.offer(group, resource).cloned()
}

fn offer_source(registry: &Registry, space: &Space, group: &str, resource: &str) -> Option<Space> {
    offer(registry, space, group, resource).map(|offer| offer.source)
}

/// Removes the finalizer of a definition without objects.
async fn remove_finalizer(
    registry: &Registry,
    address: &Address,
    definition: &Object,
) -> Result<()> {
    let of = uid(definition);
    let update = |current: &Object| {
        let mut object = current.clone();
        if uid(current) == of {
            let rest = finalizers(current, "metadata").filter(|name| *name != condition::FINALIZER);
            let rest: Vec<&str> = rest.collect();
            object["metadata"]["finalizers"] = json!(rest);
        }
        Ok(without_warnings(object))
    };
    modify(registry, Modify::by_server(address, None), update)
        .await
        .map(drop)
}

/// Whether the status already says that objects wait for their finalizers.
fn is_waiting(definition: &Object) -> bool {
    let conditions = definition.get("status").and_then(|of| of.get("conditions"));
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let known = Condition::deletion_unconfirmed("");
    conditions.any(|one| one["type"] == known.kind && one["reason"] == known.reason)
}

async fn write_condition(
    registry: &Registry,
    address: &Address,
    definition: &Object,
    condition: &Condition,
) -> Result<()> {
    let now = time::now();
    write_status(registry, address, definition, |status| {
        set_condition(status, condition, &now);
    })
    .await
}

/// Writes the result of `change` to the status, if it differs. If the definition changed meanwhile,
/// its event triggers another attempt.
async fn write_status(
    registry: &Registry,
    address: &Address,
    definition: &Object,
    change: impl Fn(&mut Object),
) -> Result<()> {
    let seen = definition.get("status").and_then(Value::as_object);
    let mut wanted = seen.cloned().unwrap_or_default();
    change(&mut wanted);
    if seen == Some(&wanted) {
        return Ok(());
    }
    let of = uid(definition);
    let update = |current: &Object| {
        let mut object = current.clone();
        if uid(current) == of {
            let status = object.entry("status").or_insert_with(|| json!({}));
            if let Value::Object(status) = status {
                change(status);
            }
        }
        Ok(without_warnings(object))
    };
    let request = Modify::by_server(address, Some("status"));
    modify(registry, request, update).await.map(drop)
}

fn without_warnings(object: Object) -> Modified {
    Modified {
        object,
        warnings: Vec::new(),
    }
}
