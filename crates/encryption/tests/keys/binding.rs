//! Keys beside a store belong to that store.

use std::sync::Arc;

use insula_core::Layout;
use insula_encryption::key_storage::{FolderStorage, StoreStorage};
use insula_encryption::{Error, KeySummary};
use insula_store::memory::Memory;
use insula_store::{At, Error as StoreError, KeyRange, Store, Transaction};

use crate::common::{config, open};
use crate::{ALL, delete_tenant, fill, folder_storage, open_with, shared_storage, tenant, values};

fn refusal(opened: Result<impl Sized, Error>) -> String {
    match opened.err() {
        Some(Error::OtherStore { detail, .. }) => detail,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn keys_are_kept_when_the_store_is_empty_or_another_one() {
    let (original, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let all = config(&["one"], "'*.*'");
    let store = open(original.clone(), storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let empty = open_with(Arc::new(Memory::new()), storage(), &all).await;
    assert_eq!(refusal(empty), "the store is empty or was never encrypted");
    // Another store with keys of its own, and a higher revision.
    let (other, others) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let filled = open(
        other.clone(),
        folder_storage(others.path()),
        &["one"],
        "'*.*'",
    )
    .await;
    for _ in 0..3 {
        fill_again(&*filled).await;
    }
    let found = refusal(open_with(other, storage(), &all).await);
    assert!(found.starts_with("the store has the ID "), "{found}");
    let reopened = open(original, storage(), &["one"], "'*.*'").await;
    assert_eq!(values(&*reopened, At::Latest).await, ALL);
}

async fn fill_again(store: &dyn Store) {
    let put = Transaction::new().put("/registry/secrets/s", "v");
    store.commit(put).await.unwrap();
    for name in ["t1", "t2"] {
        let (key, object) = tenant(name);
        store
            .commit(Transaction::new().put(key, object))
            .await
            .unwrap();
    }
}

/// Copies all entries, as a copy of the store's folder does.
async fn copy(from: &Memory) -> Arc<Memory> {
    let page = from
        .range(&crate::everything(), At::Latest, None)
        .await
        .unwrap();
    let copy = Arc::new(Memory::new());
    let mut put = Transaction::new();
    for entry in page.entries {
        put = put.put(entry.key, entry.value);
    }
    copy.commit(put).await.unwrap();
    copy
}

#[tokio::test]
async fn older_copy_of_the_store_is_refused_until_it_is_accepted() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let all = config(&["one"], "'*.*'");
    let store = open(inner.clone(), storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let old = copy(&inner).await;
    let (key, object) = tenant("t3");
    let create = Transaction::create(key, object);
    store.commit(create).await.unwrap();
    let refused = refusal(open_with(old.clone(), storage(), &all).await);
    assert!(
        refused.starts_with("the store is at revision "),
        "{refused}"
    );
    FolderStorage::accept_store(folder.path()).unwrap();
    let accepted = open(old, storage(), &["one"], "'*.*'").await;
    assert_eq!(values(&*accepted, At::Latest).await, ALL);
    delete_tenant(&*accepted, "t1").await;
    accepted.destroy_orphans().await.unwrap();
    let summary = KeySummary::read(storage()).await.unwrap();
    // The key of t3 is kept: the newer store may come back.
    assert_eq!((summary.active, summary.destroyed), (3, 1));
    refusal(open_with(inner.clone(), storage(), &all).await);
    FolderStorage::accept_store(folder.path()).unwrap();
    let newer = open(inner, storage(), &["one"], "'*.*'").await;
    let found = values(&*newer, At::Latest).await;
    assert_eq!(found[..2], [ALL[0], ALL[2]]);
    assert!(found.last().unwrap().contains("uid-t3"), "{found:?}");
}

#[tokio::test]
async fn copy_from_before_a_deletion_is_refused_at_once() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let all = config(&["one"], "'*.*'");
    let store = open(inner.clone(), storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let (old, at) = (copy(&inner).await, inner.revision().await.unwrap());
    while old.revision().await.unwrap() < at {
        let put = Transaction::new().put("/other", format!("{:?}", old.revision().await.unwrap()));
        old.commit(put).await.unwrap();
    }
    let reopened = open_with(old.clone(), storage(), &all).await;
    assert!(reopened.is_ok(), "{:?}", reopened.err());
    let store = open(inner.clone(), storage(), &["one"], "'*.*'").await;
    delete_tenant(&*store, "t1").await;
    let refused = refusal(open_with(old, storage(), &all).await);
    assert!(refused.ends_with("it is an older copy"), "{refused}");
}

#[tokio::test]
async fn store_can_be_started_empty_without_the_folder_of_its_keys() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let keys = folder.path().join("encryption");
    let store = open(inner, folder_storage(&keys), &["one"], "'*.*'").await;
    fill(&*store).await;
    std::fs::rename(&keys, folder.path().join("away")).unwrap();
    let store = open(
        Arc::new(Memory::new()),
        folder_storage(&keys),
        &["one"],
        "'*.*'",
    )
    .await;
    fill(&*store).await;
    assert_eq!(values(&*store, At::Latest).await, ALL);
}

/// Why the provider key of a shared store must be destroyed, or its history removed, before a deleted
/// tenant is unreadable.
#[tokio::test]
async fn shared_store_has_the_wrapped_key_of_a_deleted_tenant_until_it_is_compacted() {
    let inner = Arc::new(Memory::new());
    let store = open(inner.clone(), shared_storage(&inner), &["one"], "'*.*'").await;
    let filled = fill(&*store).await;
    delete_tenant(&*store, "t1").await;
    let record = Layout::default().encryption_record("data-keys/uid-t1");
    let record = KeyRange::single(record);
    let history = inner.range(&record, At::Revision(filled), None).await;
    let wrapped = history.unwrap().entries.remove(0).value;
    assert!(wrapped.starts_with(b"{\"state\":\"active\""), "{wrapped:?}");
    inner
        .compact(inner.revision().await.unwrap())
        .await
        .unwrap();
    let history = inner.range(&record, At::Revision(filled), None).await;
    assert!(
        matches!(history, Err(StoreError::Compacted { .. })),
        "{history:?}"
    );
}

#[tokio::test]
async fn shared_store_without_data_keys_is_not_encrypted() {
    let (inner, layout) = (Arc::new(Memory::new()), Layout::default());
    let store = open(inner.clone(), shared_storage(&inner), &["one"], "'*.*'").await;
    // There is a root key, and nothing is sealed.
    let found = StoreStorage::contains_keys(&*inner, &layout).await;
    assert_eq!(found, Ok(false));
    fill(&*store).await;
    let found = StoreStorage::contains_keys(&*inner, &layout).await;
    assert_eq!(found, Ok(true));
}
