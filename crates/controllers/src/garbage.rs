//! The garbage collector.
//!
//! An object is deleted when none of the owners that it names exists any more. A deleted object may
//! wait for its dependents to be deleted first, or to be orphaned. The
//! [cache](insula_cache::Kinship) tracks the candidates and hands them out; the
//! collector decides and acts.
//!
//! ```text
//! owners            finds owners and their state
//! cycle             finds owners that wait for each other
//! evaluate          decides about one object, from the cache
//! plan              decides about a batch, and what follows from it
//! execute           carries out the decisions, on exactly the evaluated versions
//! cross_namespace   finds references into another namespace
//! report            writes events about them
//! ```
//!
//! A decision to act is evaluated again after the cache has caught up with the store, and every
//! write checks that the object is the one that was evaluated: any change in between leads to
//! another evaluation. So no object is deleted because of outdated state, and two servers on one
//! store do not disturb each other. After a restart every object is evaluated.
//!
//! Nothing runs while objects with owners do not change. Spaces take turns with a batch of objects
//! each, and the deletions of one batch are one transaction.

mod act;
mod circle;
mod judge;
mod owners;
mod plan;
mod report;
mod stray;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use insula_apiserver::Registry;
use insula_cache::Node;
use insula_core::Space;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::RETRY;
use judge::{Judge, Verdict};
use plan::Plan;

/// Deletes objects without remaining owners, in every space.
#[derive(Clone)]
pub struct Collector {
    registry: Arc<Registry>,
}

/// The objects of a batch that have to be evaluated again.
#[derive(Debug, Default)]
struct Left {
    /// At once: the object changed meanwhile.
    again: Vec<Node>,
    /// After a delay: the attempt failed.
    later: Vec<Node>,
    /// After a long delay: it was refused, and will be until something changes.
    much_later: Vec<Node>,
}

/// Objects that are evaluated again at a later time.
#[derive(Debug, Default)]
struct Agenda {
    items: BTreeMap<(Instant, u64), (Space, Node)>,
    count: u64,
}

/// The number of objects of a space evaluated in one turn: as many as fit in one transaction.
const BATCH: usize = 100;

/// The number of objects evaluated before the task yields.
const PORTION: usize = 16;

/// The number of spaces processed concurrently.
const AT_ONCE: usize = 8;

/// The delay before a refused action is retried.
const REFUSED: Duration = Duration::from_secs(60);

impl Collector {
    /// A collector for the objects of a registry.
    pub const fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Runs until `stop` completes. All tasks have ended when it returns.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let owner_graph = self.registry.cache().owner_graph();
        let mut agenda = Agenda::default();
        let mut workers = JoinSet::new();
        let mut taken: HashMap<Id, (Space, Vec<Node>)> = HashMap::new();
        owner_graph.follow();
        loop {
            while workers.len() < AT_ONCE
                && let Some((space, nodes)) = owner_graph.take(BATCH)
            {
                let (this, on) = (self.clone(), (space.clone(), nodes.clone()));
                let worker = async move { this.look(&on.0, on.1).await };
                taken.insert(workers.spawn(worker).id(), (space, nodes));
            }
            let next = agenda.next();
            tokio::select! {
                () = &mut stop => break,
                () = owner_graph.work_available().notified(), if workers.len() < AT_ONCE => {}
                Some(done) = workers.join_next_with_id() => {
                    let (id, left) = match done {
                        Ok((id, left)) => (id, Some(left)),
                        Err(error) => {
                            tracing::error!(%error, "garbage collector task panicked");
                            (error.id(), None)
                        }
                    };
                    if let Some((space, nodes)) = taken.remove(&id) {
                        let left = left.unwrap_or_else(|| Left::retrying(nodes));
                        self.put_back(&mut agenda, &space, left);
                        owner_graph.done(&space);
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    for (space, node) in agenda.due(Instant::now()) {
                        owner_graph.requeue(&space, node);
                    }
                }
            }
        }
        owner_graph.leave();
        workers.shutdown().await;
    }

    fn put_back(&self, agenda: &mut Agenda, space: &Space, left: Left) {
        for node in left.again {
            self.registry.cache().owner_graph().requeue(space, node);
        }
        let now = Instant::now();
        for (nodes, after) in [(left.later, RETRY), (left.much_later, REFUSED)] {
            for node in nodes {
                agenda.add(now + after, space, node);
            }
        }
    }

    /// Evaluates objects of a space and acts on the decisions.
    async fn look(&self, space: &Space, mut nodes: Vec<Node>) -> Left {
        let mut judge = Judge::new(&self.registry, space);
        nodes.retain(|node| !matches!(judge.judge(node), Verdict::Leave));
        if nodes.is_empty() {
            return Left::default();
        }
        // Decisions must not rest on outdated state: evaluate again when caught up.
        if let Err(refusal) = self.registry.catch_up().await {
            tracing::warn!(%space, %refusal, "garbage collection failed");
            return Left::retrying(nodes);
        }
        let mut plan = Plan::new(&self.registry, space);
        for (count, node) in nodes.into_iter().enumerate() {
            // A whole batch would occupy the thread for too long.
            if count % PORTION == PORTION - 1 {
                tokio::task::yield_now().await;
            }
            plan.consider(node);
        }
        plan.look_ahead().await;
        plan.carry_out().await
    }
}

impl Left {
    fn retrying(nodes: Vec<Node>) -> Self {
        Self {
            later: nodes,
            ..Self::default()
        }
    }
}

impl Agenda {
    fn add(&mut self, at: Instant, space: &Space, node: Node) {
        self.count += 1;
        self.items.insert((at, self.count), (space.clone(), node));
    }

    fn next(&self) -> Option<Instant> {
        self.items.keys().next().map(|(at, _)| *at)
    }

    fn due(&mut self, now: Instant) -> Vec<(Space, Node)> {
        let rest = self.items.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.items, rest)
            .into_values()
            .collect()
    }
}
