//! A workload on a disk that records everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use insula_store::embedded::{Embedded, Options};
use insula_store::laws::model::Rng;
use insula_store::{
    Changed, Entry, Expect, Key, KeyRange, Outcome, Revision, Store, Transaction, WatchItem,
};
use insula_testkit::disk::Disk;
use tokio::task::JoinSet;

/// Marks in the trace for revisions and floors that callers received.
pub const ACKNOWLEDGED: u64 = 1 << 62;
pub const FLOOR: u64 = 1 << 63;

const WRITERS: u64 = 4;
const KEYS: u64 = 40;

/// So small that segments roll, tables are written and merged, and history is swept.
pub fn options() -> Options {
    Options {
        segment_bytes: 0,
        memory_bytes: 128 << 10,
        cache_bytes: 256 << 10,
    }
}

/// Everything that happened in a run, by revision.
pub struct Run {
    pub log: BTreeMap<Revision, Vec<Changed>>,
}

impl Run {
    /// The entries right after `revision`.
    pub fn state_at(&self, revision: Revision) -> Vec<Entry> {
        let mut state: BTreeMap<Key, Entry> = BTreeMap::new();
        for change in self.log.range(..=revision).flat_map(|(_, changes)| changes) {
            match change {
                Changed::Put(entry) => drop(state.insert(entry.key.clone(), entry.clone())),
                Changed::Deleted(key) => drop(state.remove(key)),
            }
        }
        state.into_values().collect()
    }
}

/// Runs writers, a watcher and compactions on a store in `folder` of the disk, and reopens it in
/// the middle. Everything that callers receive is marked in the trace.
pub async fn run_workload(disk: &Arc<Disk>, folder: &Path, writes: usize) -> Run {
    let mut log = BTreeMap::new();
    for part in 0..2 {
        let store = Embedded::open(folder, options()).await.unwrap();
        log.extend(run_phase(disk, store, part, writes / 2).await);
    }
    Run { log }
}

/// Writes large values, and compacts the history right after each.
pub async fn compact_after_each_write(disk: &Arc<Disk>, folder: &Path, writes: usize) -> Run {
    let store = Embedded::open(folder, options()).await.unwrap();
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(KeyRange::all(), start).await.unwrap();
    let mut log = BTreeMap::new();
    for n in 0..writes {
        let key = Bytes::from(format!("/cut/{:02}", n % 40));
        let value = Bytes::from(vec![n as u8; 8 << 10]);
        store
            .commit(Transaction::new().put(key, value))
            .await
            .unwrap();
        let WatchItem::Changes { revision, changes } = watch.next().await.unwrap() else {
            panic!("no changes")
        };
        disk.mark(revision.get());
        log.insert(revision, changes);
        if n % 8 == 0 {
            store.compact(revision).await.unwrap();
        }
    }
    drop(watch);
    store.close().await;
    Run { log }
}

async fn run_phase(
    disk: &Arc<Disk>,
    store: Embedded,
    part: u64,
    writes: usize,
) -> BTreeMap<Revision, Vec<Changed>> {
    let start = store.revision().await.unwrap();
    let watch = store.watch(KeyRange::all(), start).await.unwrap();
    let watcher = tokio::spawn(watch_all(Arc::clone(disk), watch));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let each = writes / WRITERS as usize;
        let seed = part * WRITERS + writer;
        writers.spawn(write(Arc::clone(disk), store.clone(), seed, each));
    }
    let acknowledged: BTreeSet<Revision> = writers.join_all().await.concat().into_iter().collect();
    store.close().await;
    let log = watcher.await.unwrap();
    let delivered: BTreeSet<Revision> = log.keys().copied().collect();
    assert_eq!(delivered, acknowledged, "the watcher received every write");
    log
}

/// Reads until the store is closed.
async fn watch_all(
    disk: Arc<Disk>,
    mut watch: Box<dyn insula_store::Watch>,
) -> BTreeMap<Revision, Vec<Changed>> {
    let mut log = BTreeMap::new();
    while let Ok(item) = watch.next().await {
        if let WatchItem::Changes { revision, changes } = item {
            disk.mark(ACKNOWLEDGED | revision.get());
            log.insert(revision, changes);
        }
    }
    log
}

async fn write(disk: Arc<Disk>, store: Embedded, seed: u64, writes: usize) -> Vec<Revision> {
    let mut rng = Rng::new(seed);
    let mut acknowledged = vec![];
    while acknowledged.len() < writes {
        let transaction = random_transaction(&store, &mut rng).await;
        if let Outcome::Committed(revision) = store.commit(transaction).await.unwrap() {
            disk.mark(revision.get());
            acknowledged.push(revision);
            if rng.below(40) == 0 {
                let floor = Revision::new(revision.get() - rng.below(20).min(revision.get() - 1));
                store.compact(floor).await.unwrap();
                disk.mark(FLOOR | floor.get());
            }
        }
    }
    acknowledged
}

async fn random_transaction(store: &Embedded, rng: &mut Rng) -> Transaction {
    let name = |rng: &mut Rng| Bytes::from(format!("/cut/{:02}", rng.below(KEYS)));
    let (key, other) = (name(rng), name(rng));
    // From a few bytes to several pages, so that frames are torn in many ways.
    let most = 1 << (4 + rng.below(11));
    let size = 10 + rng.below(most);
    let value = Bytes::from(vec![rng.below(256) as u8; usize::try_from(size).unwrap()]);
    let expect = match store.get(&key).await.unwrap() {
        Some(entry) => Expect::At(entry.modified),
        None => Expect::Absent,
    };
    let transaction = Transaction::new().check(key.clone(), expect);
    match rng.below(6) {
        0 => transaction.delete(key),
        1 if other != key => transaction.put(key, value.clone()).put(other, value),
        _ => transaction.put(key, value),
    }
}
