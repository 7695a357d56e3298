//! One resource name with a different definition in each space: none of them affects another.

use std::sync::Arc;

use insula_store::Store;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, Setup, TestServer};
use serde_json::{Value, json};

use super::{FOOS, create_foos, foo, foos, names, published};

const ALL: &str = "/apis/ex.io/v1/tenants/all/foos";
const V2: &str = "/apis/ex.io/v2/foos";

/// `foos.ex.io` in another version, cluster-scoped, with another schema, kind and column.
fn cluster_scoped_foos() -> Value {
    let mut definition = foos();
    let spec = &mut definition["spec"];
    spec["scope"] = "Cluster".into();
    spec["names"]["kind"] = "Fool".into();
    let version = &mut spec["versions"][0];
    version["name"] = "v2".into();
    version["additionalPrinterColumns"] =
        json!([{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight"}]);
    let schema = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    schema["properties"] = json!({"weight": {"type": "integer", "maximum": 9}});
    definition
}

fn fool(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "ex.io/v2", "kind": "Fool", "metadata": {"name": name}, "spec": spec})
}

/// Checks how each space serves the name.
async fn check(system: &Client, one: &Client, two: &Client) -> anyhow::Result<()> {
    assert_eq!(names(&one.get(FOOS).await?.json()), ["a"]);
    assert_eq!(names(&two.get(V2).await?.json()), ["default", "t1"]);
    assert_eq!(two.get(V2).await?.json()["kind"], "FoolList");
    assert_eq!(names(&system.get(ALL).await?.json()), ["s", "a"]);
    assert_eq!(one.get(V2).await?.status, 404);
    assert_eq!(two.get(FOOS).await?.status, 404);
    assert_eq!(names(&system.get(FOOS).await?.json()), ["s"]);
    for (client, path, namespaced, kind) in [
        (one, "/apis/ex.io/v1", true, "Foo"),
        (two, "/apis/ex.io/v2", false, "Fool"),
        (system, "/apis/ex.io/v1", true, "Foo"),
    ] {
        let found = client.get(path).await?.json();
        assert_eq!(found["resources"][0]["namespaced"], namespaced, "{path}");
        assert_eq!(found["resources"][0]["kind"], kind, "{path}");
    }
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let columns = two.accept(V2, table).await?.json();
    assert_eq!(columns["columnDefinitions"][1]["name"], "Weight");
    let columns = one.accept(FOOS, table).await?.json();
    assert_eq!(columns["columnDefinitions"][1]["name"], "Age");
    let heavy = two.post(V2, &fool("b", json!({"weight": 10}))).await?;
    assert_eq!(heavy.status, 422, "{}", heavy.text());
    let (path, sent) = (
        format!("{FOOS}?dryRun=All"),
        json!({"weight": 10, "color": "red"}),
    );
    let unknown = one.post(&path, &foo("b", sent)).await?.json();
    assert_eq!(unknown["spec"], json!({"color": "red", "size": 3}));
    let schema = two.get("/openapi/v3/apis/ex.io/v2").await?.text();
    assert!(schema.contains("weight") && !schema.contains("color"));
    let schema = one.get("/openapi/v3/apis/ex.io/v1").await?.text();
    assert!(schema.contains("color") && !schema.contains("weight"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scope_version_schema_and_columns_are_per_space() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server =
        TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let (system, one) = (server.system().await?, server.tenant("t1").await?);
    let two = server.tenant("t2").await?;
    system.define(&published(foos())).await?;
    two.define(&cluster_scoped_foos()).await?;
    create_foos(&system, &["s"]).await?;
    create_foos(&one, &["a"]).await?;
    // Names that look like namespaces and tenants in store keys.
    for name in ["default", "t1"] {
        let created = two.post(V2, &fool(name, json!({"weight": 1}))).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    check(&system, &one, &two).await?;
    // The same after a restart.
    let list = system.get(ALL).await?.json();
    let at = list["metadata"]["resourceVersion"].as_str().unwrap_or("");
    create_foos(&one, &["later"]).await?;
    let past = format!("{ALL}?resourceVersion={at}&resourceVersionMatch=Exact");
    assert_eq!(names(&system.get(&past).await?.json()), ["s", "a"]);
    assert_eq!(one.delete(&format!("{FOOS}/later")).await?.status, 200);
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let (system, one) = (server.system().await?, server.client("t1").await?);
    check(&system, &one, &server.client("t2").await?).await
}
