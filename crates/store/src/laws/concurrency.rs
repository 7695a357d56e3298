//! Laws of concurrent calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::task::JoinSet;

use super::history::{Call, History, Operation, Time};
use super::model::Rng;
use super::{commit, everything, key, next, put, value};
use crate::{At, Changed, Expect, Outcome, Revision, Store, Transaction, Watch, WatchItem};

type Subject = Arc<dyn Store>;

pub async fn one_of_many_concurrent_creates_succeeds(store: Subject) {
    for round in 0..10 {
        let mut tasks = JoinSet::new();
        for n in 0..32 {
            let store = Arc::clone(&store);
            let create = Transaction::create(key(&round.to_string()), value(&n.to_string()));
            tasks.spawn(async move { (n, store.commit(create).await.unwrap()) });
        }
        let outcomes = tasks.join_all().await;
        let won: Vec<_> = outcomes
            .iter()
            .filter_map(|(n, outcome)| match outcome {
                Outcome::Committed(revision) => Some((*n, *revision)),
                _ => None,
            })
            .collect();
        let [(winner, revision)] = won[..] else {
            panic!("{won:?}")
        };
        let found = store.get(&key(&round.to_string())).await.unwrap().unwrap();
        assert_eq!(found.value, winner.to_string());
        for (_, outcome) in outcomes {
            if let Outcome::Conflict(conflict) = outcome {
                assert_eq!(conflict.found.as_ref(), Some(&found));
                assert!(conflict.revision >= revision);
            }
        }
    }
}

pub async fn counters_lose_no_increment(store: Subject) {
    const TASKS: u64 = 32;
    const EACH: u64 = 10;
    put(&*store, "counter", "0").await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for _ in 0..EACH {
                increment(&*store).await;
            }
        });
    }
    tasks.join_all().await;
    let found = store.get(&key("counter")).await.unwrap().unwrap();
    assert_eq!(found.value, (TASKS * EACH).to_string());
}

async fn increment(store: &dyn Store) {
    let mut current = store.get(&key("counter")).await.unwrap().unwrap();
    loop {
        let count: u64 = std::str::from_utf8(&current.value)
            .unwrap()
            .parse()
            .unwrap();
        let update = Transaction::update(key("counter"), current.modified, (count + 1).to_string());
        match store.commit(update).await.unwrap() {
            Outcome::Conflict(conflict) => current = conflict.found.unwrap(),
            _ => return,
        }
    }
}

pub async fn reads_show_every_acknowledged_commit(store: Subject) {
    let mut tasks = JoinSet::new();
    for writer in 0..4 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for n in 0..100 {
                let name = format!("{writer}");
                let written = put(&*store, &name, &n.to_string()).await;
                let found = store.get(&key(&name)).await.unwrap().unwrap();
                assert_eq!(
                    (found.modified, found.value),
                    (written, value(&n.to_string()))
                );
                assert!(store.revision().await.unwrap() >= written);
                let page = store.range(&everything(), At::Latest, None).await.unwrap();
                assert!(page.revision >= written);
                assert!(
                    page.entries
                        .iter()
                        .all(|entry| entry.modified <= page.revision)
                );
                let newest = page.entries.iter().map(|entry| entry.modified).max();
                assert!(store.revision().await.unwrap() >= newest.unwrap());
            }
        });
    }
    tasks.join_all().await;
}

pub async fn concurrent_history_is_consistent(store: Subject) {
    commit(&*store, Transaction::create(key("0"), value("initial"))).await;
    let recorder = Recorder::begin(Arc::clone(&store)).await;
    let mut tasks = JoinSet::new();
    for seed in 0..8 {
        tasks.spawn(recorder.clone().work(seed, 120));
    }
    let calls = tasks.join_all().await.concat();
    let history = recorder.end(calls).await;
    assert!(history.log.len() > 300, "{} changes", history.log.len());
    history.check().unwrap();
}

/// Calls a store and records requests and answers.
#[derive(Clone)]
pub struct Recorder {
    store: Subject,
    clock: Arc<AtomicU64>,
    start: Revision,
    initial: Vec<crate::Entry>,
}

impl Recorder {
    /// Starts from the store's current content.
    pub async fn begin(store: Subject) -> Self {
        let page = store.range(&everything(), At::Latest, None).await.unwrap();
        Self {
            store,
            clock: Arc::default(),
            start: page.revision,
            initial: page.entries,
        }
    }

    fn now(&self) -> Time {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Makes random calls, some of them transactions over two keys.
    pub async fn work(self, seed: u64, steps: usize) -> Vec<Call> {
        let mut rng = Rng::new(seed);
        let mut calls = Vec::with_capacity(steps);
        let mut seen = self.start;
        for step in 0..steps {
            let called = self.now();
            let operation = if rng.below(5) == 0 {
                let page = self
                    .store
                    .range(&everything(), At::Latest, None)
                    .await
                    .unwrap();
                seen = page.revision;
                Operation::Read(page)
            } else {
                let transaction = self.transaction(&mut rng, seed, step, seen).await;
                let outcome = self.store.commit(transaction.clone()).await.ok();
                Operation::Commit(transaction, outcome)
            };
            let answered = match operation {
                Operation::Commit(_, None) => Time::MAX,
                _ => self.now(),
            };
            calls.push(Call {
                called,
                answered,
                operation,
            });
        }
        calls
    }

    async fn transaction(
        &self,
        rng: &mut Rng,
        seed: u64,
        step: usize,
        seen: Revision,
    ) -> Transaction {
        let name = key(&rng.below(6).to_string());
        let other = key(&(6 + rng.below(3)).to_string());
        let text = Bytes::from(format!("{seed}/{step}"));
        let current = self.store.get(&name).await.unwrap();
        let expect = match (current, rng.below(8)) {
            (_, 0) => Expect::At(seen),
            (None, _) => Expect::Absent,
            (Some(entry), _) => Expect::At(entry.modified),
        };
        let transaction = Transaction::new().check(name.clone(), expect);
        match rng.below(4) {
            0 => transaction.delete(name),
            1 => transaction.put(name, text.clone()).put(other, text),
            2 => transaction.put(name, text).delete(other),
            _ => transaction.put(name, text),
        }
    }

    /// Reads the whole log through a watch from the start.
    pub async fn end(self, calls: Vec<Call>) -> History {
        let last = self.store.revision().await.unwrap();
        let mut watch = self.store.watch(everything(), self.start).await.unwrap();
        let log = read_log(&mut *watch, last).await;
        History {
            initial: self.initial,
            start: self.start,
            calls,
            log,
        }
    }
}

/// Everything a watch delivers, up to the revision `last`.
pub async fn read_log(watch: &mut dyn Watch, last: Revision) -> Vec<(Revision, Vec<Changed>)> {
    let mut log = vec![];
    let mut reached = Revision::ZERO;
    while reached < last {
        watch.request_progress().await.unwrap();
        match next(watch).await {
            WatchItem::Progress(revision) => reached = revision,
            WatchItem::Changes { revision, changes } => {
                reached = revision;
                log.push((revision, changes));
            }
        }
    }
    log
}
