//! Decides about a batch of objects, and what follows from it.
//!
//! Deletions in one transaction become visible together, so dependents that lose their last owner
//! and owners that lose their last blocking dependent may be deleted in the same one. A chain of a
//! thousand owners then takes a few transactions instead of a thousand or two.

use std::collections::{HashSet, VecDeque};

use insula_apiserver::Registry;
use insula_apiserver::write::{PendingDelete, Policy, waits_only_for_finalizers};
use insula_cache::Node;
use insula_core::Space;

use super::cross_namespace::{CrossNamespaceRef, CrossNamespaceRefs};
use super::evaluator::{Decision, Evaluator};
use super::executor::{Edit, Executor};
use super::owners::Owners;
use super::{BATCH, Requeue, YIELD_INTERVAL, report};

/// The plan for a batch of objects of one space.
pub struct Plan<'a> {
    registry: &'a Registry,
    space: &'a Space,
    owners: Owners<'a>,
    evaluator: Evaluator<'a>,
    executor: Executor<'a>,
    planned: HashSet<Node>,
    /// Dependents of planned deletions.
    ahead: VecDeque<Node>,
    /// Owners that planned deletions no longer block.
    freed: HashSet<Node>,
    locations: CrossNamespaceRefs,
    cross_namespace: Vec<CrossNamespaceRef>,
}

impl<'a> Plan<'a> {
    /// An empty plan.
    pub fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            owners: Owners { registry, space },
            evaluator: Evaluator::new(registry, space),
            executor: Executor::new(registry, space),
            planned: HashSet::new(),
            ahead: VecDeque::new(),
            freed: HashSet::new(),
            locations: CrossNamespaceRefs::default(),
            cross_namespace: Vec::new(),
        }
    }

    /// Adds the decision about an object.
    pub fn consider(&mut self, node: Node) {
        self.decide(node, false);
    }

    /// Adds what follows from the plan, as far as it fits in one transaction.
    pub async fn extend(&mut self) {
        let mut count = 0;
        while self.executor.pending() < BATCH
            && let Some(node) = self.next()
        {
            count += 1;
            if count % YIELD_INTERVAL == 0 {
                tokio::task::yield_now().await;
            }
            match self.planned.contains(&node) {
                true => self.delete_at_once(&node),
                false => self.decide(node, true),
            }
        }
    }

    /// Owners that wait come after their dependents.
    fn next(&mut self) -> Option<Node> {
        self.ahead.pop_front().or_else(|| {
            let node = self.freed.iter().next().cloned()?;
            self.freed.take(&node)
        })
    }

    /// Carries out the plan.
    pub async fn execute(self) -> Requeue {
        for reference in &self.cross_namespace {
            report::invalid_namespace(self.registry, self.space, reference).await;
        }
        self.executor.execute().await
    }

    fn decide(&mut self, node: Node, follows: bool) {
        if self.planned.contains(&node) {
            return;
        }
        let decision = self.evaluator.evaluate(&node);
        let cross_namespace = self.locations.of(self.owners, &node, &decision);
        self.cross_namespace.extend(cross_namespace);
        let edit = match decision {
            Decision::Delete(pending) => return self.delete(node, pending, follows),
            Decision::Release(seen) if waits_only_for_finalizers(&seen.address.kind) => {
                let pending = PendingDelete {
                    address: seen.address,
                    object: seen.object,
                    policy: Policy::Background,
                };
                return self.delete(node, pending, follows);
            }
            Decision::Park if !follows => return self.park(node),
            Decision::Leave | Decision::Misplaced(_) | Decision::Park => return,
            Decision::RemoveOwners(seen, owners) => Edit::RemoveOwners(seen, owners),
            Decision::Unblock(seen, owners) => Edit::Unblock(seen, owners),
            Decision::Release(seen) => Edit::Release(seen),
            Decision::Orphan(seen) => Edit::Orphan(seen),
        };
        // An object that stays is evaluated again after its own event.
        if !follows {
            self.planned.insert(node.clone());
            self.executor.edit(node, edit);
        }
    }

    /// Sets the object aside until the space serves more kinds, unless it does already.
    fn park(&mut self, node: Node) {
        let owner_graph = self.registry.cache().owner_graph();
        owner_graph.park(self.space, node.clone());
        if !matches!(self.evaluator.evaluate(&node), Decision::Park) {
            owner_graph.requeue(self.space, node);
        }
    }

    fn delete(&mut self, node: Node, pending: PendingDelete, follows: bool) {
        let owner_refs = pending.object.owner_refs().unwrap_or_default();
        let goes = waits_only_for_finalizers(&pending.address.kind) && !owner_refs.held;
        if goes && pending.policy == Policy::Background {
            self.evaluator.assume_gone(node.clone(), &owner_refs.uid);
            self.freed.extend(self.evaluator.held_by(&pending.object));
            self.follow(&owner_refs.uid);
        } else if pending.policy == Policy::Foreground {
            self.evaluator.assume_waiting(&owner_refs.uid);
            self.follow(&owner_refs.uid);
        }
        self.planned.insert(node.clone());
        self.executor.delete(node, pending, follows);
    }

    /// Queues the dependents of this owner.
    fn follow(&mut self, uid: &str) {
        let room = BATCH.saturating_sub(self.executor.pending());
        let owner_graph = self.registry.cache().owner_graph();
        let dependents = owner_graph.dependents(self.space, uid, None, room);
        self.ahead.extend(dependents);
    }

    /// Deletes an owner at once if all dependents that block it are deleted with it.
    fn delete_at_once(&mut self, node: &Node) {
        let Some(pending) = self.executor.waiting(node) else {
            return;
        };
        let owner_refs = pending.object.owner_refs().unwrap_or_default();
        let goes = waits_only_for_finalizers(&pending.address.kind)
            && !owner_refs.held
            && !owner_refs.orphan;
        if goes
            && self
                .evaluator
                .is_released(&owner_refs.uid, node.namespace())
        {
            self.freed.extend(self.evaluator.held_by(&pending.object));
            self.executor.delete_at_once(node);
            self.evaluator.assume_gone(node.clone(), &owner_refs.uid);
        }
    }
}
