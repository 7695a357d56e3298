//! Deleting a published definition also deletes the objects of all tenants that used it.

use http::Method;
use insula_testkit::server::TestServer;
use serde_json::json;

use super::{FOOS, create_foos, foo, foos, names, own, path, published};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_a_published_definition_deletes_tenants_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&published(foos())).await?;
    two.define(&own(foos(), "mine")).await?;
    create_foos(&one, &["a", "b"]).await?;
    create_foos(&two, &["c"]).await?;
    create_foos(&system, &["s"]).await?;
    let mut watch = one.watch(&format!("{FOOS}?watch=1")).await?;
    for _ in 0..2 {
        assert_eq!(watch.next().await?.unwrap_or_default()["type"], "ADDED");
    }
    let warning = r#"299 - "2 objects of it are in 1 tenant (t1): deleting it deletes these too""#;
    let foos_path = path("foos.ex.io");
    let tried = system.delete(&format!("{foos_path}?dryRun=All")).await?;
    assert_eq!((tried.status, tried.header("warning")), (200, warning));
    assert_eq!(names(&one.get(FOOS).await?.json()), ["a", "b"]);
    let before = system.get(&foos_path).await?.json();
    assert!(before["metadata"]["deletionTimestamp"].is_null());
    let deleted = system.delete(&foos_path).await?;
    assert_eq!((deleted.status, deleted.header("warning")), (200, warning));
    one.until_gone(&foos_path).await?;
    let rest = watch.rest().await?;
    let reported = rest.iter().map(|event| {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or("");
        format!("{} {name}", event["type"].as_str().unwrap_or(""))
    });
    assert_eq!(reported.collect::<Vec<_>>(), ["DELETED a", "DELETED b"]);
    assert_eq!(one.get(FOOS).await?.status, 404);
    assert_eq!(one.get("/apis/ex.io").await?.status, 404);
    assert_eq!(names(&two.get(FOOS).await?.json()), ["c"]);
    let keys = server.keys().await?;
    let mut foos = keys
        .iter()
        .filter(|key| key.starts_with("/registry/ex.io/foos/"));
    assert_eq!(
        foos.next().map(String::as_str),
        Some("/registry/ex.io/foos/t2/default/c")
    );
    assert_eq!(foos.next(), None);
    // A new definition of the name starts without objects.
    system.define(&published(super::foos())).await?;
    assert_eq!(names(&one.get(FOOS).await?.json()), Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finalizer_in_one_tenant_delays_the_definitions_removal() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&published(foos())).await?;
    create_foos(&two, &["b"]).await?;
    let mut held = foo("a", json!({}));
    held["metadata"]["finalizers"] = json!(["ex.io/hold"]);
    assert_eq!(one.post(FOOS, &held).await?.status, 201);
    assert_eq!(system.delete(&path("foos.ex.io")).await?.status, 200);
    two.until_gone(&format!("{FOOS}/b")).await?;
    // The condition says that objects remain, but not in which tenant.
    let begun = std::time::Instant::now();
    let message = loop {
        let seen = two.get(&path("foos.ex.io")).await?.json();
        let conditions = seen["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let found = conditions
            .into_iter()
            .find(|one| one["type"] == "Terminating")
            .cloned();
        let found = found.unwrap_or_default();
        if found["reason"] == "InstanceDeletionCheck" {
            break found["message"].as_str().unwrap_or("").to_owned();
        }
        anyhow::ensure!(begun.elapsed().as_secs() < 20, "{seen}");
    };
    assert_eq!(
        message,
        "could not confirm zero CustomResources remaining: some have finalizers and wait for them"
    );
    let left = one.get(&format!("{FOOS}/a")).await?.json();
    assert!(!left["metadata"]["deletionTimestamp"].is_null());
    // No new object can be created in the meantime.
    let late = two.post(FOOS, &foo("late", json!({}))).await?;
    assert_eq!(late.status, 403, "{}", late.text());
    assert!(
        late.message()
            .ends_with("create not allowed while custom resource definition is terminating")
    );
    let released = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        one.patch(&format!("{FOOS}/a"), "merge", &released)
            .await?
            .status,
        200
    );
    system.until_gone(&path("foos.ex.io")).await?;
    assert_eq!(one.get(FOOS).await?.status, 404);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_a_tenant_keeps_the_definition_and_other_tenants_objects() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&published(foos())).await?;
    create_foos(&one, &["a"]).await?;
    create_foos(&two, &["b"]).await?;
    let gone = system
        .send(Method::DELETE, "/api/v1/tenants/t1", &[], "")
        .await?;
    assert_eq!(gone.status, 200);
    system.until_gone("/api/v1/tenants/t1").await?;
    assert_eq!(names(&two.get(FOOS).await?.json()), ["b"]);
    let again = server.tenant("t1").await?;
    assert_eq!(names(&again.get(FOOS).await?.json()), Vec::<String>::new());
    Ok(())
}
