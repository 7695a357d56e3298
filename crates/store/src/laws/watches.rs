//! Laws of watches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{commit, delete, entry, everything, key, list, next, next_changes, put, value};
use crate::{At, Changed, Key, KeyRange, Revision, Store, Transaction, WatchItem};

type Subject = Arc<dyn Store>;

pub async fn changes_are_delivered_in_order(store: Subject) {
    let after = store.revision().await.unwrap();
    let mut watch = store.watch(everything(), after).await.unwrap();
    let a = put(&*store, "a", "1").await;
    let delivered = next_changes(&mut *watch).await;
    assert_eq!(delivered, (a, vec![Changed::Put(entry("a", "1", a, a))]));
    let a2 = put(&*store, "a", "2").await;
    let gone = delete(&*store, "a").await;
    let delivered = next_changes(&mut *watch).await;
    assert_eq!(delivered, (a2, vec![Changed::Put(entry("a", "2", a, a2))]));
    let delivered = next_changes(&mut *watch).await;
    assert_eq!(delivered, (gone, vec![Changed::Deleted(key("a"))]));
}

pub async fn watch_from_the_past_continues_without_gap_or_repeat(store: Subject) {
    let start = store.revision().await.unwrap();
    let mut revisions = vec![];
    for n in 0..300 {
        revisions.push(put(&*store, &format!("{}", n % 7), &n.to_string()).await);
    }
    for skip in [0, 1, 150, 299, 300] {
        let after = if skip == 0 {
            start
        } else {
            revisions[skip - 1]
        };
        let mut watch = store.watch(everything(), after).await.unwrap();
        let mut expected = revisions[skip..].to_vec();
        expected.push(put(&*store, "live", "1").await);
        for revision in &expected {
            assert_eq!(next_changes(&mut *watch).await.0, *revision);
        }
        revisions.push(expected[expected.len() - 1]);
    }
}

pub async fn watch_delivers_only_its_range(store: Subject) {
    let after = store.revision().await.unwrap();
    let ranges = [
        KeyRange::prefix(key("b/")),
        KeyRange::single(key("b/2")),
        KeyRange::between(key("a"), key("b/2")),
        KeyRange::all(),
    ];
    let mut watches = vec![];
    for range in &ranges {
        watches.push(store.watch(range.clone(), after).await.unwrap());
    }
    let names = ["a", "b", "b/1", "b/2", "b/20", "b0", "c"];
    let mut all = vec![];
    for name in names {
        all.push((put(&*store, name, "x").await, key(name)));
    }
    for (range, watch) in ranges.iter().zip(&mut watches) {
        for (revision, key) in all.iter().filter(|(_, key)| range.contains(key)) {
            let (delivered, changes) = next_changes(&mut **watch).await;
            assert_eq!((delivered, changes[0].key()), (*revision, key), "{range:?}");
        }
        let last = all.last().unwrap().0;
        watch.request_progress().await.unwrap();
        assert_eq!(
            next(&mut **watch).await,
            WatchItem::Progress(last),
            "{range:?}"
        );
    }
}

pub async fn changes_of_a_transaction_are_delivered_together(store: Subject) {
    let old = put(&*store, "c", "old").await;
    let mut watch = store.watch(KeyRange::prefix(key("")), old).await.unwrap();
    let mut part = store.watch(KeyRange::prefix(key("b")), old).await.unwrap();
    let transaction = Transaction::new()
        .delete(key("c"))
        .put(key("b2"), value("2"))
        .put(key("a"), value("1"))
        .put(key("b1"), value("3"))
        .delete(key("missing"));
    let at = commit(&*store, transaction).await;
    let b = [
        Changed::Put(entry("b1", "3", at, at)),
        Changed::Put(entry("b2", "2", at, at)),
    ];
    let mut all = vec![Changed::Put(entry("a", "1", at, at))];
    all.extend(b.clone());
    all.push(Changed::Deleted(key("c")));
    assert_eq!(next_changes(&mut *watch).await, (at, all.clone()));
    assert_eq!(next_changes(&mut *part).await, (at, b.to_vec()));
    let mut past = store.watch(everything(), old).await.unwrap();
    assert_eq!(next_changes(&mut *past).await, (at, all));
}

pub async fn commit_without_effect_is_not_delivered(store: Subject) {
    let created = put(&*store, "a", "1").await;
    let mut watch = store.watch(everything(), created).await.unwrap();
    store
        .commit(Transaction::new().delete(key("b")))
        .await
        .unwrap();
    let stale = Transaction::update(key("a"), created.previous(), value("2"));
    store.commit(stale).await.unwrap();
    let updated = put(&*store, "a", "3").await;
    assert_eq!(updated, created.next());
    assert_eq!(next_changes(&mut *watch).await.0, updated);
}

pub async fn watch_from_a_future_revision_is_silent_until_then(store: Subject) {
    let now = put(&*store, "a", "0").await;
    let after = now.next().next();
    let mut watch = store.watch(everything(), after).await.unwrap();
    for n in 1..=4 {
        put(&*store, "a", &n.to_string()).await;
    }
    let (revision, changes) = next_changes(&mut *watch).await;
    assert_eq!(revision, after.next());
    let expected = entry("a", "3", now, after.next());
    assert_eq!(changes, [Changed::Put(expected)]);
}

pub async fn progress_reports_the_position_of_a_quiet_watcher(store: Subject) {
    let after = store.revision().await.unwrap();
    let mut watch = store
        .watch(KeyRange::prefix(key("quiet/")), after)
        .await
        .unwrap();
    for _ in 0..3 {
        let revision = put(&*store, "loud", "x").await;
        watch.request_progress().await.unwrap();
        let item = next(&mut *watch).await;
        assert_eq!(item, WatchItem::Progress(revision));
    }
}

pub async fn progress_is_never_ahead_of_changes(store: Subject) {
    let after = store.revision().await.unwrap();
    let mut watch = store.watch(everything(), after).await.unwrap();
    let writer = Arc::clone(&store);
    let writes = tokio::spawn(async move {
        let mut last = Revision::ZERO;
        for n in 0..500 {
            last = put(&*writer, &format!("{}", n % 5), "x").await;
        }
        last
    });
    let (mut delivered, mut progressed, mut changes) = (after, after, 0);
    while changes < 500 {
        watch.request_progress().await.unwrap();
        match next(&mut *watch).await {
            WatchItem::Changes { revision, .. } => {
                assert!(revision > delivered, "in order");
                assert!(revision > progressed, "progress had passed {revision}");
                delivered = revision;
                changes += 1;
            }
            WatchItem::Progress(revision) => {
                assert!(revision >= delivered && revision >= progressed);
                progressed = revision;
            }
        }
    }
    assert_eq!(writes.await.unwrap(), delivered);
}

pub async fn slow_watcher_misses_nothing(store: Subject) {
    let after = store.revision().await.unwrap();
    let mut slow = store
        .watch(KeyRange::prefix(key("s/")), after)
        .await
        .unwrap();
    let mut revisions = vec![];
    for n in 0..3000 {
        let at = put(&*store, &format!("s/{}", n % 3), &n.to_string()).await;
        if n % 2 == 0 {
            put(&*store, "other", "x").await;
        }
        revisions.push(at);
    }
    for (n, revision) in revisions.into_iter().enumerate() {
        let (delivered, changes) = next_changes(&mut *slow).await;
        assert_eq!(delivered, revision);
        let Changed::Put(entry) = &changes[0] else {
            panic!("{changes:?}")
        };
        assert_eq!(entry.value, n.to_string());
    }
    let live = put(&*store, "s/live", "x").await;
    assert_eq!(next_changes(&mut *slow).await.0, live);
}

pub async fn cancelled_next_loses_nothing(store: Subject) {
    let after = store.revision().await.unwrap();
    let writer = Arc::clone(&store);
    let writes = tokio::spawn(async move {
        let mut revisions = vec![];
        for n in 0..400 {
            revisions.push(put(&*writer, "a", &n.to_string()).await);
        }
        revisions
    });
    let mut watch = store.watch(everything(), after).await.unwrap();
    let mut delivered = vec![];
    let mut patience = 0;
    while delivered.len() < 400 {
        patience = (patience + 37) % 500;
        let step = timeout(Duration::from_micros(patience), watch.next());
        if let Ok(item) = step.await
            && let WatchItem::Changes { revision, .. } = item.unwrap()
        {
            delivered.push(revision);
        }
    }
    assert_eq!(delivered, writes.await.unwrap());
}

pub async fn each_of_many_watchers_gets_its_own_changes(store: Subject) {
    const WATCHERS: usize = 200;
    let after = store.revision().await.unwrap();
    let name = |n: usize| format!("{n:03}/");
    let mut watches = vec![];
    for n in 0..WATCHERS {
        let range = KeyRange::prefix(key(&name(n)));
        watches.push(store.watch(range, after).await.unwrap());
    }
    let mut expected: BTreeMap<usize, Vec<Revision>> = BTreeMap::new();
    for step in 0..WATCHERS * 3 {
        let n = step * 7 % WATCHERS;
        let revision = put(&*store, &format!("{}x", name(n)), "x").await;
        expected.entry(n).or_default().push(revision);
    }
    for (n, watch) in watches.iter_mut().enumerate() {
        for revision in &expected[&n] {
            let (delivered, changes) = next_changes(&mut **watch).await;
            assert_eq!((delivered, changes.len()), (*revision, 1));
            assert_eq!(changes[0].key(), &key(&format!("{}x", name(n))));
        }
    }
}

pub async fn list_and_watch_from_its_revision_are_complete(store: Subject) {
    let writer = Arc::clone(&store);
    let writes = tokio::spawn(async move {
        for n in 0..600_usize {
            match n % 5 {
                4 => drop(
                    writer
                        .commit(Transaction::new().delete(key(&(n % 11).to_string())))
                        .await,
                ),
                _ => drop(put(&*writer, &(n % 11).to_string(), &n.to_string()).await),
            }
        }
    });
    for _ in 0..10 {
        let page = store.range(&everything(), At::Latest, None).await.unwrap();
        let mut watch = store.watch(everything(), page.revision).await.unwrap();
        let mut state: BTreeMap<Key, crate::Entry> = page
            .entries
            .into_iter()
            .map(|entry| (entry.key.clone(), entry))
            .collect();
        let until = store.revision().await.unwrap();
        let mut reached = page.revision;
        while reached < until {
            watch.request_progress().await.unwrap();
            match next(&mut *watch).await {
                WatchItem::Progress(revision) => reached = revision,
                WatchItem::Changes { revision, changes } => {
                    reached = revision;
                    for change in changes {
                        match change {
                            Changed::Put(entry) => drop(state.insert(entry.key.clone(), entry)),
                            Changed::Deleted(key) => drop(state.remove(&key)),
                        }
                    }
                }
            }
        }
        let expected = list(&*store, At::Revision(reached)).await;
        assert_eq!(state.into_values().collect::<Vec<_>>(), expected);
    }
    writes.await.unwrap();
}
