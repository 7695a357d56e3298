//! The garbage collector.
//!
//! An object is deleted when none of the owners that it names exists any more. A deleted object may
//! wait for its dependents to be deleted first, or to be orphaned. The
//! [cache](insula_cache::OwnerGraph) tracks the candidates and hands them out; the
//! collector decides and acts.
//!
//! ```text
//! owners            finds owners and their state
//! cycles            finds owners that wait for each other
//! evaluator         decides about one object, from the cache
//! plan              decides about a batch, and what follows from it
//! executor          carries out the decisions, on exactly the evaluated versions
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

mod cross_namespace;
mod cycles;
mod evaluator;
mod executor;
mod owners;
mod plan;
mod report;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use insula_apiserver::Registry;
use insula_cache::Node;
use insula_core::Space;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::RETRY_DELAY;
use evaluator::{Decision, Evaluator};
use plan::Plan;

/// Deletes objects without remaining owners, in every space.
#[derive(Clone)]
pub struct Collector {
    registry: Arc<Registry>,
}

/// The objects of a batch that have to be evaluated again.
#[derive(Debug, Default)]
struct Requeue {
    /// At once: the object changed meanwhile.
    now: Vec<Node>,
    /// After a delay: the attempt failed.
    after_delay: Vec<Node>,
    /// After a long delay: it was refused, and will be until something changes.
    after_refusal: Vec<Node>,
}

/// Objects that are evaluated again at a later time.
#[derive(Debug, Default)]
struct DelayQueue {
    items: BTreeMap<(Instant, u64), (Space, Node)>,
    count: u64,
}

/// The number of objects of a space evaluated in one turn: as many as fit in one transaction.
const BATCH: usize = 100;

/// The number of objects evaluated before the task yields.
const YIELD_INTERVAL: usize = 16;

/// The number of spaces processed concurrently.
const MAX_CONCURRENT: usize = 8;

/// The delay before a refused action is retried.
const REFUSAL_DELAY: Duration = Duration::from_secs(60);

impl Collector {
    /// A collector for the objects of a registry.
    pub const fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Runs until `stop` completes. All tasks have ended when it returns.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let owner_graph = self.registry.cache().owner_graph();
        let mut delayed = DelayQueue::default();
        let mut workers = JoinSet::new();
        let mut taken: HashMap<Id, (Space, Vec<Node>)> = HashMap::new();
        owner_graph.follow();
        loop {
            while workers.len() < MAX_CONCURRENT
                && let Some((space, nodes)) = owner_graph.take(BATCH)
            {
                let (this, on) = (self.clone(), (space.clone(), nodes.clone()));
                let worker = async move { this.process(&on.0, on.1).await };
                taken.insert(workers.spawn(worker).id(), (space, nodes));
            }
            let next = delayed.next();
            tokio::select! {
                () = &mut stop => break,
                () = owner_graph.work_available().notified(), if workers.len() < MAX_CONCURRENT => {}
                Some(done) = workers.join_next_with_id() => {
                    let (id, requeue) = match done {
                        Ok((id, requeue)) => (id, Some(requeue)),
                        Err(error) => {
                            tracing::error!(%error, "garbage collector task panicked");
                            (error.id(), None)
                        }
                    };
                    if let Some((space, nodes)) = taken.remove(&id) {
                        let requeue = requeue.unwrap_or_else(|| Requeue::retrying(nodes));
                        self.put_back(&mut delayed, &space, requeue);
                        owner_graph.done(&space);
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    for (space, node) in delayed.due(Instant::now()) {
                        owner_graph.requeue(&space, node);
                    }
                }
            }
        }
        owner_graph.leave();
        workers.shutdown().await;
    }

    fn put_back(&self, delayed: &mut DelayQueue, space: &Space, requeue: Requeue) {
        for node in requeue.now {
            self.registry.cache().owner_graph().requeue(space, node);
        }
        let now = Instant::now();
        for (nodes, after) in [
            (requeue.after_delay, RETRY_DELAY),
            (requeue.after_refusal, REFUSAL_DELAY),
        ] {
            for node in nodes {
                delayed.add(now + after, space, node);
            }
        }
    }

    /// Evaluates objects of a space and acts on the decisions.
    async fn process(&self, space: &Space, mut nodes: Vec<Node>) -> Requeue {
        let mut evaluator = Evaluator::new(&self.registry, space);
        nodes.retain(|node| !matches!(evaluator.evaluate(node), Decision::Leave));
        if nodes.is_empty() {
            return Requeue::default();
        }
        // Decisions must not rest on outdated state: evaluate again when caught up.
        if let Err(refusal) = self.registry.catch_up().await {
            tracing::warn!(%space, %refusal, "garbage collection failed");
            return Requeue::retrying(nodes);
        }
        let mut plan = Plan::new(&self.registry, space);
        for (count, node) in nodes.into_iter().enumerate() {
            // A whole batch would occupy the thread for too long.
            if count % YIELD_INTERVAL == YIELD_INTERVAL - 1 {
                tokio::task::yield_now().await;
            }
            plan.consider(node);
        }
        plan.extend().await;
        plan.execute().await
    }
}

impl Requeue {
    fn retrying(nodes: Vec<Node>) -> Self {
        Self {
            after_delay: nodes,
            ..Self::default()
        }
    }
}

impl DelayQueue {
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
