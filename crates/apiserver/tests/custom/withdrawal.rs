//! Withdrawing a published definition: refused while tenants have objects of it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use insula_core::Revision;
use insula_store::memory::Memory;
use insula_store::{At, Change, KeyRange, Outcome, Page, Result, Store, Transaction, Watch};
use insula_testkit::server::{Setup, TestServer, definition};
use memchr::memmem;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{FOOS, PUBLISHED, create_foos, foo, foos, names, own, path, published};

fn withdraw() -> Value {
    json!({"metadata": {"annotations": {PUBLISHED: null}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_with_tenants_objects_cannot_be_withdrawn() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&published(foos())).await?;
    // Objects in the system space and in a tenant with its own definition do not count.
    let three = server.tenant("t3").await?;
    three.define(&own(foos(), "mine")).await?;
    create_foos(&three, &["z"]).await?;
    create_foos(&system, &["s"]).await?;
    create_foos(&one, &["a", "b"]).await?;
    create_foos(&two, &["a"]).await?;
    let wanted = "CustomResourceDefinition.apiextensions.k8s.io \"foos.ex.io\" is invalid: \
                  metadata.annotations[multi-tenancy.k8s.io/published]: Forbidden: 3 objects of it \
                  are in 2 tenants (t1, t2): delete these first, or delete the definition, which \
                  deletes them too";
    let foos_path = path("foos.ex.io");
    let before = system.get(&foos_path).await?.json();
    let mut other = before.clone();
    other["metadata"]["annotations"][PUBLISHED] = "false".into();
    let mut none = before.clone();
    none["metadata"]["annotations"] = Value::Null;
    let remove = json!([{"op": "remove", "path": "/metadata/annotations"}]);
    let answers = [
        system.patch(&foos_path, "merge", &withdraw()).await?,
        system.patch(&foos_path, "json", &remove).await?,
        system
            .patch(&format!("{foos_path}?dryRun=All"), "merge", &withdraw())
            .await?,
        system.put(&foos_path, &other).await?,
        system.put(&foos_path, &none).await?,
    ];
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(
            (answer.status, answer.message()),
            (422, wanted.to_owned()),
            "{at}"
        );
    }
    assert_eq!(system.get(&foos_path).await?.json(), before);
    assert_eq!(names(&one.get(FOOS).await?.json()), ["a", "b"]);
    // Other changes are allowed.
    let labels = json!({"metadata": {"labels": {"a": "1"}}});
    assert_eq!(
        system.patch(&foos_path, "merge", &labels).await?.status,
        200
    );
    one.delete(FOOS).await?;
    two.delete(FOOS).await?;
    let done = system.patch(&foos_path, "merge", &withdraw()).await?;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(names(&three.get(FOOS).await?.json()), ["z"]);
    assert_eq!(names(&system.get(FOOS).await?.json()), ["s"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withdrawal_ends_watches_and_discovery_at_once() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&published(foos())).await?;
    create_foos(&tenant, &["a"]).await?;
    let mut watch = tenant.watch(&format!("{FOOS}?watch=1")).await?;
    assert_eq!(watch.next().await?.unwrap_or_default()["type"], "ADDED");
    tenant.delete(&format!("{FOOS}/a")).await?;
    let begun = std::time::Instant::now();
    let done = system
        .patch(&path("foos.ex.io"), "merge", &withdraw())
        .await?;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(tenant.get("/apis/ex.io/v1").await?.status, 404);
    assert_eq!(tenant.get(FOOS).await?.status, 404);
    assert_eq!(tenant.get(&path("foos.ex.io")).await?.status, 404);
    let rest = watch.rest().await?;
    assert!(begun.elapsed().as_secs() < 1, "{:?}", begun.elapsed());
    let kinds: Vec<_> = rest.iter().map(|event| event["type"].as_str()).collect();
    // The watch ends without an error.
    assert_eq!(kinds, [Some("DELETED")]);
    // Published again, it starts without objects.
    let publish = json!({"metadata": {"annotations": {PUBLISHED: "true"}}});
    system.patch(&path("foos.ex.io"), "merge", &publish).await?;
    assert_eq!(names(&tenant.get(FOOS).await?.json()), Vec::<String>::new());
    create_foos(&tenant, &["b"]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_withdrawal_and_create_lose_no_object() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let publish = json!({"metadata": {"annotations": {PUBLISHED: "true"}}});
    system.define(&published(foos())).await?;
    for round in 0..30 {
        let object = foo(&format!("a{round}"), json!({}));
        let (foos_path, patch) = (path("foos.ex.io"), withdraw());
        let (created, withdrawn) = tokio::join!(
            tenant.post(FOOS, &object),
            system.patch(&foos_path, "merge", &patch)
        );
        let (created, withdrawn) = (created?, withdrawn?);
        match (created.status, withdrawn.status) {
            // The object was created before, and still exists.
            (201, 422) => {
                assert_eq!(
                    names(&tenant.get(FOOS).await?.json()),
                    [format!("a{round}")]
                );
                assert_eq!(tenant.delete(FOOS).await?.status, 200);
            }
            (404 | 403 | 409, 200) => {
                assert_eq!(tenant.get(FOOS).await?.status, 404);
                let again = system.patch(&foos_path, "merge", &publish).await?;
                assert_eq!(again.status, 200, "{}", again.text());
                assert_eq!(names(&tenant.get(FOOS).await?.json()), Vec::<String>::new());
            }
            other => panic!("{other:?}: {} {}", created.text(), withdrawn.text()),
        }
    }
    Ok(())
}

/// A store in which a withdrawal waits until it is released.
struct HeldStore {
    inner: Memory,
    arrived: Semaphore,
    let_go: Semaphore,
}

#[async_trait]
impl Store for HeldStore {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        self.inner.range(range, at, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        let withdraws = transaction.changes().iter().any(|change| match change {
            Change::Put { value, .. } => memmem::find(value, br#""withdrawn":"now""#).is_some(),
            Change::Delete { .. } => false,
        });
        if withdraws {
            self.arrived.add_permits(1);
            if let Ok(permit) = self.let_go.acquire().await {
                permit.forget();
            }
        }
        self.inner.commit(transaction).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        self.inner.watch(range, after).await
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.inner.compact(floor).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_created_during_withdrawal_republishes_the_definition() -> anyhow::Result<()> {
    let store = Arc::new(HeldStore {
        inner: Memory::new(),
        arrived: Semaphore::new(0),
        let_go: Semaphore::new(0),
    });
    let over: Arc<dyn Store> = Arc::<HeldStore>::clone(&store);
    let server = TestServer::start_on_store(over, Setup::with_controllers()).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let defined = system.define(&published(foos())).await?;
    let patch = json!({"metadata": {
        "annotations": {PUBLISHED: null}, "labels": {"withdrawn": "now"},
    }});
    let foos_path = path("foos.ex.io");
    let withdrawing = system.patch(&foos_path, "merge", &patch);
    let creating = async {
        store.arrived.acquire().await?.forget();
        let created = create_foos(&tenant, &["a"]).await;
        store.let_go.add_permits(10);
        created
    };
    let (withdrawn, created) = tokio::join!(withdrawing, creating);
    created?;
    let withdrawn = withdrawn?;
    assert_eq!(withdrawn.status, 422, "{}", withdrawn.text());
    assert!(
        withdrawn
            .message()
            .contains("Forbidden: 1 object of it is in 1 tenant (t1): delete these first"),
        "{}",
        withdrawn.message()
    );
    // The definition is as before, after it was unpublished for a moment.
    let mut now = system.get(&foos_path).await?.json();
    assert_ne!(now, defined);
    now["metadata"]["resourceVersion"] = defined["metadata"]["resourceVersion"].clone();
    assert_eq!(now, defined);
    assert_eq!(names(&tenant.get(FOOS).await?.json()), ["a"]);
    assert_eq!(tenant.delete(&format!("{FOOS}/a")).await?.status, 200);
    let done = system.patch(&foos_path, "merge", &withdraw()).await?;
    assert_eq!(done.status, 200, "{}", done.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_withdrawn_definitions_are_free() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&published(foos())).await?;
    let mut other = definition("ex.io", "others", "Foo", json!({"type": "object"}));
    other["spec"]["names"]["singular"] = "other".into();
    let created = tenant.post(super::DEFINITIONS, &other).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    tenant
        .until_defined("others.ex.io", "NamesAccepted", "False")
        .await?;
    system
        .patch(&path("foos.ex.io"), "merge", &withdraw())
        .await?;
    tenant
        .until_defined("others.ex.io", "Established", "True")
        .await?;
    Ok(())
}
