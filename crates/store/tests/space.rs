//! Disk space and history: compacted history is freed, the rest stays.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use insula_store::embedded::{Embedded, Options};
use insula_store::laws::concurrency::read_log;
use insula_store::{At, Error, Key, KeyRange, Outcome, Revision, Store, Transaction};

const OPTIONS: Options = Options {
    segment_bytes: 0,
    memory_bytes: 1 << 20,
    cache_bytes: 1 << 20,
};
const KEYS: usize = 200;
const VALUE: usize = 8 << 10;

async fn write(store: &Embedded, count: usize) -> Revision {
    let mut last = Revision::ZERO;
    for n in 0..count {
        let key = Key::from(format!("/space/{:03}", n % KEYS));
        let mut value = vec![n as u8; VALUE];
        value[..8].copy_from_slice(&n.to_le_bytes());
        let put = Transaction::new().put(key, Bytes::from(value));
        let Outcome::Committed(revision) = store.commit(put).await.unwrap() else {
            panic!("not committed")
        };
        last = revision;
    }
    last
}

fn disk_bytes(store: &Embedded) -> u64 {
    let statistics = store.statistics();
    statistics.log_bytes + statistics.table_bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_frees_disk_space() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    let last = write(&store, 8_000).await;
    let state = store
        .range(&KeyRange::all(), At::Latest, None)
        .await
        .unwrap();
    let written = (8_000 * VALUE) as u64;
    assert!(
        disk_bytes(&store) > written,
        "all history is kept: {}",
        disk_bytes(&store)
    );
    store.compact(last).await.unwrap();
    // What is left is each key once, in tables of which some may not be merged yet, and two log
    // segments.
    let live = (KEYS * VALUE) as u64;
    let bound = 4 * live + 3 * (2 << 20) + (10 << 20);
    let begun = Instant::now();
    while disk_bytes(&store) > bound {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "still {}",
            disk_bytes(&store)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let page = store
        .range(&KeyRange::all(), At::Revision(last), None)
        .await
        .unwrap();
    assert!(
        page.entries == state.entries,
        "the state at the floor is as it was"
    );
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_floor_and_revision_survive_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let mut floor = Revision::ZERO;
    let mut last = Revision::ZERO;
    for round in 0..5 {
        let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
        if round > 0 {
            assert_eq!(store.revision().await, Ok(last), "round {round}");
            let below = store
                .range(&KeyRange::all(), At::Revision(floor.previous()), None)
                .await;
            assert_eq!(below, Err(Error::Compacted { floor }), "round {round}");
            let mut watch = store.watch(KeyRange::all(), floor).await.unwrap();
            let log = read_log(&mut *watch, last).await;
            let delivered: Vec<u64> = log.iter().map(|(revision, _)| revision.get()).collect();
            let expected: Vec<u64> = (floor.next().get()..=last.get()).collect();
            assert_eq!(delivered, expected, "round {round}");
        }
        last = write(&store, 700).await;
        floor = Revision::new(last.get() - 300);
        store.compact(floor).await.unwrap();
        store.close().await;
    }
}

/// The key is on disk before it is deleted, and its deletion is compacted before it reaches the
/// disk: the remaining rows must still say that the key does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_deleted_before_the_floor_stays_deleted_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let key = Key::from("/space/gone");
    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    let put = Transaction::new().put(key.clone(), "x");
    store.commit(put).await.unwrap();
    store.close().await;

    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    let delete = Transaction::new().delete(key.clone());
    let Ok(Outcome::Committed(deleted)) = store.commit(delete).await else {
        panic!("not committed")
    };
    store.compact(deleted).await.unwrap();
    let begun = Instant::now();
    while store.statistics().swept < deleted {
        assert!(begun.elapsed() < Duration::from_secs(20), "never swept");
        tokio::task::yield_now().await;
    }
    store.close().await;

    let store = Embedded::open(folder.path(), OPTIONS).await.unwrap();
    assert_eq!(store.get(&key).await, Ok(None));
    let create = Transaction::create(key, "y");
    assert_eq!(
        store.commit(create).await,
        Ok(Outcome::Committed(deleted.next()))
    );
}
