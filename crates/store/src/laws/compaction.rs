//! Laws of compaction.

use std::sync::Arc;

use tokio::time::timeout;

use super::{WAIT_TIMEOUT, delete, entry, everything, key, list, next_changes, put};
use crate::{At, Changed, Error, Revision, Store};

type Subject = Arc<dyn Store>;

/// Creates some keys with some history, and returns its revisions.
async fn history(store: &dyn Store) -> Vec<Revision> {
    let mut revisions = vec![];
    for round in 0..4 {
        for name in ["a", "b", "c"] {
            revisions.push(put(store, name, &format!("{name}{round}")).await);
        }
        revisions.push(delete(store, "b").await);
    }
    revisions
}

pub async fn below_the_floor_nothing_can_be_read(store: Subject) {
    let revisions = history(&*store).await;
    let floor = revisions[9];
    store.compact(floor).await.unwrap();
    for revision in &revisions[..9] {
        let read = store
            .range(&everything(), At::Revision(*revision), None)
            .await;
        assert_eq!(read, Err(Error::Compacted { floor }), "at {revision}");
    }
}

pub async fn state_at_and_above_the_floor_is_unchanged(store: Subject) {
    let revisions = history(&*store).await;
    for floor in [3, 4, 5, 10, 15] {
        let mut before = vec![];
        for revision in &revisions[floor..] {
            before.push(list(&*store, At::Revision(*revision)).await);
        }
        store.compact(revisions[floor]).await.unwrap();
        for (revision, expected) in revisions[floor..].iter().zip(before) {
            let found = list(&*store, At::Revision(*revision)).await;
            assert_eq!(found, expected, "at {revision}, floor {}", revisions[floor]);
        }
    }
}

pub async fn floor_never_decreases(store: Subject) {
    let revisions = history(&*store).await;
    let floor = revisions[8];
    store.compact(floor).await.unwrap();
    store.compact(floor).await.unwrap();
    store.compact(revisions[2]).await.unwrap();
    let read = store
        .range(&everything(), At::Revision(revisions[7]), None)
        .await;
    assert_eq!(read, Err(Error::Compacted { floor }));
    list(&*store, At::Revision(floor)).await;
}

pub async fn future_floor_is_refused(store: Subject) {
    let current = put(&*store, "a", "1").await;
    let refused = store.compact(current.next()).await;
    assert_eq!(refused, Err(Error::Future { current }));
    list(&*store, At::Revision(current)).await;
}

pub async fn watch_from_below_the_floor_is_compacted(store: Subject) {
    let revisions = history(&*store).await;
    let floor = revisions[9];
    store.compact(floor).await.unwrap();
    for after in [revisions[0], revisions[7], revisions[8]] {
        let refused = match store.watch(everything(), after).await {
            Err(error) => error,
            Ok(mut watch) => {
                let delivered = timeout(WAIT_TIMEOUT, watch.next()).await.unwrap();
                delivered.expect_err("a change, although some before it are gone")
            }
        };
        assert_eq!(refused, Error::Compacted { floor }, "after {after}");
    }
}

pub async fn watch_from_the_floor_is_complete(store: Subject) {
    let revisions = history(&*store).await;
    store.compact(revisions[9]).await.unwrap();
    let mut watch = store.watch(everything(), revisions[9]).await.unwrap();
    for revision in &revisions[10..] {
        assert_eq!(next_changes(&mut *watch).await.0, *revision);
    }
    let gone = delete(&*store, "c").await;
    let delivered = next_changes(&mut *watch).await;
    assert_eq!(delivered, (gone, vec![Changed::Deleted(key("c"))]));
}

pub async fn keys_that_never_change_survive_every_compaction(store: Subject) {
    let still = put(&*store, "still", "here").await;
    for round in 0..5 {
        let revisions = history(&*store).await;
        store
            .compact(revisions[revisions.len() - 1 - round])
            .await
            .unwrap();
        let expected = entry("still", "here", still, still);
        assert_eq!(store.get(&key("still")).await, Ok(Some(expected)));
    }
}

pub async fn compaction_changes_neither_state_nor_revision(store: Subject) {
    let revisions = history(&*store).await;
    let last = revisions[revisions.len() - 1];
    let mut watch = store.watch(everything(), last).await.unwrap();
    let before = list(&*store, At::Latest).await;
    store.compact(last).await.unwrap();
    assert_eq!(store.revision().await, Ok(last));
    assert_eq!(list(&*store, At::Latest).await, before);
    assert_eq!(
        store.get(&key("b")).await,
        Ok(None),
        "deleted before the floor"
    );
    let next = put(&*store, "b", "new").await;
    assert_eq!(next, last.next());
    let delivered = next_changes(&mut *watch).await;
    assert_eq!(
        delivered,
        (next, vec![Changed::Put(entry("b", "new", next, next))])
    );
}
