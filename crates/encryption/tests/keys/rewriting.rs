//! Rewriting of values beside other writes.

use std::sync::Arc;
use std::time::Duration;

use insula_core::Layout;
use insula_encryption::is_sealed;
use insula_store::memory::Memory;
use insula_store::{Key, Store, Transaction};
use tokio::time::timeout;

use crate::common::{TestResolver, config, open};
use crate::held_store::HeldStore;
use crate::{folder_storage, shared_storage};

async fn put(store: &dyn Store, key: &'static str, value: &[u8]) {
    let put = Transaction::new().put(key, value.to_vec());
    store.commit(put).await.unwrap();
}

async fn stored(store: &dyn Store, key: &'static str) -> Vec<u8> {
    store
        .get(&key.into())
        .await
        .unwrap()
        .unwrap()
        .value
        .to_vec()
}

#[tokio::test]
async fn value_of_a_write_that_began_under_older_rules_is_rewritten_too() {
    const KEY: &str = "/registry/secrets/s";
    let (inner, folder) = (HeldStore::new(KEY), tempfile::tempdir().unwrap());
    let storage = folder_storage(folder.path());
    let store = open(inner.clone(), storage, &["one"], "configmaps").await;
    let writing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { put(&*store, KEY, b"v").await }
    });
    inner.await_held().await;
    store
        .reconfigure(&config(&["one"], "secrets"))
        .await
        .unwrap();
    let mut rewriting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.rewrite(&TestResolver).await }
    });
    // It does not end before the write.
    let early = timeout(Duration::from_millis(200), &mut rewriting).await;
    assert!(early.is_err(), "{early:?}");
    // The write, and the rewriting of its value.
    inner.release();
    inner.release();
    writing.await.unwrap();
    rewriting.await.unwrap().unwrap();
    assert!(is_sealed(&stored(&*inner, KEY).await));
    assert!(!store.stats().rewrite_pending);
}

#[tokio::test]
async fn one_damaged_value_does_not_keep_others_from_being_rewritten() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = folder_storage(folder.path());
    put(&*inner, "/registry/secrets/a", b"insula:enc:v1:damaged").await;
    put(&*inner, "/registry/secrets/b", b"plain").await;
    let store = open(inner.clone(), storage, &["one"], "secrets").await;
    store.rewrite(&TestResolver).await.unwrap();
    assert!(is_sealed(&stored(&*inner, "/registry/secrets/b").await));
    assert!(store.stats().rewrite_pending, "one value is left");
    assert_eq!(store.stats().failed_rewrites, 1);
}

/// Another server may write by older rules until it has read the changed configuration.
#[tokio::test]
async fn values_of_a_shared_store_are_scanned_twice() {
    let inner = Arc::new(Memory::new());
    put(&*inner, "/registry/secrets/a", b"plain").await;
    let store = open(inner.clone(), shared_storage(&inner), &["one"], "secrets").await;
    store.rewrite(&TestResolver).await.unwrap();
    assert!(is_sealed(&stored(&*inner, "/registry/secrets/a").await));
    put(&*inner, "/registry/secrets/b", b"plain").await;
    store.rewrite(&TestResolver).await.unwrap();
    assert!(
        store.stats().rewrite_pending,
        "it waits for the second scan"
    );
    assert!(!is_sealed(&stored(&*inner, "/registry/secrets/b").await));
    // Some minutes later.
    let record: Key = Layout::default().encryption_record("rewrite").into();
    let text = inner.get(&record).await.unwrap().unwrap().value;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let (start, _) = text.split_once("\"ended\":").unwrap();
    let earlier = format!("{start}\"ended\":1}}");
    inner
        .commit(Transaction::new().put(record, earlier))
        .await
        .unwrap();
    store.rewrite(&TestResolver).await.unwrap();
    assert!(is_sealed(&stored(&*inner, "/registry/secrets/b").await));
    assert!(!store.stats().rewrite_pending);
}
