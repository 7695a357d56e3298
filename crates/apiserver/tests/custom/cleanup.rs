//! Custom objects after the deletion of their tenant, namespace or definition: nothing remains.

use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, DEFINITIONS, Setup, TestServer};
use serde_json::{Value, json};

use super::samples::{create, foo_path, names};
use super::{FOOS, foo, foos};

/// Waits until the store has no key of the tenant.
async fn until_no_key(server: &TestServer, tenant: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let keys = server.keys().await?;
        let left = keys
            .iter()
            .filter(|key| key.split('/').any(|part| part == tenant));
        let left: Vec<_> = left.collect();
        if left.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(20), "{left:?}");
        tokio::task::yield_now().await;
    }
}

fn widgets() -> Value {
    let mut definition = insula_testkit::server::definition(
        "ex.com",
        "widgets",
        "Widget",
        json!({"type": "object"}),
    );
    definition["spec"]["scope"] = "Cluster".into();
    definition
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "ex.com/v1", "kind": "Widget", "metadata": {"name": name}})
}

const WIDGETS: &str = "/apis/ex.com/v1/widgets";

/// Creates objects of two custom kinds.
async fn create_custom_objects(client: &Client) -> anyhow::Result<()> {
    client.define(&foos()).await?;
    client.define(&widgets()).await?;
    for name in ["a", "b", "c"] {
        create(client, FOOS, &foo(name, json!({}))).await?;
        create(client, WIDGETS, &widget(name)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_tenant_leaves_no_custom_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    create_custom_objects(&client).await?;
    create_custom_objects(&other).await?;
    let page = client.get(&format!("{FOOS}?limit=1")).await?.json();
    let token = page["metadata"]["continue"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let revision = page["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("")
        .to_owned();
    let mut watch = client
        .watch(&format!("{FOOS}?watch=true&resourceVersion={revision}"))
        .await?;
    let mut watch_of_system = system
        .watch(&format!(
            "/tenants/t1{FOOS}?watch=true&resourceVersion={revision}"
        ))
        .await?;
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    let deleted = |events: &[Value]| {
        let events = events.iter();
        events.filter(|event| event["type"] == "DELETED").count()
    };
    // The rights of the system's user do not end with the tenant: every deletion is sent.
    let events = watch_of_system.rest().await?;
    assert_eq!(deleted(&events), 3, "{events:?}");
    // Those of the tenant's user do, maybe before the watch has read the deletions. Then the
    // client is told that it missed some.
    let events = watch.rest().await?;
    let is_expired = |event: &Value| event["object"]["reason"] == "Expired";
    assert!(
        deleted(&events) == 3 || events.last().is_some_and(is_expired),
        "{events:?}"
    );
    until_no_key(&server, "t1").await?;
    assert_eq!(names(&other.get(FOOS).await?.json()), ["a", "b", "c"]);
    // A new tenant of the name has none of them.
    let client = server.tenant("t1").await?;
    for path in [
        FOOS.to_owned(),
        WIDGETS.to_owned(),
        foo_path("a"),
        "/apis/ex.io".into(),
        "/apis/ex.com/v1".into(),
        "/openapi/v3/apis/ex.io/v1".into(),
    ] {
        assert_eq!(client.get(&path).await?.status, 404, "{path}");
    }
    assert!(!client.get("/openapi/v2").await?.text().contains("ex.io"));
    assert_eq!(client.get(DEFINITIONS).await?.json()["items"], json!([]));
    client.define(&foos()).await?;
    assert_eq!(names(&client.get(FOOS).await?.json()), Vec::<&str>::new());
    let stale = client
        .get(&format!("{FOOS}?limit=1&continue={token}"))
        .await?;
    assert!([400, 410].contains(&stale.status), "{}", stale.text());
    let mut watch = client
        .watch(&format!("{FOOS}?watch=true&resourceVersion={revision}"))
        .await?;
    let reported = match watch.status {
        200 => watch.next().await?.unwrap_or_default()["object"]["code"].clone(),
        code => json!(code),
    };
    assert_eq!(reported, 410);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_deletion_waits_for_finalizers_of_custom_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, client) = (server.system().await?, server.tenant("t1").await?);
    create_custom_objects(&client).await?;
    let mut held = foo("held", json!({}));
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    create(&client, FOOS, &held).await?;
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    create(&client, WIDGETS, &held).await?;
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    client.until_gone(&foo_path("a")).await?;
    client.until_gone(&format!("{WIDGETS}/a")).await?;
    let refused = client.post(FOOS, &foo("more", json!({}))).await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    // The definition, the users and their permissions stay until the objects are gone.
    assert_eq!(names(&client.get(FOOS).await?.json()), ["held"]);
    assert_eq!(
        client
            .get(&format!("{DEFINITIONS}/foos.ex.io"))
            .await?
            .status,
        200
    );
    let begun = Instant::now();
    loop {
        let tenant = system.get("/api/v1/tenants/t1").await?.text();
        if tenant.contains("foos.ex.io has 1 resource instances")
            && tenant.contains("ex.io/hold in 2 resource instances")
        {
            break;
        }
        anyhow::ensure!(begun.elapsed() < Duration::from_secs(20), "{tenant}");
    }
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        client
            .patch(&foo_path("held"), "merge", &free)
            .await?
            .status,
        200
    );
    assert_eq!(system.get("/api/v1/tenants/t1").await?.status, 200);
    assert_eq!(
        client
            .patch(&format!("{WIDGETS}/held"), "merge", &free)
            .await?
            .status,
        200
    );
    system.until_gone("/api/v1/tenants/t1").await?;
    until_no_key(&server, "t1").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespace_deletion_removes_custom_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create_custom_objects(&client).await?;
    create(
        &client,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "n"}}),
    )
    .await?;
    let within = FOOS.replace("default", "n");
    create(&client, &within, &foo("free", json!({}))).await?;
    let mut held = foo("held", json!({}));
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    create(&client, &within, &held).await?;
    assert_eq!(client.delete("/api/v1/namespaces/n").await?.status, 200);
    client.until_gone(&format!("{within}/free")).await?;
    let refused = client.post(&within, &foo("more", json!({}))).await?;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.message(),
        "foos.ex.io \"more\" is forbidden: unable to create new content in namespace n because it \
         is being terminated"
    );
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        client
            .patch(&format!("{within}/held"), "merge", &free)
            .await?
            .status,
        200
    );
    client.until_gone("/api/v1/namespaces/n").await?;
    assert_eq!(names(&client.get(FOOS).await?.json()), ["a", "b", "c"]);
    assert_eq!(names(&client.get(WIDGETS).await?.json()), ["a", "b", "c"]);
    let keys = server.keys().await?;
    assert!(!keys.iter().any(|key| key.contains("/t1/n/")), "{keys:?}");
    let refused = client.post(&within, &foo("more", json!({}))).await?;
    assert_eq!(
        (refused.status, refused.message()),
        (404, "namespaces \"n\" not found".to_owned())
    );
    Ok(())
}

/// Creates objects until it is refused.
async fn keep_creating(client: &Client, prefix: &str) -> anyhow::Result<u32> {
    for number in 0.. {
        let created = client
            .post(FOOS, &foo(&format!("{prefix}{number}"), json!({})))
            .await?;
        match created.status {
            201 => {}
            403 | 404 => return Ok(number),
            _ => anyhow::bail!("{}", created.text()),
        }
    }
    Ok(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_is_created_while_its_definition_is_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let other = server.tenant("t2").await?;
    other.define(&foos()).await?;
    create(&other, FOOS, &foo("kept", json!({}))).await?;
    for _ in 0..3 {
        client.define(&foos()).await?;
        let definition = format!("{DEFINITIONS}/foos.ex.io");
        let end = async {
            while client.get(&foo_path("a5")).await?.status != 200 {
                tokio::task::yield_now().await;
            }
            client.delete(&definition).await
        };
        let (a, b, end) = tokio::try_join!(
            keep_creating(&client, "a"),
            keep_creating(&client, "b"),
            end
        )?;
        assert!(
            a > 5 && b > 0 && end.status == 200,
            "{a} {b} {}",
            end.text()
        );
        client.until_gone(&definition).await?;
        let keys = server.keys().await?;
        let left = keys
            .iter()
            .filter(|key| key.starts_with("/registry/ex.io/"));
        assert_eq!(
            left.collect::<Vec<_>>(),
            ["/registry/ex.io/foos/t2/default/kept"]
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_continues_after_a_restart() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server =
        TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let client = server.tenant("t1").await?;
    create_custom_objects(&client).await?;
    let mut held = foo("held", json!({}));
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    create(&client, FOOS, &held).await?;
    let definition = format!("{DEFINITIONS}/foos.ex.io");
    assert_eq!(client.delete(&definition).await?.status, 200);
    // A second definition waits for the names of the first.
    let mut heir =
        insula_testkit::server::definition("ex.io", "bars", "Foo", json!({"type": "object"}));
    heir["spec"]["names"]["singular"] = "bar".into();
    assert_eq!(client.post(DEFINITIONS, &heir).await?.status, 201);
    client
        .until_defined("bars.ex.io", "NamesAccepted", "False")
        .await?;
    server.stop().await;
    drop(server);
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = server.client("t1").await?;
    client.until_gone(&foo_path("a")).await?;
    assert_eq!(names(&client.get(FOOS).await?.json()), ["held"]);
    assert_eq!(
        client.post(FOOS, &foo("more", json!({}))).await?.status,
        403
    );
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        client
            .patch(&foo_path("held"), "merge", &free)
            .await?
            .status,
        200
    );
    client.until_gone(&definition).await?;
    client
        .until_defined("bars.ex.io", "Established", "True")
        .await?;
    assert_eq!(names(&client.get(WIDGETS).await?.json()), ["a", "b", "c"]);
    Ok(())
}
