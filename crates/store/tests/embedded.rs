//! The laws on the embedded engine.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::sync::Arc;

use insula_store::Store;
use insula_store::embedded::{Embedded, Options};
use tempfile::TempDir;

async fn open(options: Options) -> Option<(Arc<dyn Store>, TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), options).await;
    Some((Arc::new(store.unwrap()), folder))
}

mod default_options {
    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, TempDir)> {
        open(Options::default()).await
    }

    insula_store::store_laws!(fresh);
}

/// With so little memory that tables are written and merged, and log segments filled and removed,
/// in the middle of every law.
mod small_memory {
    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, TempDir)> {
        let options = Options {
            segment_bytes: 0,
            memory_bytes: 4 << 10,
            cache_bytes: 64 << 10,
        };
        open(options).await
    }

    insula_store::store_laws!(fresh);
}

mod under_pressure {
    use std::time::Duration;

    use insula_store::{At, Error, Key, KeyRange, Outcome, Transaction, WatchItem};

    use super::*;

    async fn commit(store: &Arc<dyn Store>, transaction: Transaction) -> insula_store::Revision {
        match store.commit(transaction).await {
            Ok(Outcome::Committed(revision)) => revision,
            other => panic!("{other:?}"),
        }
    }

    /// No history that this watcher still needs was removed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn burst_after_a_long_silence_is_delivered_although_older_history_is_gone() {
        let (store, _folder) = open(Options::default()).await.unwrap();
        let start = store.revision().await.unwrap();
        let mut watch = store
            .watch(KeyRange::prefix("quiet/"), start)
            .await
            .unwrap();
        let mut floor = start;
        for _ in 0..10 {
            floor = commit(&store, Transaction::new().put("busy", "x")).await;
        }
        store.compact(floor).await.unwrap();
        let mut expected = vec![];
        for n in 0..600 {
            let put = Transaction::new().put(format!("quiet/{n}"), "x");
            expected.push(commit(&store, put).await);
        }
        for expected in expected {
            match watch.next().await {
                Ok(WatchItem::Changes { revision, .. }) => assert_eq!(revision, expected),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    /// Values that wait for a slow watcher are not all kept in memory, and none is missed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_watcher_of_large_values_misses_nothing() {
        let (store, _folder) = open(Options::default()).await.unwrap();
        let start = store.revision().await.unwrap();
        let mut watch = store.watch(KeyRange::all(), start).await.unwrap();
        let mut expected = vec![];
        for n in 0..60_u8 {
            let put = Transaction::new().put("large", vec![n; 400 << 10]);
            expected.push((n, commit(&store, put).await));
        }
        for (n, expected) in expected {
            match watch.next().await {
                Ok(WatchItem::Changes { revision, changes }) => {
                    let [insula_store::Changed::Put(entry)] = &changes[..] else {
                        panic!("{changes:?}")
                    };
                    assert_eq!((revision, entry.value[0]), (expected, n));
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    /// A deletion is not visible before its revision.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn key_is_absent_only_at_revisions_where_it_was_deleted() {
        let (store, _folder) = open(Options::default()).await.unwrap();
        let key = Key::from_static(b"a");
        let writer = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                for n in 0..60_u8 {
                    let fill = |transaction: Transaction| {
                        (0..127).fold(transaction, |transaction, other| {
                            transaction.put(format!("b{other}"), vec![n; 8 << 10])
                        })
                    };
                    let first = Transaction::new();
                    let first = match n % 2 {
                        0 => first.put("a", "1"),
                        _ => first.delete("a"),
                    };
                    commit(&store, fill(first)).await;
                }
            }
        });
        let range = KeyRange::single(key);
        while !writer.is_finished() {
            let now = store.range(&range, At::Latest, None).await.unwrap();
            let again = store.range(&range, At::Revision(now.revision), None).await;
            assert_eq!(now.entries, again.unwrap().entries, "at {}", now.revision);
        }
        writer.await.unwrap();
    }

    /// A progress request after a revision was seen is answered with at least that revision.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn progress_is_not_older_than_what_was_seen_before_the_request() {
        let (store, _folder) = open(Options::default()).await.unwrap();
        let start = store.revision().await.unwrap();
        let quiet = KeyRange::prefix("quiet/");
        let mut watch = store.watch(quiet, start).await.unwrap();
        let writer = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                for _ in 0..2_000 {
                    commit(&store, Transaction::new().put("busy", "x")).await;
                }
            }
        });
        let mut seen = start;
        while !writer.is_finished() {
            let now = store.revision().await.unwrap();
            if now == seen {
                continue;
            }
            seen = now;
            watch.request_progress().await.unwrap();
            match watch.next().await {
                Ok(WatchItem::Progress(delivered)) => {
                    assert!(delivered >= seen, "{delivered} after {seen}")
                }
                other => panic!("{other:?}"),
            }
        }
        writer.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn watch_of_an_empty_range_ends_with_the_store() {
        let (store, _folder) = open(Options::default()).await.unwrap();
        let start = store.revision().await.unwrap();
        let nothing = KeyRange::between("b", "a");
        let mut watch = store.watch(nothing, start).await.unwrap();
        drop(store);
        let ended = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
        assert!(matches!(ended, Ok(Err(Error::Unavailable(_)))), "{ended:?}");
    }
}

/// Tenants can occupy the runtime's blocking threads, for instance with lookups of names.
#[test]
fn reads_do_not_wait_for_the_blocking_threads_of_the_runtime() {
    use std::sync::mpsc;
    use std::time::Duration;

    use insula_store::{At, KeyRange, Transaction};

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (release, occupied) = mpsc::channel::<()>();
    runtime.block_on(async {
        let (store, _folder) = open(Options::default()).await.unwrap();
        let before = store.revision().await.unwrap();
        let put = Transaction::new().put("a", "1");
        store.commit(put).await.unwrap();
        let occupied = tokio::task::spawn_blocking(move || occupied.recv().ok());
        let reads = async {
            let range = KeyRange::all();
            let page = store.range(&range, At::Latest, None).await.unwrap();
            let mut watch = store.watch(range, before).await.unwrap();
            (page.entries.len(), watch.next().await.is_ok())
        };
        let read = tokio::time::timeout(Duration::from_secs(5), reads).await;
        drop(release);
        occupied.await.unwrap();
        assert_eq!(read, Ok((1, true)));
    });
}
