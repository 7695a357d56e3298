//! Carries out decisions on exactly the evaluated versions of objects.

use futures_util::stream::{self, StreamExt};
use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::status::{Result, StatusError};
use insula_apiserver::write::{
    DeleteOptions, Modified, Modify, PendingDelete, Policy, modify, remove, remove_together,
};
use insula_cache::Keyed;
use insula_cache::{Node, Stored};
use insula_core::Space;
use insula_kinds::finalizer::{FOREGROUND, ORPHAN};
use insula_kinds::{Object, Value};

use super::judge::Seen;
use super::{BATCH, Left};
use crate::terminate::{finalizers, uid};

/// The deletions and edits planned for objects of one space.
pub struct Act<'a> {
    registry: &'a Registry,
    space: &'a Space,
    doomed: Vec<Fated>,
    edits: Vec<(Node, Edit)>,
}

/// A planned deletion.
struct Fated {
    node: Node,
    doomed: Doomed,
    /// The propagation policy if the deletions cannot be made together.
    alone: Policy,
    /// Whether it depends on another planned deletion.
    follows: bool,
}

/// A change to an object.
#[derive(Debug)]
pub enum Edit {
    /// Removes these owners from its references.
    Strip(Seen, Vec<Box<str>>),
    /// Clears `blockOwnerDeletion` of these owners.
    Unblock(Seen, Vec<Box<str>>),
    /// Removes its `foregroundDeletion` finalizer.
    Release(Seen),
    /// Removes it from its dependents' references, and then its `orphan` finalizer.
    Orphan(Seen),
}

/// The result of an action.
enum Fate {
    Done,
    /// The object was not the evaluated version any more.
    Again,
    Later,
    Refused,
}

/// The number of objects written concurrently where one transaction is not possible: a store that
/// waits for its disk commits many for the price of one.
const AT_ONCE: usize = 16;

impl<'a> Act<'a> {
    /// An empty plan.
    pub const fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            doomed: Vec::new(),
            edits: Vec::new(),
        }
    }

    /// Adds a deletion. With `follows` it is made only together with those it depends on.
    pub fn doom(&mut self, node: Node, doomed: Doomed, follows: bool) {
        self.doomed.push(Fated {
            node,
            alone: doomed.policy,
            doomed,
            follows,
        });
    }

    /// Adds an edit.
    pub fn edit(&mut self, node: Node, edit: Edit) {
        self.edits.push((node, edit));
    }

    /// The number of deletions.
    pub const fn doomed(&self) -> usize {
        self.doomed.len()
    }

    /// Deletes an object at once that was to wait for its dependents: all of them are deleted with
    /// it.
    pub fn hasten(&mut self, node: &Node) {
        let mut all = self.doomed.iter_mut();
        if let Some(found) = all.find(|fated| fated.node == *node) {
            found.doomed.policy = Policy::Background;
        }
    }

    /// The planned deletion of the object, if it waits for its dependents.
    pub fn to_wait(&self, node: &Node) -> Option<&Doomed> {
        let mut all = self.doomed.iter().filter(|fated| fated.node == *node);
        let found = all.next().map(|fated| &fated.doomed);
        found.filter(|doomed| doomed.policy == Policy::Foreground)
    }

    /// Carries out everything.
    pub async fn carry_out(mut self) -> Left {
        let mut left = Left::default();
        let doomed = std::mem::take(&mut self.doomed);
        self.remove(doomed, &mut left).await;
        let edits = std::mem::take(&mut self.edits);
        let this = &self;
        let edits = stream::iter(edits).map(|(node, edit)| async move {
            let fate = fate(this.space, this.change(&edit).await);
            match (fate, edit) {
                // A dependent still names it, and perhaps cannot be written.
                (Fate::Again, Edit::Orphan(_)) => (node, Fate::Later),
                (fate, _) => (node, fate),
            }
        });
        let mut edits = edits.buffer_unordered(AT_ONCE);
        while let Some((node, fate)) = edits.next().await {
            left.note(node, fate);
        }
        left
    }

    /// Removes or marks objects, in one transaction unless one of them changed meanwhile.
    async fn remove(&self, all: Vec<Fated>, left: &mut Left) {
        if all.is_empty() {
            return;
        }
        let together: Vec<PendingDelete> = all.iter().map(|fated| fated.doomed.clone()).collect();
        if let Ok(Some(_)) = remove_together(self.registry, &together).await {
            return;
        }
        // One of them changed or may not be deleted: delete them one by one, without those that
        // depend on another.
        let alone = all.into_iter().filter(|fated| !fated.follows);
        let removals = stream::iter(alone).map(|fated| async move {
            let removed = self.remove_one(&fated).await;
            (fated.node, fate(self.space, removed))
        });
        let mut removals = removals.buffer_unordered(AT_ONCE);
        while let Some((node, fate)) = removals.next().await {
            left.note(node, fate);
        }
    }

    async fn remove_one(&self, fated: &Fated) -> Result<bool> {
        let doomed = &fated.doomed;
        let options = DeleteOptions::exactly(&doomed.object).propagating(fated.alone);
        let address = &doomed.address;
        match remove(self.registry, address.of(), address, &options).await {
            Ok(_) => Ok(true),
            Err(refusal) if refusal.reason() == "Conflict" => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    /// Returns whether the object was the evaluated version.
    async fn change(&self, edit: &Edit) -> Result<bool> {
        match edit {
            Edit::Strip(seen, owners) => {
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
                let whose = seen.object.uid().unwrap_or("");
                Ok(self.let_go(whose).await? && self.release(seen, ORPHAN).await?)
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
            put_owners(object, &change);
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
    async fn let_go(&self, owner: &str) -> Result<bool> {
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
                    put_owners(object, |all| all.retain(|one| one["uid"] != owner));
                    true
                })
                .await
            });
            let mut writes = writes.buffer_unordered(AT_ONCE);
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
        let mut agreed = true;
        let make = |current: &Object| {
            let mut object = current.clone();
            agreed = uid(current) != seen.uid() || change(&mut object);
            if !agreed || uid(current) != seen.uid() {
                object = current.clone();
            }
            Ok(Modified {
                object,
                warnings: Vec::new(),
            })
        };
        modify(self.registry, Modify::by_server(address, None), make).await?;
        Ok(agreed)
    }
}

impl Left {
    fn note(&mut self, node: Node, fate: Fate) {
        match fate {
            Fate::Done => {}
            Fate::Again => self.again.push(node),
            Fate::Later => self.later.push(node),
            Fate::Refused => self.much_later.push(node),
        }
    }
}

fn fate(space: &Space, done: Result<bool>) -> Fate {
    let is_final = |refusal: &StatusError| matches!(refusal.reason(), "" | "Invalid" | "Forbidden");
    match done {
        Ok(true) => Fate::Done,
        Ok(false) => Fate::Again,
        Err(refusal) if is_final(&refusal) => {
            tracing::info!(%space, %refusal, "garbage deletion refused");
            Fate::Refused
        }
        Err(refusal) => {
            tracing::warn!(%space, %refusal, "garbage deletion failed");
            Fate::Later
        }
    }
}

fn owners(object: &Object) -> Option<&Value> {
    object.get("metadata")?.get("ownerReferences")
}

fn put_owners(object: &mut Object, change: impl Fn(&mut Vec<Value>)) {
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
