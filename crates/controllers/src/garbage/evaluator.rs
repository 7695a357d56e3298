//! Decides about one object.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use insula_apiserver::Registry;
use insula_apiserver::registry::{Address, namespace_address};
use insula_apiserver::write::{PendingDelete, Policy};
use insula_cache::Keyed;
use insula_cache::{Hold, Node, OwnerRefs, Reference, Stored};
use insula_core::Space;

use super::cycles::Cycles;
use super::owners::Owners;

/// Evaluates objects of one space at one state of the cache.
pub struct Evaluator<'a> {
    registry: &'a Registry,
    space: &'a Space,
    owners: Owners<'a>,
    /// Whether a namespace is being emptied by its own controller.
    being_emptied: HashMap<String, bool>,
    assumed: Assumed,
    cycles: Cycles,
}

/// The state after the actions that are already planned.
#[derive(Debug, Default)]
struct Assumed {
    gone: HashSet<Node>,
    gone_uids: HashSet<Box<str>>,
    waiting_uids: HashSet<Box<str>>,
}

/// What to do about an object.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Nothing.
    Leave,
    /// Nothing until the space serves more kinds: one owner's kind is unknown.
    Park,
    /// Nothing: a cluster-scoped object cannot have a namespaced owner.
    Misplaced(Seen),
    /// Delete it.
    Delete(PendingDelete),
    /// Keep it, and remove these owners from its references.
    RemoveOwners(Seen, Vec<Box<str>>),
    /// Clear `blockOwnerDeletion` of these owners, which form a cycle.
    Unblock(Seen, Vec<Box<str>>),
    /// Remove its `foregroundDeletion` finalizer: no dependent blocks it any more.
    Release(Seen),
    /// Remove it from its dependents' references, and then its `orphan` finalizer.
    Orphan(Seen),
}

/// An object as it was evaluated.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its address.
    pub address: Address,
    /// The evaluated version.
    pub object: Arc<Stored>,
}

/// The state of an owner.
enum Owner {
    /// It exists and does not wait for its dependents.
    Solid,
    /// It does not exist.
    Dangling,
    /// It waits for its dependents to be deleted.
    Waiting,
    /// Its kind is not served.
    Unknown,
    /// It is namespaced and the dependent is cluster-scoped.
    Misplaced,
}

impl<'a> Evaluator<'a> {
    /// Evaluates against what the cache shows of the space.
    pub fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            owners: Owners { registry, space },
            being_emptied: HashMap::new(),
            assumed: Assumed::default(),
            cycles: Cycles::default(),
        }
    }

    /// Treats the object as deleted from here on.
    pub fn assume_gone(&mut self, node: Node, uid: &str) {
        self.assumed.gone.insert(node);
        self.assumed.gone_uids.insert(uid.into());
    }

    /// Treats the object as waiting for its dependents from here on.
    pub fn assume_waiting(&mut self, uid: &str) {
        self.assumed.waiting_uids.insert(uid.into());
    }

    /// Whether no dependent blocks the deletion of an object any more.
    pub fn is_released(&self, uid: &str, namespace: Option<&str>) -> bool {
        self.hold(uid, namespace) == Hold::None
    }

    /// The waiting owners that the object blocks.
    pub fn held_by(&self, object: &Stored) -> Vec<Node> {
        let owner_refs = object.owner_refs().unwrap_or_default();
        let blocking = owner_refs.owners.iter().filter(|owner| owner.blocks());
        let found = blocking.filter_map(|owner| {
            let (address, found) = self.owners.find(owner, object.namespace())?;
            let same = found.uid() == Some(&owner.uid);
            let waits = self.assumed.waiting_uids.contains(&owner.uid)
                || found
                    .owner_refs()
                    .is_some_and(|owner_refs| owner_refs.awaits_dependents());
            (same && waits).then(|| Node::new(address.kind.collection_key(), &found))
        });
        found.collect()
    }

    fn hold(&self, uid: &str, namespace: Option<&str>) -> Hold {
        let owner_graph = self.registry.cache().owner_graph();
        owner_graph.hold(self.space, uid, namespace, &self.assumed.gone)
    }

    /// Decides about an object.
    pub fn evaluate(&mut self, node: &Node) -> Decision {
        let found = self.registry.cache().find(node.clone(), self.space);
        let Some(object) = found.and_then(|all| all.get(&node.key)) else {
            return Decision::Leave;
        };
        let Some(owner_refs) = object.owner_refs() else {
            return Decision::Leave;
        };
        let Some(kind) = self.registry.kept(self.space, node.collection_key()) else {
            return Decision::Park;
        };
        let address = self.owners.address(kind, node.namespace(), node.name());
        let seen = Seen { address, object };
        match owner_refs.deleted {
            true => self.evaluate_deleted(seen, &owner_refs),
            false => self.evaluate_dependent(seen, &owner_refs),
        }
    }

    /// An object that is being deleted stays while dependents block it.
    fn evaluate_deleted(&mut self, seen: Seen, owner_refs: &OwnerRefs) -> Decision {
        if owner_refs.orphans_dependents() {
            return Decision::Orphan(seen);
        }
        if !owner_refs.awaits_dependents() {
            return Decision::Leave;
        }
        let namespace = seen.address.namespace.as_deref();
        match self.hold(&owner_refs.uid, namespace) {
            Hold::None => Decision::Release(seen),
            Hold::Plain => Decision::Leave,
            Hold::Waiting => match self.cycles.through(self.owners, owner_refs, namespace) {
                cyclic if cyclic.is_empty() => Decision::Leave,
                cyclic => Decision::Unblock(seen, cyclic),
            },
        }
    }

    fn evaluate_dependent(&mut self, seen: Seen, owner_refs: &OwnerRefs) -> Decision {
        let namespace = seen.address.namespace.clone();
        let (mut solid, mut dangling, mut waiting) = (false, Vec::new(), Vec::new());
        for owner in &owner_refs.owners {
            match self.owner(owner, namespace.as_deref()) {
                Owner::Solid => solid = true,
                Owner::Dangling => dangling.push(owner.uid.clone()),
                Owner::Waiting => waiting.push(owner.uid.clone()),
                Owner::Unknown => return Decision::Park,
                Owner::Misplaced => return Decision::Misplaced(seen),
            }
        }
        let owner_graph = self.registry.cache().owner_graph();
        let policy = match (solid, waiting.is_empty()) {
            (true, true) if dangling.is_empty() => return Decision::Leave,
            // A remaining dependent would block the waiting owners for ever.
            (true, _) => return Decision::RemoveOwners(seen, [dangling, waiting].concat()),
            (false, true) if self.is_being_emptied(namespace.as_deref()) => return Decision::Leave,
            (false, false) if owner_graph.has_dependents(self.space, &owner_refs.uid) => {
                Policy::Foreground
            }
            (false, _) if owner_refs.orphan => Policy::Orphan,
            (false, _) if owner_refs.foreground => Policy::Foreground,
            (false, _) => Policy::Background,
        };
        Decision::Delete(PendingDelete {
            address: seen.address,
            object: seen.object,
            policy,
        })
    }

    fn owner(&self, reference: &Reference, namespace: Option<&str>) -> Owner {
        if self.owners.is_known_deleted(reference, namespace) {
            return Owner::Dangling;
        }
        let Some(kind) = self.owners.kind(reference) else {
            return Owner::Unknown;
        };
        if kind.namespaced() && namespace.is_none() {
            return Owner::Misplaced;
        }
        let found = self.owners.find_of(&kind, reference, namespace);
        let Some((_, object)) = found.filter(|(_, object)| object.uid() == Some(&reference.uid))
        else {
            return Owner::Dangling;
        };
        if self.assumed.gone_uids.contains(&reference.uid) {
            return Owner::Dangling;
        }
        if self.assumed.waiting_uids.contains(&reference.uid) {
            return Owner::Waiting;
        }
        match object
            .owner_refs()
            .is_some_and(|owner_refs| owner_refs.awaits_dependents())
        {
            true => Owner::Waiting,
            false => Owner::Solid,
        }
    }

    /// Whether the namespace or tenant is being deleted: its own controller is faster.
    fn is_being_emptied(&mut self, namespace: Option<&str>) -> bool {
        let name = namespace.unwrap_or("");
        if let Some(known) = self.being_emptied.get(name) {
            return *known;
        }
        let tenant = self.space.tenant().map(|tenant| tenant.as_str());
        let tenant = tenant.and_then(|tenant| self.registry.tenant(tenant));
        let namespace = namespace.map(|name| namespace_address(self.space, name));
        let namespace = namespace.and_then(|address| self.registry.cached(&address));
        let being_emptied = tenant.is_some_and(|tenant| tenant.terminating)
            || namespace.is_some_and(|namespace| namespace.is_terminating());
        self.being_emptied.insert(name.to_owned(), being_emptied);
        being_emptied
    }
}
