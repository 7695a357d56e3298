//! Life and death of data keys, rotation and rewriting.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod binding;
#[path = "../common/mod.rs"]
mod common;
mod held_store;
mod providers;
mod races;
mod rewriting;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use common::{TestResolver, config, open};
use insula_core::Layout;
use insula_encryption::key_storage::{FolderStorage, KeyStorage, StoreStorage};
use insula_encryption::{Config, EncryptedStore, Error, KeySummary, is_sealed};
use insula_store::memory::Memory;
use insula_store::{
    At, Change, Changed, Error as StoreError, KeyRange, Outcome, Revision, Store, Transaction,
    WatchItem,
};
use insula_testkit::kms::FakeKms;

fn folder_storage(folder: &Path) -> Arc<dyn KeyStorage> {
    Arc::new(FolderStorage::open(folder.to_owned()).unwrap())
}

fn tenant(name: &str) -> (String, String) {
    let object = format!("{{\"metadata\":{{\"name\":\"{name}\",\"uid\":\"uid-{name}\"}}}}");
    (format!("/registry/tenants/{name}"), object)
}

/// Creates tenants `t1` and `t2` with a Secret each, and a Secret of the system.
async fn fill(store: &dyn Store) -> Revision {
    for name in ["t1", "t2"] {
        let (key, object) = tenant(name);
        let secret = format!("/registry/secrets/{name}/s");
        let create = Transaction::create(key, object).put(secret, format!("marker-{name}"));
        assert!(matches!(
            store.commit(create).await,
            Ok(Outcome::Committed(_))
        ));
    }
    let put = Transaction::new().put("/registry/secrets/s", "marker-system");
    match store.commit(put).await {
        Ok(Outcome::Committed(revision)) => revision,
        other => panic!("{other:?}"),
    }
}

async fn delete_tenant(store: &dyn Store, name: &str) {
    let secret = format!("/registry/secrets/{name}/s");
    let delete = Transaction::new().delete(secret);
    store.commit(delete).await.unwrap();
    let delete = Transaction::new().delete(tenant(name).0);
    assert!(matches!(
        store.commit(delete).await,
        Ok(Outcome::Committed(_))
    ));
}

fn everything() -> KeyRange {
    KeyRange::prefix("/registry/")
}

/// Returns the values of all objects, without the records of encryption.
async fn values(store: &dyn Store, at: At) -> Vec<String> {
    let page = store.range(&everything(), at, None).await.unwrap();
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let objects = page.entries.iter().filter(|entry| !is_record(&entry.key));
    objects.map(|entry| text(&entry.value)).collect()
}

fn is_record(key: &[u8]) -> bool {
    let key = std::str::from_utf8(key).unwrap();
    Layout::default().encryption_record_name(key).is_some()
}

fn shared_storage(store: &Arc<Memory>) -> Arc<dyn KeyStorage> {
    let store: Arc<dyn Store> = store.clone();
    Arc::new(StoreStorage::new(store, Layout::default(), true))
}

/// A configuration with a KMS plugin first, and then local keys, for everything.
fn kms_config(kms: &FakeKms, keys: &[&str]) -> Config {
    let secret = |name: &str| {
        use base64::Engine;
        let secret: Vec<u8> = name.bytes().cycle().take(32).collect();
        base64::engine::general_purpose::STANDARD.encode(secret)
    };
    let keys: String = keys
        .iter()
        .map(|name| {
            format!(
                "  - aesgcm: {{keys: [{{name: {name}, secret: {}}}]}}\n",
                secret(name)
            )
        })
        .collect();
    let endpoint = kms.endpoint();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: ['*.*']\n  providers:\n  - kms: {{apiVersion: v2, name: fake, endpoint: '{endpoint}', timeout: 1s}}\n{keys}"
    );
    Config::parse(&text).unwrap()
}

async fn open_with(
    inner: Arc<dyn Store>,
    storage: Arc<dyn KeyStorage>,
    config: &Config,
) -> Result<Arc<EncryptedStore>, Error> {
    let store = EncryptedStore::open(inner, storage, Layout::default(), config).await?;
    store.attach(Arc::new(TestResolver));
    Ok(store)
}

/// Opens a store that seals everything with the key `one`.
async fn open_all(inner: Arc<dyn Store>, folder: &Path) -> Arc<EncryptedStore> {
    open(inner, folder_storage(folder), &["one"], "'*.*'").await
}

const ALL: [&str; 5] = [
    "marker-system",
    "marker-t1",
    "marker-t2",
    "{\"metadata\":{\"name\":\"t1\",\"uid\":\"uid-t1\"}}",
    "{\"metadata\":{\"name\":\"t2\",\"uid\":\"uid-t2\"}}",
];
const WITHOUT_T1: [&str; 3] = [ALL[0], ALL[2], ALL[4]];

#[tokio::test]
async fn no_value_is_plain_in_the_store_below() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open_all(inner.clone(), folder.path()).await;
    fill(&*store).await;
    assert_eq!(values(&*store, At::Latest).await, ALL);
    let page = inner.range(&everything(), At::Latest, None).await.unwrap();
    let objects = page.entries.iter().filter(|entry| !is_record(&entry.key));
    assert_eq!(objects.clone().count(), 5);
    for entry in objects {
        assert!(is_sealed(&entry.value), "{entry:?}");
        assert!(
            !entry.value.windows(6).any(|part| part == b"marker"),
            "{entry:?}"
        );
    }
    let summary = KeySummary::read(folder_storage(folder.path()))
        .await
        .unwrap();
    assert_eq!((summary.active, summary.destroyed), (3, 0));
}

#[tokio::test]
async fn values_of_a_destroyed_key_are_gone_from_history_and_watches() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open_all(inner.clone(), folder.path()).await;
    let filled = fill(&*store).await;
    delete_tenant(&*store, "t1").await;
    for store in [
        Arc::clone(&store),
        open_all(inner.clone(), folder.path()).await,
    ] {
        let then = At::Revision(filled);
        assert_eq!(values(&*store, then).await, WITHOUT_T1);
        // Pages are filled up: one entry, and more to come.
        let limit = NonZeroUsize::new(2);
        let page = store.range(&everything(), then, limit).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (2, true));
        let rest = everything().after(&page.entries[1].key);
        let page = store.range(&rest, then, limit).await.unwrap();
        assert_eq!((page.entries.len(), page.more), (1, false));
        let mut watch = store.watch(everything(), Revision::new(2)).await.unwrap();
        // The transaction of t1 has nothing left to deliver.
        assert!(matches!(watch.next().await, Ok(WatchItem::Progress(at)) if at.get() == 3));
        let Ok(WatchItem::Changes { changes, .. }) = watch.next().await else {
            panic!("no changes")
        };
        assert_eq!(changes.len(), 2, "{changes:?}");
        assert!(matches!(&changes[0], Changed::Put(entry) if entry.value == "marker-t2"));
    }
    let file = folder.path().join("data-keys/uid-t1.json");
    let tombstone = std::fs::read_to_string(file).unwrap();
    assert!(
        tombstone.starts_with("{\"state\":\"destroyed\",\"destroyed\":"),
        "{tombstone}"
    );
}

#[tokio::test]
async fn value_of_a_destroyed_key_is_not_in_the_way_of_a_create() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open_all(inner.clone(), folder.path()).await;
    fill(&*store).await;
    // The Secret stays: as in a copy of the store from before the deletion.
    let delete = Transaction::new().delete(tenant("t1").0);
    store.commit(delete).await.unwrap();
    assert_eq!(values(&*store, At::Latest).await, WITHOUT_T1);
    let (key, _) = tenant("t1");
    let next = "{\"metadata\":{\"name\":\"t1\",\"uid\":\"next\"}}";
    let create = Transaction::create("/registry/secrets/t1/s", "again")
        .check(key.clone(), insula_store::Expect::Absent)
        .put(key, next);
    assert!(matches!(
        store.commit(create).await,
        Ok(Outcome::Committed(_))
    ));
    let found = store
        .get(&"/registry/secrets/t1/s".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.value, "again");
    // A write with the old UID is refused: what it wrote could not be read.
    let late = Transaction::new().put("/registry/secrets/t1/late", "x");
    let late = store.commit(late).await.unwrap_err();
    assert_eq!(
        late,
        StoreError::Unavailable("the data key uid-t1 was destroyed with its tenant".to_owned())
    );
}

#[tokio::test]
async fn missing_key_that_was_not_destroyed_is_an_error_that_names_the_file() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open_all(inner.clone(), folder.path()).await;
    fill(&*store).await;
    let file = folder.path().join("data-keys/system.json");
    std::fs::remove_file(&file).unwrap();
    let store = open_all(inner, folder.path()).await;
    let error = store
        .range(&everything(), At::Latest, None)
        .await
        .unwrap_err();
    let detail = "the record is missing, and values are sealed with the data key system".to_owned();
    assert_eq!(error, StoreError::Corrupt { file, detail });
}

#[tokio::test]
async fn key_of_a_tenant_that_was_deleted_before_a_crash_is_destroyed_at_the_next_start() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open_all(inner.clone(), folder.path()).await;
    fill(&*store).await;
    // Below the encryption: the server stopped before it destroyed the key.
    let delete = Transaction::new().delete(tenant("t1").0);
    inner.commit(delete).await.unwrap();
    let store = open_all(inner, folder.path()).await;
    assert_eq!(values(&*store, At::Latest).await, WITHOUT_T1);
    let summary = KeySummary::read(folder_storage(folder.path()))
        .await
        .unwrap();
    assert_eq!((summary.active, summary.destroyed), (2, 1));
}

#[tokio::test]
async fn failed_destruction_is_repeated() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = open_all(inner.clone(), folder.path()).await;
    fill(&*store).await;
    // No file can be written where a folder has its name.
    let blocked = folder.path().join("data-keys/uid-t1.json.tmp");
    std::fs::create_dir(&blocked).unwrap();
    delete_tenant(&*store, "t1").await;
    assert_eq!(store.stats().undestroyed_keys, 1);
    std::fs::remove_dir(&blocked).unwrap();
    let running = tokio::spawn(Arc::clone(&store).run());
    while store.stats().undestroyed_keys > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    running.abort();
    assert_eq!(store.stats().destroyed_keys, 1);
}

#[tokio::test]
async fn rotation_makes_the_old_provider_key_unnecessary() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = || folder_storage(folder.path());
    let store = open(inner.clone(), storage(), &["one"], "'*.*'").await;
    fill(&*store).await;
    let removed = store.reconfigure(&config(&["two"], "'*.*'")).await;
    let Err(Error::ProviderKeyMissing { provider, .. }) = removed else {
        panic!("{removed:?}")
    };
    assert!(provider.starts_with("aesgcm:one (key ID "), "{provider}");
    store
        .reconfigure(&config(&["two", "one"], "'*.*'"))
        .await
        .unwrap();
    assert_eq!(values(&*store, At::Latest).await, ALL);
    let summary = KeySummary::read(storage()).await.unwrap();
    let providers = summary
        .root_keys
        .iter()
        .map(|key| (&*key.provider, key.data_keys));
    assert_eq!(providers.collect::<Vec<_>>(), [("aesgcm:two", 3)]);
    // Without the old key: in the running server, and at the next start.
    store.reconfigure(&config(&["two"], "'*.*'")).await.unwrap();
    let store = open(inner.clone(), storage(), &["two"], "'*.*'").await;
    assert_eq!(values(&*store, At::Latest).await, ALL);
    let only_old = config(&["one"], "'*.*'");
    let old = EncryptedStore::open(inner, storage(), Layout::default(), &only_old);
    assert!(matches!(
        old.await.err(),
        Some(Error::ProviderKeyMissing { .. })
    ));
}

#[tokio::test]
async fn values_are_rewritten_when_resources_are_added_and_removed() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    for (key, value) in [
        ("secrets/s", "a"),
        ("secrets/t1/s", "b"),
        ("configmaps/c", "c"),
    ] {
        let put = Transaction::new().put(format!("/registry/{key}"), value);
        inner.commit(put).await.unwrap();
    }
    let (key, object) = tenant("t1");
    inner
        .commit(Transaction::new().put(key, object))
        .await
        .unwrap();
    let sealed = || async {
        let page = inner.range(&everything(), At::Latest, None).await.unwrap();
        let sealed = page.entries.iter().filter(|entry| is_sealed(&entry.value));
        let keys = sealed.map(|entry| String::from_utf8(entry.key.to_vec()).unwrap());
        keys.collect::<Vec<_>>()
    };
    let store = open(
        inner.clone(),
        folder_storage(folder.path()),
        &["one"],
        "secrets",
    )
    .await;
    assert_eq!(sealed().await, [""; 0]);
    store.rewrite(&TestResolver).await.unwrap();
    assert_eq!(
        sealed().await,
        ["/registry/secrets/s", "/registry/secrets/t1/s"]
    );
    let before = store.revision().await.unwrap();
    store.rewrite(&TestResolver).await.unwrap();
    assert_eq!(store.revision().await.unwrap(), before, "it is done once");
    assert_eq!(store.stats().rewritten_values, 2);
    assert_eq!(values(&*store, At::Latest).await[..3], ["c", "a", "b"]);
    store
        .reconfigure(&config(&["one"], "configmaps"))
        .await
        .unwrap();
    store.rewrite(&TestResolver).await.unwrap();
    assert_eq!(sealed().await, ["/registry/configmaps/c"]);
    assert_eq!(values(&*store, At::Latest).await[..3], ["c", "a", "b"]);
}

#[tokio::test]
async fn servers_that_share_a_store_share_its_keys() {
    let inner = Arc::new(Memory::new());
    let storage = || -> Arc<dyn KeyStorage> {
        let store: Arc<dyn Store> = inner.clone();
        Arc::new(StoreStorage::new(store, Layout::default(), true))
    };
    let (a, b) = tokio::join!(
        open(inner.clone(), storage(), &["one"], "'*.*'"),
        open(inner.clone(), storage(), &["one"], "'*.*'")
    );
    let put = |key: String| Transaction::new().put(format!("/registry/secrets/{key}"), "v");
    let mut writes = tokio::task::JoinSet::new();
    for index in 0..20 {
        for store in [&a, &b] {
            let (store, key) = (Arc::clone(store), format!("t{index}/{index}"));
            writes.spawn(async move { store.commit(put(key)).await.unwrap() });
        }
    }
    writes.join_all().await;
    let summary = KeySummary::read(storage()).await.unwrap();
    assert_eq!((summary.root_keys.len(), summary.active), (1, 20));
    let all = KeyRange::prefix("/registry/secrets/");
    for store in [&a, &b] {
        let page = store.range(&all, At::Latest, None).await.unwrap();
        assert!(page.entries.iter().all(|entry| entry.value == "v"));
        assert_eq!(page.entries.len(), 20);
    }
    // One destroys a key, the other learns it from its watch.
    let (key, object) = tenant("t1");
    let at = match a.commit(Transaction::new().put(key.clone(), object)).await {
        Ok(Outcome::Committed(at)) => at,
        other => panic!("{other:?}"),
    };
    let mut watch = b.watch(everything(), at).await.unwrap();
    a.commit(Transaction::new().delete(key)).await.unwrap();
    for _ in 0..2 {
        watch.next().await.unwrap();
    }
    let page = b.range(&all, At::Latest, None).await.unwrap();
    assert_eq!(page.entries.len(), 19);
}

/// Writes of new tenants, while the root key rotates back and forth on another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_data_key_is_lost_when_it_is_created_during_a_rotation() {
    let inner = Arc::new(Memory::new());
    let storage = || -> Arc<dyn KeyStorage> {
        let store: Arc<dyn Store> = inner.clone();
        Arc::new(StoreStorage::new(store, Layout::default(), true))
    };
    let keys = ["one", "two"];
    let writer = open(inner.clone(), storage(), &keys, "'*.*'").await;
    let rotator = open(inner.clone(), storage(), &keys, "'*.*'").await;
    let writing = tokio::spawn(async move {
        for index in 0..200 {
            let key = format!("/registry/secrets/t{index}/s");
            let outcome = writer.commit(Transaction::new().put(key, "v")).await;
            assert!(matches!(outcome, Ok(Outcome::Committed(_))), "{outcome:?}");
            tokio::task::yield_now().await;
        }
    });
    let mut rotations = 0;
    while !writing.is_finished() {
        for order in [["two", "one"], ["one", "two"]] {
            rotator.reconfigure(&config(&order, "'*.*'")).await.unwrap();
            rotations += 1;
        }
    }
    writing.await.unwrap();
    assert!(rotations > 2, "{rotations}");
    let fresh = open(inner.clone(), storage(), &keys, "'*.*'").await;
    let all = KeyRange::prefix("/registry/secrets/");
    let page = fresh.range(&all, At::Latest, None).await.unwrap();
    assert_eq!(page.entries.len(), 200);
    assert!(page.entries.iter().all(|entry| entry.value == "v"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kms_is_asked_at_start_and_rotation_only_and_may_be_away_later() {
    let mut kms = FakeKms::start().unwrap();
    let config = Config::parse(&format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: ['*.*']\n  providers:\n  - kms: {{apiVersion: v2, name: fake, endpoint: '{}', timeout: 1s}}\n",
        kms.endpoint()
    ))
    .unwrap();
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let open = || async {
        let storage = folder_storage(folder.path());
        let opened = EncryptedStore::open(inner.clone(), storage, Layout::default(), &config);
        let opened = opened.await?;
        opened.attach(Arc::new(TestResolver));
        Ok::<_, Error>(opened)
    };
    let store = open().await.unwrap();
    fill(&*store).await;
    let count = |method: &str| {
        kms.calls()
            .iter()
            .filter(|call| call.method == method)
            .count()
    };
    assert_eq!((count("Encrypt"), count("Decrypt")), (1, 1));
    let summary = || async {
        KeySummary::read(folder_storage(folder.path()))
            .await
            .unwrap()
    };
    assert_eq!(summary().await.root_keys[0].key_id, "key-1");
    // A new key of the KMS is found by polling.
    kms.rotate("key-2").unwrap();
    store.rotate().await.unwrap();
    let after = summary().await;
    assert_eq!(after.root_keys.len(), 1);
    assert_eq!(
        (&*after.root_keys[0].key_id, after.root_keys[0].data_keys),
        ("key-2", 3)
    );
    assert_eq!(store.stats().rotations, 2);
    kms.destroy_key("key-1");
    let store = open().await.unwrap();
    assert_eq!(values(&*store, At::Latest).await, ALL);
    kms.stop();
    // New tenants need no KMS either.
    let (key, object) = tenant("t9");
    let put = Transaction::create(key, object).put("/registry/secrets/t9/s", "v");
    assert!(matches!(store.commit(put).await, Ok(Outcome::Committed(_))));
    store.rotate().await.unwrap_err();
    assert!(store.stats().rotation_pending);
    let error = open().await.err().unwrap();
    assert!(
        matches!(&error, Error::Provider { provider, .. } if provider == "kms:fake"),
        "{error}"
    );
    kms.restart().unwrap();
    let store = open().await.unwrap();
    assert_eq!(values(&*store, At::Latest).await.len(), 7);
}

#[tokio::test]
async fn write_before_spaces_are_known_is_refused_instead_of_stored_plain() {
    let (inner, folder) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let storage = folder_storage(folder.path());
    let config = config(&["one"], "secrets");
    let store = EncryptedStore::open(inner.clone(), storage, Layout::default(), &config);
    let store = store.await.unwrap();
    let put = Transaction::new().put("/registry/secrets/s", "v");
    assert!(matches!(put.changes(), [Change::Put { .. }]));
    let error = store.commit(put).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert_eq!(values(&*inner, At::Latest).await, [""; 0]);
}
