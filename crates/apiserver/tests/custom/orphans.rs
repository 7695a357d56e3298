//! Orphaned objects: the definition's finalizer was removed by hand before its objects were
//! deleted.

use std::sync::Arc;

use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::json;

use super::{FOOS, foo, foos, names, path};

/// Leaves a Foo named `a` in the client's space without a definition.
async fn orphan_object(client: &Client) -> anyhow::Result<()> {
    client.define(&foos()).await?;
    let mut held = foo("a", json!({}));
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    assert_eq!(client.post(FOOS, &held).await?.status, 201);
    client.delete(&path("foos.ex.io")).await?;
    let let_go = json!({"metadata": {"finalizers": null}});
    let patched = client.patch(&path("foos.ex.io"), "merge", &let_go).await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    client.until_gone(&path("foos.ex.io")).await?;
    assert_eq!(client.get(FOOS).await?.status, 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphaned_objects_reappear_with_a_new_definition() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let tenant = server.tenant("t1").await?;
    orphan_object(&tenant).await?;
    tenant.define(&foos()).await?;
    assert_eq!(names(&tenant.get(FOOS).await?.json()), ["a"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreated_tenant_does_not_see_orphaned_objects() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server =
        TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    orphan_object(&server.tenant("t1").await?).await?;
    let system = server.system().await?;
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    system.until_gone("/api/v1/tenants/t1").await?;
    let keys = server.keys().await?;
    let left: Vec<_> = keys.iter().filter(|key| key.contains("/t1")).collect();
    assert_eq!(left, Vec::<&String>::new());
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let tenant = server.tenant("t1").await?;
    tenant.define(&foos()).await?;
    assert_eq!(names(&tenant.get(FOOS).await?.json()), Vec::<String>::new());
    Ok(())
}
