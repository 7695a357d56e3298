//! Carries out decisions on exactly the evaluated versions of objects.

use futures_util::stream::{self, StreamExt};
use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::{Result, StatusError};
use insula_apiserver::write::{
    DeleteOptions, Modified, Modify, PendingDelete, Policy, modify, remove, remove_atomically,
};
use insula_cache::Keyed;
use insula_cache::{Node, Stored};
use insula_core::Space;
use insula_kinds::finalizer::{FOREGROUND, ORPHAN};
use insula_kinds::{Object, Value};

use super::evaluator::Seen;
use super::{BATCH, Requeue};
use crate::terminate::{finalizers, uid};

/// The deletions and edits planned for objects of one space.
pub struct Executor<'a> {
    registry: &'a Registry,
    space: &'a Space,
    pending: Vec<Deletion>,
    edits: Vec<(Node, Edit)>,
}

/// A planned deletion.
struct Deletion {
    node: Node,
    pending: PendingDelete,
    /// The propagation policy if the deletions cannot be made together.
    alone: Policy,
    /// Whether it depends on another planned deletion.
    follows: bool,
}

/// A change to an object.
#[derive(Debug)]
pub enum Edit {
    /// Removes these owners from its references.
    RemoveOwners(Seen, Vec<Box<str>>),
    /// Clears `blockOwnerDeletion` of these owners.
    Unblock(Seen, Vec<Box<str>>),
    /// Removes its `foregroundDeletion` finalizer.
    Release(Seen),
    /// Removes it from its dependents' references, and then its `orphan` finalizer.
    Orphan(Seen),
}

/// The result of an action.
enum Disposition {
    Done,
    /// The object was not the evaluated version any more.
    Stale,
    Failed,
    Refused,
}

/// The number of objects written concurrently where one transaction is not possible: a store that
/// waits for its disk commits many for the price of one.
const MAX_CONCURRENT: usize = 16;

impl<'a> Executor<'a> {
    /// An empty plan.
    pub const fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            pending: Vec::new(),
            edits: Vec::new(),
        }
    }

    /// Adds a deletion. With `follows` it is made only together with those it depends on.
    pub fn delete(&mut self, node: Node, pending: PendingDelete, follows: bool) {
        self.pending.push(Deletion {
            node,
            alone: pending.policy,
            pending,
            follows,
        });
    }

    /// Adds an edit.
    pub fn edit(&mut self, node: Node, edit: Edit) {
        self.edits.push((node, edit));
    }

    /// The number of deletions.
    pub const fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Deletes an object at once that was to wait for its dependents: all of them are deleted with
    /// it.
    pub fn delete_at_once(&mut self, node: &Node) {
        let mut all = self.pending.iter_mut();
        if let Some(found) = all.find(|deletion| deletion.node == *node) {
            found.pending.policy = Policy::Background;
        }
    }

    /// The planned deletion of the object, if it waits for its dependents.
    pub fn waiting(&self, node: &Node) -> Option<&PendingDelete> {
        let mut all = self
            .pending
            .iter()
            .filter(|deletion| deletion.node == *node);
        let found = all.next().map(|deletion| &deletion.pending);
        found.filter(|pending| pending.policy == Policy::Foreground)
    }

    /// Carries out everything.
    pub async fn execute(mut self) -> Requeue {
        let mut requeue = Requeue::default();
        let pending = std::mem::take(&mut self.pending);
        self.remove(pending, &mut requeue).await;
        let edits = std::mem::take(&mut self.edits);
        let this = &self;
        let edits = stream::iter(edits).map(|(node, edit)| async move {
            let disposition = disposition(this.space, this.change(&edit).await);
            match (disposition, edit) {
                // A dependent still names it, and perhaps cannot be written.
                (Disposition::Stale, Edit::Orphan(_)) => (node, Disposition::Failed),
                (disposition, _) => (node, disposition),
            }
        });
        let mut edits = edits.buffer_unordered(MAX_CONCURRENT);
        while let Some((node, disposition)) = edits.next().await {
            requeue.note(node, disposition);
        }
        requeue
    }

    /// Removes or marks objects, in one transaction unless one of them changed meanwhile.
    async fn remove(&self, all: Vec<Deletion>, requeue: &mut Requeue) {
        if all.is_empty() {
            return;
        }
        let together: Vec<PendingDelete> = all
            .iter()
            .map(|deletion| deletion.pending.clone())
            .collect();
        if let Ok(Some(_)) = remove_atomically(self.registry, &together).await {
            return;
        }
        // One of them changed or may not be deleted: delete them one by one, without those that
        // depend on another.
        let alone = all.into_iter().filter(|deletion| !deletion.follows);
        let removals = stream::iter(alone).map(|deletion| async move {
            let removed = self.remove_one(&deletion).await;
            (deletion.node, disposition(self.space, removed))
        });
        let mut removals = removals.buffer_unordered(MAX_CONCURRENT);
        while let Some((node, disposition)) = removals.next().await {
            requeue.note(node, disposition);
        }
    }

    async fn remove_one(&self, deletion: &Deletion) -> Result<bool> {
        let pending = &deletion.pending;
        let options = DeleteOptions::exactly(&pending.object).propagating(deletion.alone);
        let address = &pending.address;
        match remove(self.registry, address.of(), address, &options).await {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.reason() == "Conflict" => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    /// Returns whether the object was the evaluated version.
    async fn change(&self, edit: &Edit) -> Result<bool> {
        match edit {
            Edit::RemoveOwners(seen, owners) => {
                self.change_owners(seen, |all| {
                    all.retain(|owner| !names(owner, owners));
                })
                .await
            }
            Edit::Unblock(seen, owners) => {
                self.change_owners(seen, |all| {
                    for owner in all.iter_mut().filter(|owner| names(owner, owners)) {
                        owner["blockOwnerDeletion"] = false.into();
                    }
                })
                .await
            }
            Edit::Release(seen) => self.release(seen, FOREGROUND).await,
            Edit::Orphan(seen) => {
                let owner = seen.object.uid().unwrap_or("");
                Ok(self.orphan_dependents(owner).await? && self.release(seen, ORPHAN).await?)
            }
        }
    }

    /// Changes the owner references, if they are the evaluated ones.
    async fn change_owners(&self, seen: &Seen, change: impl Fn(&mut Vec<Value>)) -> Result<bool> {
        let tree = seen.object.tree();
        let judged = owners(&tree);
        self.write(&seen.address, &seen.object, |object| {
            if owners(object) != judged {
                return false;
            }
            edit_owners(object, &change);
            true
        })
        .await
    }

    /// Removes a finalizer from an object that is being deleted.
    async fn release(&self, seen: &Seen, finalizer: &str) -> Result<bool> {
        self.write(&seen.address, &seen.object, |object| {
            let rest = finalizers(object, "metadata").filter(|name| *name != finalizer);
            let rest: Vec<Value> = rest.map(Value::from).collect();
            if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                metadata.insert("finalizers".to_owned(), rest.into());
            }
            true
        })
        .await
    }

    /// Removes an owner from all of its dependents. Returns whether none names it any more.
    async fn orphan_dependents(&self, owner: &str) -> Result<bool> {
        let owner_graph = self.registry.cache().owner_graph();
        let mut after: Option<Node> = None;
        loop {
            let nodes = owner_graph.dependents(self.space, owner, after.as_ref(), BATCH);
            let Some(last) = nodes.last().cloned() else {
                break;
            };
            after = Some(last);
            let writes = stream::iter(nodes).map(|node| async move {
                let Some((address, object)) = self.find(&node) else {
                    return Ok(true);
                };
                self.write(&address, &object, |object| {
                    edit_owners(object, |all| all.retain(|one| one["uid"] != owner));
                    true
                })
                .await
            });
            let mut writes = writes.buffer_unordered(MAX_CONCURRENT);
            while let Some(written) = writes.next().await {
                written?;
            }
        }
        self.registry.catch_up().await?;
        Ok(!owner_graph.has_dependents(self.space, owner))
    }

    fn find(&self, node: &Node) -> Option<(Address, std::sync::Arc<Stored>)> {
        let kind = self.registry.kept(self.space, node.collection_key())?;
        let address = Address {
            kind,
            space: self.space.clone(),
            namespace: node.namespace().map(str::to_owned),
            name: node.name().to_owned(),
        };
        let object = self.registry.cached(&address)?;
        Some((address, object))
    }

    /// Writes the result of `change` if the object still has the same UID. Returns whether `change`
    /// applied.
    async fn write(
        &self,
        address: &Address,
        seen: &Stored,
        change: impl Fn(&mut Object) -> bool,
    ) -> Result<bool> {
        let mut applied = true;
        let update = |current: &Object| {
            let mut object = current.clone();
            applied = uid(current) != seen.uid() || change(&mut object);
            if !applied || uid(current) != seen.uid() {
                object = current.clone();
            }
            Ok(Modified {
                object,
                warnings: Vec::new(),
            })
        };
        modify(self.registry, Modify::by_server(address, None), update).await?;
        Ok(applied)
    }
}

impl Requeue {
    fn note(&mut self, node: Node, disposition: Disposition) {
        match disposition {
            Disposition::Done => {}
            Disposition::Stale => self.now.push(node),
            Disposition::Failed => self.after_delay.push(node),
            Disposition::Refused => self.after_refusal.push(node),
        }
    }
}

fn disposition(space: &Space, done: Result<bool>) -> Disposition {
    let is_final = |refusal: &StatusError| matches!(refusal.reason(), "" | "Invalid" | "Forbidden");
    match done {
        Ok(true) => Disposition::Done,
        Ok(false) => Disposition::Stale,
        Err(refusal) if is_final(&refusal) => {
            tracing::info!(%space, %refusal, "garbage deletion refused");
            Disposition::Refused
        }
        Err(refusal) => {
            tracing::warn!(%space, %refusal, "garbage deletion failed");
            Disposition::Failed
        }
    }
}

fn owners(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get("ownerReferences")
}

fn edit_owners(object: &mut Object, change: impl Fn(&mut Vec<Value>)) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
        return;
    };
    if let Some(Value::Array(all)) = metadata.get_mut("ownerReferences") {
        change(all);
        if all.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

fn names(owner: &Value, uids: &[Box<str>]) -> bool {
    uids.iter().any(|uid| owner["uid"] == **uid)
}
