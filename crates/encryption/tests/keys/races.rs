//! Keys while several tasks use them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use insula_encryption::KeySummary;
use insula_store::memory::Memory;
use insula_store::{At, Error as StoreError, KeyRange, Outcome, Store, Transaction};
use insula_testkit::kms::FakeKms;

use crate::common::{config, open};
use crate::held_store::HeldStore;
use crate::{ALL, fill, folder_storage, kms_config, open_all, open_with, tenant, values};

#[tokio::test]
async fn key_of_a_tenant_that_is_being_created_is_not_destroyed() {
    let (inner, folder) = (
        HeldStore::new("/registry/tenants/t1"),
        tempfile::tempdir().unwrap(),
    );
    let store = open_all(inner.clone(), folder.path()).await;
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
    let store = open_all(inner.clone(), folder.path()).await;
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
    let store = open_all(inner.clone(), folder.path()).await;
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
    let store = open_all(inner.clone(), folder.path()).await;
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

/// A rotation by the clock, and one by a change of the configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_root_key_is_lost_when_two_rotations_meet() {
    let kms = FakeKms::start().unwrap();
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let kms_first = kms_config(&kms, &["one"]);
    let mut local_first = config(&["one"], "'*.*'");
    local_first.providers.push(kms_first.providers[0].clone());
    let store = open_with(inner.clone(), storage(), &kms_first)
        .await
        .unwrap();
    fill(&*store).await;
    for round in 0..40 {
        // So that the two meet at every step.
        kms.set_delay(Duration::from_micros(500 * (round as u64 % 20)));
        let next = [&local_first, &kms_first][round % 2];
        let (rotated, reconfigured) = tokio::join!(store.rotate(), store.reconfigure(next));
        reconfigured.unwrap();
        rotated.unwrap();
        let fresh = open_with(inner.clone(), storage(), next).await.unwrap();
        assert_eq!(values(&*fresh, At::Latest).await, ALL, "round {round}");
    }
}

/// Writes of new tenants, while the root key rotates back and forth in the same process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_data_key_is_lost_when_it_is_created_during_a_rotation_in_a_folder() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let keys = ["one", "two"];
    let store = open(inner.clone(), folder_storage(folder.path()), &keys, "'*.*'").await;
    let writer = Arc::clone(&store);
    let writing = tokio::spawn(async move {
        for index in 0..100 {
            let key = format!("/registry/secrets/t{index}/s");
            let outcome = writer.commit(Transaction::new().put(key, "v")).await;
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
        }
    });
    let mut rotations = 0;
    while !writing.is_finished() {
        for order in [["two", "one"], ["one", "two"]] {
            store.reconfigure(&config(&order, "'*.*'")).await.unwrap();
            rotations += 1;
        }
    }
    writing.await.unwrap();
    assert!(rotations >= 2, "{rotations}");
    let storage = folder_storage(folder.path());
    let summary = KeySummary::read(storage).await.unwrap();
    assert_eq!((summary.root_keys.len(), summary.active), (1, 100));
    // A new ring without the tenants' objects: opening would take the keys for orphans.
    for name in (0..100).map(|index| format!("t{index}")) {
        let (key, object) = tenant(&name);
        store
            .commit(Transaction::new().put(key, object))
            .await
            .unwrap();
    }
    let fresh = open(inner, folder_storage(folder.path()), &keys, "'*.*'").await;
    let all = KeyRange::prefix("/registry/secrets/");
    let page = fresh.range(&all, At::Latest, None).await.unwrap();
    assert_eq!(page.entries.len(), 100);
    assert!(page.entries.iter().all(|entry| entry.value == "v"));
}
