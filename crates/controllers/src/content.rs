//! Removing everything below something.

use std::collections::BTreeMap;

use insula_apiserver::Registry;
use insula_apiserver::cache::Stored;
use insula_apiserver::registry::Address;
use insula_apiserver::status::Refusal;
use insula_apiserver::write::{self, DeleteOptions};
use insula_core::Space;
use insula_kinds::{Kind, KindId, Value, kinds};
use insula_store::{Expect, Outcome, Transaction};

/// What could not be removed yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// How many objects, by resource.
    pub objects: BTreeMap<String, usize>,
    /// How many objects have a finalizer, by finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    /// Whether everything is gone.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    fn count(&mut self, kind: &Kind, object: &Stored) {
        *self.objects.entry(kind.qualified_resource()).or_default() += 1;
        for finalizer in finalizers(object) {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
    }
}

/// How many objects go in one transaction: well below the store's limit.
const BATCH: usize = 100;

/// Removes the objects of these kinds, in one namespace or in the whole space; what has
/// finalizers is marked and counted.
pub async fn remove(
    registry: &Registry,
    space: &Space,
    namespace: Option<&str>,
    of: impl Fn(&Kind) -> bool,
) -> Result<Remaining, Refusal> {
    let mut remaining = Remaining::default();
    for kind in stored().filter(|kind| of(kinds().get(*kind))) {
        remove_kind(registry, kind, space, namespace, &mut remaining).await?;
    }
    Ok(remaining)
}

/// The kinds that have objects of their own.
fn stored() -> impl Iterator<Item = KindId> {
    let all = kinds().iter();
    all.filter(|(id, kind)| kind.storage() == *id && kind.can("get"))
        .map(|(id, _)| id)
}

async fn remove_kind(
    registry: &Registry,
    kind: KindId,
    space: &Space,
    namespace: Option<&str>,
    remaining: &mut Remaining,
) -> Result<(), Refusal> {
    let prefix = namespace.map(|name| format!("{name}/")).unwrap_or_default();
    let Some(collection) = registry.cache().find(kind, space) else {
        return Ok(());
    };
    let objects = collection.snapshot(&prefix, None).objects;
    let (held, free): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| is_held(object));
    for batch in free.chunks(BATCH) {
        let mut transaction = Transaction::new();
        for object in batch {
            let key = registry.key(&address(kind, space, object));
            transaction = transaction
                .check(key.clone(), Expect::At(object.revision))
                .delete(key);
        }
        match registry.commit(transaction).await? {
            Outcome::Committed(revision) | Outcome::Unchanged(revision) => {
                registry.cache().reach(revision).await;
            }
            // Somebody changed one of them: take them one by one, each as it is now.
            Outcome::Conflict(_) => {
                for object in batch {
                    remove_one(registry, kind, space, object, remaining).await?;
                }
            }
        }
    }
    for object in held {
        remove_one(registry, kind, space, &object, remaining).await?;
    }
    Ok(())
}

async fn remove_one(
    registry: &Registry,
    kind: KindId,
    space: &Space,
    object: &Stored,
    remaining: &mut Remaining,
) -> Result<(), Refusal> {
    let of = kinds().get(kind);
    let address = address(kind, space, object);
    // Nothing runs pods here, so none has to be given time to end.
    let removed = write::remove(registry, of, &address, &DeleteOptions::at_once()).await?;
    if let Some(removed) = removed.filter(|removed| !removed.gone) {
        remaining.count(of, &removed.object);
    }
    Ok(())
}

fn address(kind: KindId, space: &Space, object: &Stored) -> Address {
    Address {
        kind,
        space: space.clone(),
        namespace: object.namespace().map(str::to_owned),
        name: object.name().to_owned(),
    }
}

/// Whether something keeps the object from going at once.
fn is_held(object: &Stored) -> bool {
    const MARK: &[u8] = b"\"finalizers\":[";
    object.body.windows(MARK.len()).any(|window| window == MARK)
}

fn finalizers(object: &Stored) -> Vec<String> {
    let tree = object.tree();
    let list = |part: &str| {
        let list = tree
            .get(part)
            .and_then(|of| of.get("finalizers"))
            .and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let all = [list("metadata"), list("spec")].concat();
    all.iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Removes the namespaces of a space that are empty and that nobody holds by a finalizer of
/// their own.
pub async fn drop_namespaces(registry: &Registry, space: &Space) -> Result<(), Refusal> {
    let kind = insula_apiserver::registry::core_kind("namespaces");
    let Some(collection) = registry.cache().find(kind, space) else {
        return Ok(());
    };
    let objects = collection.snapshot("", None).objects;
    let free: Vec<_> = objects
        .into_iter()
        .filter(|object| {
            let tree = object.tree();
            let own = tree
                .get("metadata")
                .and_then(|of| of.get("finalizers")?.as_array());
            own.is_none_or(Vec::is_empty)
        })
        .collect();
    for batch in free.chunks(BATCH) {
        let mut transaction = Transaction::new();
        for object in batch {
            let key = registry.key(&address(kind, space, object));
            transaction = transaction
                .check(key.clone(), Expect::At(object.revision))
                .delete(key);
        }
        // If one has changed meanwhile, the next step sees it as it is then.
        if let Outcome::Committed(revision) = registry.commit(transaction).await? {
            registry.cache().reach(revision).await;
        }
    }
    Ok(())
}
