//! Decides about a batch of objects, and what follows from it.
//!
//! Deletions in one transaction become visible together, so dependents that lose their last owner
//! and owners that lose their last blocking dependent may be deleted in the same one. A chain of a
//! thousand owners then takes a few transactions instead of a thousand or two.

use std::collections::{HashSet, VecDeque};

use insula_apiserver::Registry;
use insula_apiserver::write::{PendingDelete, Policy, goes_at_once};
use insula_cache::Node;
use insula_core::Space;

use super::act::{Act, Edit};
use super::judge::{Judge, Verdict};
use super::owners::Owners;
use super::stray::{Stray, Strays};
use super::{BATCH, Left, PORTION, report};

/// The plan for a batch of objects of one space.
pub struct Plan<'a> {
    registry: &'a Registry,
    space: &'a Space,
    owners: Owners<'a>,
    judge: Judge<'a>,
    act: Act<'a>,
    planned: HashSet<Node>,
    /// Dependents of planned deletions.
    ahead: VecDeque<Node>,
    /// Owners that planned deletions no longer block.
    freed: HashSet<Node>,
    where_to: Strays,
    strays: Vec<Stray>,
}

impl<'a> Plan<'a> {
    /// An empty plan.
    pub fn new(registry: &'a Registry, space: &'a Space) -> Self {
        Self {
            registry,
            space,
            owners: Owners { registry, space },
            judge: Judge::new(registry, space),
            act: Act::new(registry, space),
            planned: HashSet::new(),
            ahead: VecDeque::new(),
            freed: HashSet::new(),
            where_to: Strays::default(),
            strays: Vec::new(),
        }
    }

    /// Adds the decision about an object.
    pub fn consider(&mut self, node: Node) {
        self.settle(node, false);
    }

    /// Adds what follows from the plan, as far as it fits in one transaction.
    pub async fn look_ahead(&mut self) {
        let mut count = 0;
        while self.act.doomed() < BATCH
            && let Some(node) = self.next()
        {
            count += 1;
            if count % PORTION == 0 {
                tokio::task::yield_now().await;
            }
            match self.planned.contains(&node) {
                true => self.hasten(&node),
                false => self.settle(node, true),
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
    pub async fn carry_out(self) -> Left {
        for stray in &self.strays {
            report::invalid_namespace(self.registry, self.space, stray).await;
        }
        self.act.carry_out().await
    }

    fn settle(&mut self, node: Node, follows: bool) {
        if self.planned.contains(&node) {
            return;
        }
        let verdict = self.judge.judge(&node);
        let strays = self.where_to.of(self.owners, &node, &verdict);
        self.strays.extend(strays);
        let edit = match verdict {
            Verdict::Delete(doomed) => return self.doom(node, doomed, follows),
            Verdict::Release(seen) if goes_at_once(&seen.address.kind) => {
                let doomed = PendingDelete {
                    address: seen.address,
                    object: seen.object,
                    policy: Policy::Background,
                };
                return self.doom(node, doomed, follows);
            }
            Verdict::Park if !follows => return self.park(node),
            Verdict::Leave | Verdict::Misplaced(_) | Verdict::Park => return,
            Verdict::Strip(seen, owners) => Edit::Strip(seen, owners),
            Verdict::Unblock(seen, owners) => Edit::Unblock(seen, owners),
            Verdict::Release(seen) => Edit::Release(seen),
            Verdict::Orphan(seen) => Edit::Orphan(seen),
        };
        // An object that stays is evaluated again after its own event.
        if !follows {
            self.planned.insert(node.clone());
            self.act.edit(node, edit);
        }
    }

    /// Sets the object aside until the space serves more kinds, unless it does already.
    fn park(&mut self, node: Node) {
        let owner_graph = self.registry.cache().owner_graph();
        owner_graph.park(self.space, node.clone());
        if !matches!(self.judge.judge(&node), Verdict::Park) {
            owner_graph.requeue(self.space, node);
        }
    }

    fn doom(&mut self, node: Node, doomed: PendingDelete, follows: bool) {
        let ties = doomed.object.owner_refs().unwrap_or_default();
        let goes = goes_at_once(&doomed.address.kind) && !ties.held;
        if goes && doomed.policy == Policy::Background {
            self.judge.assume_gone(node.clone(), &ties.uid);
            self.freed.extend(self.judge.held_by(&doomed.object));
            self.follow(&ties.uid);
        } else if doomed.policy == Policy::Foreground {
            self.judge.assume_waiting(&ties.uid);
            self.follow(&ties.uid);
        }
        self.planned.insert(node.clone());
        self.act.doom(node, doomed, follows);
    }

    /// Queues the dependents of this owner.
    fn follow(&mut self, uid: &str) {
        let room = BATCH.saturating_sub(self.act.doomed());
        let owner_graph = self.registry.cache().owner_graph();
        let dependents = owner_graph.dependents(self.space, uid, None, room);
        self.ahead.extend(dependents);
    }

    /// Deletes an owner at once if all dependents that block it are deleted with it.
    fn hasten(&mut self, node: &Node) {
        let Some(doomed) = self.act.to_wait(node) else {
            return;
        };
        let ties = doomed.object.owner_refs().unwrap_or_default();
        let goes = goes_at_once(&doomed.address.kind) && !ties.held && !ties.orphan;
        if goes && self.judge.is_released(&ties.uid, node.namespace()) {
            self.freed.extend(self.judge.held_by(&doomed.object));
            self.act.hasten(node);
            self.judge.assume_gone(node.clone(), &ties.uid);
        }
    }
}
