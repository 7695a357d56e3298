//! Providers that are away, slow or wrong.

use std::sync::Arc;
use std::time::Duration;

use insula_encryption::{Error, KeySummary};
use insula_kms::wire::EncryptResponse;
use insula_store::memory::Memory;
use insula_store::{At, Key, Outcome, Revision, Store, Transaction, WatchItem};
use insula_testkit::kms::FakeKms;
use tokio::time::timeout;

use crate::common::{config, open};
use crate::{
    ALL, everything, fill, folder_storage, kms_config, open_with, shared_storage, tenant, values,
};

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn create(store: &dyn Store, name: &str) -> Revision {
    let (key, object) = tenant(name);
    match store.commit(Transaction::create(key, object)).await {
        Ok(Outcome::Committed(revision)) => revision,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn first_write_needs_no_kms_that_was_there_at_the_start() {
    let mut kms = FakeKms::start().unwrap();
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let all = kms_config(&kms, &[]);
    let store = open_with(inner, folder_storage(folder.path()), &all)
        .await
        .unwrap();
    kms.stop();
    fill(&*store).await;
    assert_eq!(values(&*store, At::Latest).await, ALL);
}

#[tokio::test]
async fn refused_configuration_leaves_the_old_one_in_effect() {
    let mut kms = FakeKms::start().unwrap();
    kms.stop();
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let store = open(inner, storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let refused = store.reconfigure(&kms_config(&kms, &["one"])).await;
    assert!(
        matches!(refused, Err(Error::Provider { .. })),
        "{refused:?}"
    );
    store.rotate().await.unwrap();
    assert!(!store.stats().rotation_pending);
    let summary = KeySummary::read(storage()).await.unwrap();
    assert_eq!(summary.root_keys.len(), 1);
    assert_eq!(summary.root_keys[0].provider, "aesgcm:one");
}

#[tokio::test]
async fn kms_that_cannot_return_a_key_gets_none() {
    let kms = FakeKms::start().unwrap();
    kms.set_encrypt_response(Some(EncryptResponse {
        ciphertext: vec![7; 60],
        key_id: "key-1".to_owned(),
        annotations: [("scheme.kms.insula.test".to_owned(), b"aes-256-gcm".to_vec())].into(),
    }));
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let all = kms_config(&kms, &[]);
    let opened = open_with(inner.clone(), storage(), &all).await;
    assert!(matches!(opened.err(), Some(Error::Provider { .. })));
    let summary = KeySummary::read(storage()).await.unwrap();
    assert_eq!(summary.root_keys, []);
    kms.set_encrypt_response(None);
    open_with(inner, storage(), &all).await.unwrap();
}

#[tokio::test]
async fn damaged_root_key_is_an_error_that_names_its_file() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let store = open(inner.clone(), storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let mut files = folder.path().join("root-keys").read_dir().unwrap();
    let file = files.next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&file).unwrap();
    let (start, rest) = text.split_once("\"ciphertext\":\"").unwrap();
    let flipped = if rest.starts_with('A') { "B" } else { "A" };
    let damaged = format!("{start}\"ciphertext\":\"{flipped}{}", &rest[1..]);
    std::fs::write(&file, damaged).unwrap();
    let opened = open_with(inner, storage(), &config(&["one"], "'*.*'")).await;
    let Some(Error::Damaged { record, .. }) = opened.err() else {
        panic!("it was opened")
    };
    assert_eq!(record, file.display().to_string());
}

#[tokio::test]
async fn keys_in_memory_outlive_a_rotation_by_another_server() {
    let mut kms = FakeKms::start().unwrap();
    let (inner, all) = (Arc::new(Memory::new()), kms_config(&kms, &[]));
    let open = async || {
        open_with(inner.clone(), shared_storage(&inner), &all)
            .await
            .unwrap()
    };
    let (a, b) = (open().await, open().await);
    let filled = fill(&*a).await;
    assert_eq!(values(&*b, At::Latest).await, ALL);
    let mut watch = b.watch(everything(), filled).await.unwrap();
    kms.rotate("key-2").unwrap();
    a.rotate().await.unwrap();
    kms.stop();
    let rotated = inner.revision().await.unwrap();
    for at in filled.get()..rotated.get() {
        let item = timeout(TIMEOUT, watch.next()).await.unwrap();
        assert!(item.is_ok(), "{at}: {item:?}");
    }
    assert_eq!(values(&*b, At::Latest).await, ALL);
}

#[tokio::test]
async fn root_key_of_another_server_is_loaded_before_it_is_needed() {
    let mut kms = FakeKms::start().unwrap();
    let (inner, all) = (Arc::new(Memory::new()), kms_config(&kms, &[]));
    let open = async || {
        open_with(inner.clone(), shared_storage(&inner), &all)
            .await
            .unwrap()
    };
    let (a, b) = (open().await, open().await);
    kms.rotate("key-2").unwrap();
    a.rotate().await.unwrap();
    b.rotate().await.unwrap();
    kms.stop();
    create(&*a, "t1").await;
    assert_eq!(values(&*b, At::Latest).await, [ALL[3]]);
}

#[tokio::test]
async fn watch_waits_for_a_kms_that_is_away() {
    let mut kms = FakeKms::start().unwrap();
    let (inner, all) = (Arc::new(Memory::new()), kms_config(&kms, &[]));
    let open = async || {
        open_with(inner.clone(), shared_storage(&inner), &all)
            .await
            .unwrap()
    };
    let (a, b) = (open().await, open().await);
    kms.rotate("key-2").unwrap();
    a.rotate().await.unwrap();
    let before = inner.revision().await.unwrap();
    let tenants = insula_store::KeyRange::prefix("/registry/tenants/");
    let mut watch = b.watch(tenants, before).await.unwrap();
    kms.stop();
    create(&*a, "t1").await;
    let early = timeout(Duration::from_millis(1_500), watch.next()).await;
    assert!(early.is_err(), "{early:?}");
    kms.restart().unwrap();
    let item = timeout(TIMEOUT, watch.next()).await.unwrap().unwrap();
    assert!(matches!(item, WatchItem::Changes { .. }), "{item:?}");
}

#[tokio::test]
async fn watch_delivers_although_every_call_is_cancelled_before_its_key_is_loaded() {
    let kms = FakeKms::start().unwrap();
    let (inner, all) = (Arc::new(Memory::new()), kms_config(&kms, &[]));
    let open = async || {
        open_with(inner.clone(), shared_storage(&inner), &all)
            .await
            .unwrap()
    };
    let (a, b) = (open().await, open().await);
    kms.rotate("key-2").unwrap();
    a.rotate().await.unwrap();
    let before = inner.revision().await.unwrap();
    let tenants = insula_store::KeyRange::prefix("/registry/tenants/");
    let mut watch = b.watch(tenants, before).await.unwrap();
    create(&*a, "t1").await;
    kms.set_delay(Duration::from_millis(50));
    let delivered = async {
        loop {
            if let Ok(item) = timeout(Duration::from_millis(10), watch.next()).await {
                return item;
            }
        }
    };
    let item = timeout(Duration::from_secs(5), delivered).await;
    assert!(
        matches!(item, Ok(Ok(WatchItem::Changes { .. }))),
        "{item:?}"
    );
    let entry = b.get(&Key::from("/registry/tenants/t1")).await.unwrap();
    assert_eq!(entry.unwrap().value, ALL[3]);
}
