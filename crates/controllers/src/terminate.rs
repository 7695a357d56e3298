//! Removes the content of a namespace, a tenant or a definition that is being deleted.
//!
//! No object is created meanwhile: a create checks in its transaction that its namespace and its
//! tenant are not being deleted. So once the cache shows the deletion mark, it shows every object
//! that has to be removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::registry::resource::Resource;
use insula_apiserver::status::Result;
use insula_apiserver::write::{DeleteOptions, Modified, Modify, Policy, modify, remove};
use insula_cache::Stored;
use insula_core::{Revision, Space};
use insula_kinds::finalizer::{FOREGROUND, ORPHAN};
use insula_kinds::{Kind, KindId, Object, Value, kinds};
use insula_store::{Conflict, Expect, Outcome, Transaction};
use memchr::memmem;
use serde_json::json;

use crate::protection;

/// The objects to remove.
#[derive(Clone, Copy)]
pub struct DeletionScope<'a> {
    /// The registry of the server.
    pub registry: &'a Registry,
    /// Their space.
    pub space: &'a Space,
    /// Their namespace; `None` for the whole space.
    pub namespace: Option<&'a str>,
}

/// The objects that remain, and the finalizers they wait for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// The number of objects per `resource.group`.
    pub resources: BTreeMap<String, usize>,
    /// The number of objects per finalizer, and one of them as an example.
    pub finalizers: BTreeMap<String, (usize, String)>,
}

/// An object to be removed.
#[derive(Clone)]
struct Target {
    kind: Resource,
    object: Arc<Stored>,
}

/// The number of objects removed per transaction; below the limit of every store.
const DELETE_BATCH: usize = 100;

/// The number of concurrent transactions for one namespace or tenant.
const MAX_CONCURRENT_WRITES: usize = 8;

/// The number of passes over objects that other writers change at the same time.
const MAX_PASSES: usize = 32;

/// The kinds with stored objects.
pub fn stored_kinds() -> impl Iterator<Item = (KindId, &'static Kind)> {
    let all = kinds().iter();
    all.filter(|(id, kind)| kind.storage() == *id && kind.supports("get"))
}

/// The kinds of which the space may have stored objects: built-in and custom.
pub fn kinds_in(registry: &Registry, space: &Space) -> impl Iterator<Item = Resource> {
    let apis = registry.apis(space);
    let offers = apis.map(|apis| apis.offers().to_vec()).unwrap_or_default();
    let customs = offers.into_iter().map(|offer| offer.storage());
    let table = stored_kinds().map(|(id, _)| id.into());
    table.chain(customs)
}

impl DeletionScope<'_> {
    /// Removes the objects of these kinds that have no finalizers and marks the others as being
    /// deleted. Returns the remaining ones.
    pub async fn empty(&self, of: &[Resource]) -> Result<Remaining> {
        let mut remaining = Remaining::default();
        for _ in 0..MAX_PASSES {
            remaining = Remaining::default();
            let (mut removable, mut unmarked) = (Vec::new(), Vec::new());
            for target in of.iter().flat_map(|kind| self.find(kind)) {
                let blocking_finalizers = blocking_finalizers(&target);
                if blocking_finalizers.is_empty() {
                    removable.push(target);
                    continue;
                }
                remaining.count(&target, &blocking_finalizers);
                if !target.object.is_terminating() {
                    unmarked.push(target);
                }
            }
            if removable.is_empty() && unmarked.is_empty() {
                return Ok(remaining);
            }
            let removed = self.remove_all(&removable).await?;
            let marked = self.mark_all(&unmarked).await?;
            self.registry
                .cache()
                .await_applied(removed.max(marked))
                .await;
        }
        Ok(remaining)
    }

    fn find(&self, kind: &Resource) -> impl Iterator<Item = Target> + use<> {
        let kind = kind.clone();
        let collection = self.registry.cache().find(&kind, self.space);
        let prefix = self.namespace.map(|name| format!("{name}/"));
        let prefix = prefix.unwrap_or_default();
        let found = collection.map(|of| of.snapshot(&prefix, None).objects);
        let found = found.unwrap_or_default().into_iter();
        found.map(move |object| Target {
            kind: kind.clone(),
            object,
        })
    }

    async fn remove_all(&self, targets: &[Target]) -> Result<Revision> {
        let batches = targets
            .chunks(DELETE_BATCH)
            .map(|batch| self.remove_batch(batch));
        max_revision(batches.collect()).await
    }

    async fn remove_batch(&self, batch: &[Target]) -> Result<Revision> {
        let mut transaction = Transaction::new();
        for target in batch {
            let key = self.registry.key(&self.address(target));
            transaction = transaction
                .check(key.clone(), Expect::At(target.object.revision))
                .delete(key);
        }
        match self.registry.commit(transaction).await? {
            Outcome::Committed(revision) | Outcome::Unchanged(revision) => Ok(revision),
            // Another writer changed one of them: remove them one by one.
            Outcome::Conflict(_) => {
                let mut latest = Revision::ZERO;
                for target in batch {
                    latest = latest.max(self.remove_one(target).await?);
                }
                Ok(latest)
            }
        }
    }

    /// Removes the current version of the object. If it has got a finalizer since, the next pass
    /// handles it.
    async fn remove_one(&self, target: &Target) -> Result<Revision> {
        let key = self.registry.key(&self.address(target));
        let mut target = target.clone();
        loop {
            let transaction = Transaction::remove(key.clone(), target.object.revision);
            let Conflict {
                found, revision, ..
            } = match self.registry.commit(transaction).await? {
                Outcome::Committed(revision) | Outcome::Unchanged(revision) => return Ok(revision),
                Outcome::Conflict(conflict) => conflict,
            };
            let Some(found) = found else {
                return Ok(revision);
            };
            let key = Arc::clone(&target.object.key);
            let now = Arc::new(Stored::new(key, found.modified, &found.value));
            let same = uid(&now.tree()) == uid(&target.object.tree());
            target.object = now;
            if !same || !blocking_finalizers(&target).is_empty() {
                return Ok(revision);
            }
        }
    }

    async fn mark_all(&self, targets: &[Target]) -> Result<Revision> {
        let marks = targets.iter().map(|target| self.mark(target));
        max_revision(marks.collect()).await
    }

    async fn mark(&self, target: &Target) -> Result<Revision> {
        let options = DeleteOptions::exactly(&target.object).propagating(Policy::Background);
        match remove(self.registry, &target.kind, &self.address(target), &options).await {
            Ok(Some(deleted)) if !deleted.gone => Ok(deleted.object.revision),
            // Gone, or changed by another writer: the next pass will tell.
            Ok(_) => self.registry.catch_up().await,
            Err(refusal) if refusal.reason() == "Conflict" => self.registry.catch_up().await,
            Err(refusal) => Err(refusal),
        }
    }

    fn address(&self, target: &Target) -> Address {
        Address {
            kind: target.kind.clone(),
            space: self.space.clone(),
            namespace: target.object.namespace().map(str::to_owned),
            name: target.object.name().to_owned(),
        }
    }
}

impl Remaining {
    /// Whether no object remains.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn count(&mut self, target: &Target, blocking_finalizers: &[String]) {
        let kind = &target.kind;
        let resource = format!("{}.{}", kind.resource, kind.group);
        *self.resources.entry(resource).or_default() += 1;
        for finalizer in blocking_finalizers {
            let example = || format!("{} {}", kind.qualified_resource(), target.object.key);
            let entry = self.finalizers.entry(finalizer.clone());
            entry.or_insert_with(|| (0, example())).0 += 1;
        }
    }
}

/// Awaits all writes, some concurrently, and returns the latest revision.
async fn max_revision(writes: Vec<impl Future<Output = Result<Revision>>>) -> Result<Revision> {
    let writes = stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES);
    let max = |latest: Revision, one| async move { Ok(latest.max(one)) };
    writes.try_fold(Revision::ZERO, max).await
}

/// The finalizers that an object waits for. Those of the control plane itself are not among them:
/// pods are removed before volumes, and content before namespaces. Nor does an object wait for its
/// dependents, which are removed in the same way.
fn blocking_finalizers(target: &Target) -> Vec<String> {
    if memmem::find(&target.object.body(), br#""finalizers":["#).is_none() {
        return Vec::new();
    }
    let tree = target.object.tree();
    let kind = &target.kind;
    let is_namespace = kind.group.is_empty() && kind.kind == "Namespace";
    let is_own = |name: &str| protection::is_own(name) || matches!(name, FOREGROUND | ORPHAN);
    let own = finalizers(&tree, "metadata").filter(|name| !is_own(name));
    let spec = finalizers(&tree, "spec").filter(|name| is_namespace && *name != "kubernetes");
    own.chain(spec).map(str::to_owned).collect()
}

/// The finalizers in a part of an object.
pub fn finalizers<'a>(object: &'a Object, part: &str) -> impl Iterator<Item = &'a str> {
    let list = object.get(part).and_then(|part| part.get("finalizers"));
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str)
}

/// The UID of an object.
pub fn uid(object: &Object) -> Option<&str> {
    object.get("metadata")?.get("uid")?.as_str()
}

/// Removes a finalizer from the spec of an object that is being deleted and empty; the object is
/// removed with its last finalizer.
pub async fn finalize(registry: &Registry, address: &Address, of: &str, name: &str) -> Result<()> {
    let request = Modify::by_server(address, Some("finalize"));
    let update = |object: &Object| {
        let mut object = object.clone();
        if uid(&object) == Some(of) {
            let rest = finalizers(&object, "spec").filter(|other| *other != name);
            let rest: Vec<String> = rest.map(str::to_owned).collect();
            let spec = object.entry("spec").or_insert_with(|| json!({}));
            spec["finalizers"] = json!(rest);
        }
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    modify(registry, request, update).await.map(drop)
}
