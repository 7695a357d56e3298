//! Keys while several tasks use them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use insula_encryption::KeySummary;
use insula_store::memory::Memory;
use insula_store::{At, Error as StoreError, Outcome, Store, Transaction};

use crate::common::open;
use crate::held_store::HeldStore;
use crate::{ALL, fill, folder_storage, tenant, values};

#[tokio::test]
async fn key_of_a_tenant_that_is_being_created_is_not_destroyed() {
    let (inner, folder) = (
        HeldStore::new("/registry/tenants/t1"),
        tempfile::tempdir().unwrap(),
    );
    let store = open(
        inner.clone(),
        folder_storage(folder.path()),
        &["one"],
        "'*.*'",
    )
    .await;
    let creating = tokio::spawn({
        let (store, (key, object)) = (Arc::clone(&store), tenant("t1"));
        async move { store.commit(Transaction::create(key, object)).await }
    });
    inner.await_held().await;
    store.destroy_orphans().await.unwrap();
    inner.release();
    let outcome = creating.await.unwrap();
    assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
    assert_eq!(values(&*store, At::Latest).await, [ALL[3]]);
}

#[tokio::test]
async fn young_key_of_a_cancelled_create_outlives_a_sweep() {
    let (inner, folder) = (
        HeldStore::new("/registry/tenants/t1"),
        tempfile::tempdir().unwrap(),
    );
    let store = open(
        inner.clone(),
        folder_storage(folder.path()),
        &["one"],
        "'*.*'",
    )
    .await;
    let (key, object) = tenant("t1");
    let create = Transaction::create(key, object);
    tokio::select! {
        _ = store.commit(create) => panic!("it was not held"),
        () = inner.await_held() => {}
    }
    // The engine may still be at it.
    store.destroy_orphans().await.unwrap();
    let summary = KeySummary::read(folder_storage(folder.path()))
        .await
        .unwrap();
    assert_eq!((summary.active, summary.destroyed), (1, 0));
}

#[tokio::test]
async fn refused_creation_of_a_tenant_leaves_no_key() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open(
        inner.clone(),
        folder_storage(folder.path()),
        &["one"],
        "'*.*'",
    )
    .await;
    fill(&*store).await;
    let again = "{\"metadata\":{\"name\":\"t1\",\"uid\":\"again\"}}";
    let create = Transaction::create(tenant("t1").0, again);
    let Ok(Outcome::Conflict(conflict)) = store.commit(create).await else {
        panic!("it was not refused")
    };
    assert_eq!(conflict.found.unwrap().value, ALL[3]);
    let summary = KeySummary::read(folder_storage(folder.path()))
        .await
        .unwrap();
    assert_eq!((summary.active, summary.destroyed), (3, 0));
}

#[tokio::test]
async fn key_of_a_tenant_is_destroyed_soon_after_a_deletion_without_an_answer() {
    let (inner, folder) = (
        HeldStore::new("/registry/tenants/t1"),
        tempfile::tempdir().unwrap(),
    );
    let store = open(
        inner.clone(),
        folder_storage(folder.path()),
        &["one"],
        "'*.*'",
    )
    .await;
    inner.release();
    fill(&*store).await;
    make_old(folder.path(), "uid-t1");
    inner.is_indeterminate.store(true, Ordering::Release);
    inner.release();
    let deleted = store
        .commit(Transaction::new().delete(tenant("t1").0))
        .await;
    assert!(
        matches!(deleted, Err(StoreError::Indeterminate(_))),
        "{deleted:?}"
    );
    let running = tokio::spawn(Arc::clone(&store).run());
    let destroyed = async {
        while store.stats().destroyed_keys == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), destroyed).await;
    running.abort();
    assert!(waited.is_ok(), "the key is still there");
}

/// Makes a data key old enough for a sweep.
fn make_old(folder: &std::path::Path, id: &str) {
    let file = folder.join(format!("data-keys/{id}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    let (start, _) = text.split_once("\"created\":").unwrap();
    std::fs::write(file, format!("{start}\"created\":1}}")).unwrap();
}
