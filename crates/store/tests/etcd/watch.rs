//! Watches across lost connections, compaction, and fragmented responses.

use std::time::Duration;

use insula_store::etcd::{Etcd, Options};
use insula_store::{At, Error, KeyRange, Outcome, Revision, Store, Transaction, WatchItem};
use insula_testkit::etcd::EtcdServer;
use tokio::time::timeout;

use super::proxy::Proxy;
use super::{changes, committed, connect_to, fresh, within};

#[tokio::test(flavor = "multi_thread")]
async fn watch_resumes_without_gap_or_repeat_after_etcd_restarts() {
    const RESTARTS: usize = 3;
    let Some((mut server, store)) = fresh().await else {
        return;
    };
    let mut watch = store
        .watch(KeyRange::prefix("k"), Revision::ZERO)
        .await
        .unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0_u32.. {
                let key = if number.is_multiple_of(3) {
                    "other"
                } else {
                    "k"
                };
                let put = Transaction::new().put(key, number.to_string());
                match within(store.commit(put)).await {
                    Ok(Outcome::Committed(_)) | Err(Error::Indeterminate(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    let mut delivered = Vec::new();
    for _ in 0..RESTARTS {
        for _ in 0..100 {
            delivered.push(changes(&mut *watch).await.0);
        }
        server.kill();
        server.restart();
    }
    for _ in 0..100 {
        delivered.push(changes(&mut *watch).await.0);
    }
    writer.abort();

    // A second, undisturbed watch delivers the expected events.
    let last = *delivered.last().unwrap();
    let mut calm = store
        .watch(KeyRange::prefix("k"), Revision::ZERO)
        .await
        .unwrap();
    let mut expected = Vec::new();
    while expected.last() != Some(&last) {
        expected.push(changes(&mut *calm).await.0);
    }
    assert_eq!(delivered, expected);
    assert_eq!(delivered.len(), (RESTARTS + 1) * 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_progress_arrives_after_etcd_restarts() {
    let Some((mut server, store)) = fresh().await else {
        return;
    };
    let mut watch = store
        .watch(KeyRange::prefix("quiet"), Revision::ZERO)
        .await
        .unwrap();
    for _ in 0..5 {
        let revision = committed(&store, Transaction::new().put("k", "v")).await;
        within(watch.request_progress()).await.unwrap();
        server.kill();
        server.restart();
        // The answer may have come before the end.
        assert_eq!(
            within(watch.next()).await,
            Ok(WatchItem::Progress(revision))
        );
    }
}

#[tokio::test]
async fn progress_is_fresh_and_never_ahead_of_changes() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let mut watch = store
        .watch(KeyRange::prefix("k"), Revision::ZERO)
        .await
        .unwrap();
    for number in 0..50 {
        let change = committed(&store, Transaction::new().put("k", "v")).await;
        let other = match number % 2 {
            0 => change,
            _ => committed(&store, Transaction::new().put("other", "v")).await,
        };
        within(watch.request_progress()).await.unwrap();
        assert_eq!(changes(&mut *watch).await.0, change);
        assert_eq!(within(watch.next()).await, Ok(WatchItem::Progress(other)));
    }
}

#[tokio::test]
async fn watch_from_right_before_the_floor_is_refused() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let put = committed(&store, Transaction::create("k", "v")).await;
    let deleted = committed(&store, Transaction::remove("k", put)).await;
    let next = committed(&store, Transaction::create("k", "w")).await;
    store.compact(deleted).await.unwrap();
    let floor = deleted;
    for after in [Revision::ZERO, put.previous(), put] {
        let refused = within(store.watch(KeyRange::all(), after)).await;
        assert_eq!(refused.err(), Some(Error::Compacted { floor }), "{after}");
    }
    let mut watch = store.watch(KeyRange::all(), floor).await.unwrap();
    assert_eq!(changes(&mut *watch).await, (next, vec!["k".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_overtaken_by_compaction_while_disconnected_reports_it() {
    let Some((mut server, store)) = fresh().await else {
        return;
    };
    let mut watch = store
        .watch(KeyRange::prefix("k"), Revision::ZERO)
        .await
        .unwrap();
    for _ in 0..20 {
        let put = committed(&store, Transaction::new().put("k", "v")).await;
        assert_eq!(changes(&mut *watch).await.0, put);
        server.kill();
        server.restart();
        // The watch usually still waits for its next attempt when another client is back.
        let other = connect_to(&server).await;
        let floor = committed(&other, Transaction::remove("k", put)).await;
        other.compact(floor).await.unwrap();
        match within(watch.next()).await {
            Ok(WatchItem::Changes { revision, .. }) => assert_eq!(revision, floor),
            delivered => {
                assert_eq!(delivered, Err(Error::Compacted { floor }));
                let over = within(watch.next()).await;
                assert!(matches!(over, Err(Error::Unavailable(_))), "{over:?}");
                return;
            }
        }
    }
    panic!("the watch was never overtaken");
}

#[tokio::test]
async fn watch_from_a_future_revision_delivers_only_later_changes() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let now = store.revision().await.unwrap();
    let after = now.next().next();
    let mut watch = store.watch(KeyRange::all(), after).await.unwrap();
    within(watch.request_progress()).await.unwrap();
    assert_eq!(within(watch.next()).await, Ok(WatchItem::Progress(now)));
    for _ in 0..2 {
        committed(&store, Transaction::new().put("k", "v")).await;
    }
    let third = committed(&store, Transaction::new().put("k", "v")).await;
    assert_eq!(third, after.next());
    assert_eq!(changes(&mut *watch).await, (third, vec!["k".to_owned()]));

    let never = Revision::new(u64::MAX);
    let mut watch = store.watch(KeyRange::all(), never).await.unwrap();
    within(watch.request_progress()).await.unwrap();
    assert_eq!(within(watch.next()).await, Ok(WatchItem::Progress(third)));
}

#[tokio::test]
async fn transaction_is_delivered_whole_and_sorted_despite_fragments() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let names: Vec<String> = (0..100).map(|number| format!("k{number:02}")).collect();
    let large = || {
        let names = names.iter().rev();
        names.fold(Transaction::new(), |all, name| {
            all.put(name.clone(), vec![7; 14 << 10])
        })
    };
    let mut revisions = Vec::new();
    for _ in 0..5 {
        revisions.push(committed(&store, large()).await);
    }
    // All in the past, so that etcd sends them at once, and in fragments.
    let mut watch = store.watch(KeyRange::all(), Revision::ZERO).await.unwrap();
    for revision in revisions {
        assert_eq!(changes(&mut *watch).await, (revision, names.clone()));
    }
}

#[tokio::test]
async fn empty_range_has_progress() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let mut watch = store
        .watch(KeyRange::between("b", "a"), Revision::ZERO)
        .await
        .unwrap();
    let revision = committed(&store, Transaction::new().put("\0", "v").put("a", "v")).await;
    within(watch.request_progress()).await.unwrap();
    assert_eq!(
        within(watch.next()).await,
        Ok(WatchItem::Progress(revision))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_next_loses_nothing() {
    let Some(server) = EtcdServer::start() else {
        return;
    };
    let store = connect_to(&server).await;
    let mut watch = store.watch(KeyRange::all(), Revision::ZERO).await.unwrap();
    let writer = tokio::spawn(async move {
        let mut revisions = Vec::new();
        for _ in 0..200 {
            revisions.push(committed(&store, Transaction::new().put("k", "v")).await);
        }
        revisions
    });
    let mut delivered = Vec::new();
    while delivered.len() < 200 {
        // Usually too short to receive anything.
        let item = timeout(Duration::from_micros(100), watch.next()).await;
        if let Ok(item) = item {
            let Ok(WatchItem::Changes { revision, .. }) = item else {
                panic!("{item:?}");
            };
            delivered.push(revision);
        }
    }
    assert_eq!(delivered, writer.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_that_does_not_read_delays_no_other_and_loses_nothing() {
    let Some((_server, store)) = fresh().await else {
        return;
    };
    let all = KeyRange::all();
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(store.watch(all.clone(), Revision::ZERO).await.unwrap());
    }
    // More than any buffer between here and etcd holds.
    let mut revisions = Vec::new();
    for _ in 0..40 {
        let put = Transaction::new().put("k", vec![7; 1 << 20]);
        revisions.push(committed(&store, put).await);
    }
    let page = within(store.range(&all, At::Latest, None)).await.unwrap();
    assert_eq!(page.revision, *revisions.last().unwrap());
    for mut watch in idle {
        for revision in &revisions {
            assert_eq!(changes(&mut *watch).await.0, *revision);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_and_read_switch_from_a_silent_member() {
    let Some(server) = EtcdServer::start() else {
        return;
    };
    let proxy = Proxy::start(&server.endpoint()).await;
    let options = Options::new([proxy.endpoint(), server.endpoint()]);
    let store = Etcd::connect(options).await.unwrap();
    let mut watch = store.watch(KeyRange::all(), Revision::ZERO).await.unwrap();
    let first = committed(&store, Transaction::new().put("k", "1")).await;
    assert_eq!(changes(&mut *watch).await.0, first);

    proxy.go_silent();
    let direct = connect_to(&server).await;
    let second = committed(&direct, Transaction::new().put("k", "2")).await;
    let found = within(store.get(&"k".into())).await.unwrap().unwrap();
    assert_eq!(found.modified, second);
    assert_eq!(changes(&mut *watch).await.0, second);
}
