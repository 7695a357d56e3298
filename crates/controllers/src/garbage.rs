//! Objects whose owners are gone.
//!
//! An object goes when none of the owners that it names is there any more; one that is
//! deleted may wait for its dependents to go first, or to be let go. Which objects that may
//! be about is known to the [cache](insula_cache::OwnerGraph), which hands them out;
//! here they are judged and dealt with.
//!
//! ```text
//! owners    where owners are looked for, and whether they are there
//! circle    whether owners wait for each other
//! judge     what is to be done about one object, as things are in the cache
//! plan      what is to be done about many, and what follows from it at once
//! act       does it, exactly to what was judged
//! stray     references that lead into another namespace
//! report    tells of them
//! ```
//!
//! What looks as if something were to be done is judged again after the cache has caught up
//! with the store, and everything that is written expects what was judged: whatever happens
//! in between leads to another look. So nothing goes because of how things were, and two
//! servers on one store do no harm to each other. After a crash everything is looked at.
//!
//! Nothing runs while nothing happens to objects that have owners. Spaces take turns, a batch
//! of objects each, and what goes in one batch goes in one transaction.

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

/// Collects what nobody owns any more, in every space.
#[derive(Clone)]
pub struct Collector {
    registry: Arc<Registry>,
}

/// What is left to do of what was looked at.
#[derive(Debug, Default)]
struct Left {
    /// It changed meanwhile: at once.
    again: Vec<Node>,
    /// It could not be done: after a while.
    later: Vec<Node>,
    /// It was refused, and will be until something changes: after a long while.
    much_later: Vec<Node>,
}

/// What is looked at again at a time of its own.
#[derive(Debug, Default)]
struct Agenda {
    items: BTreeMap<(Instant, u64), (Space, Node)>,
    count: u64,
}

/// How many objects of a space are looked at in one turn: as many as one transaction takes.
const BATCH: usize = 100;

/// How many objects are judged before others have their turn on the processor.
const PORTION: usize = 16;

/// How many spaces are looked at, at once.
const AT_ONCE: usize = 8;

/// How long it takes until something is tried again that was refused.
const REFUSED: Duration = Duration::from_secs(60);

impl Collector {
    /// For the objects behind a registry.
    pub const fn new(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    /// Runs until `stop` is done. Everything that it began has ended then.
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
                            tracing::error!(%error, "the collector of garbage failed");
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

    /// Looks at objects of a space, and does what is to be done about them.
    async fn look(&self, space: &Space, mut nodes: Vec<Node>) -> Left {
        let mut judge = Judge::new(&self.registry, space);
        nodes.retain(|node| !matches!(judge.judge(node), Verdict::Leave));
        if nodes.is_empty() {
            return Left::default();
        }
        // Nothing is done because of how things were: once more, as they are.
        if let Err(refusal) = self.registry.catch_up().await {
            tracing::warn!(%space, %refusal, "garbage will be looked at again");
            return Left::retrying(nodes);
        }
        let mut plan = Plan::new(&self.registry, space);
        for (count, node) in nodes.into_iter().enumerate() {
            // Nobody waits for a whole batch to be judged.
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
