//! Lists and watches over all spaces: they cover the spaces that share the system's definition and
//! no others.

use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use super::{FOOS, PUBLISHED, create_foos, foo, foos, own, path, published};

const ALL: &str = "/apis/ex.io/v1/tenants/all/foos";

/// `tenant/name` of each object in a list.
fn keys(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(key).collect()
}

fn key(object: &Value) -> String {
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or("").to_owned();
    format!("{}/{}", text("tenant"), text("name"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_over_all_spaces_skips_other_definitions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&foos()).await?;
    two.define(&own(foos(), "mine")).await?;
    create_foos(&two, &["c"]).await?;
    create_foos(&system, &["s"]).await?;
    // An unpublished definition is the system's own.
    assert_eq!(keys(&system.get(ALL).await?.json()), ["/s"]);
    let publish = json!({"metadata": {"annotations": {PUBLISHED: "true"}}});
    system.patch(&path("foos.ex.io"), "merge", &publish).await?;
    create_foos(&one, &["a", "b"]).await?;
    let list = system.get(ALL).await?.json();
    assert_eq!(keys(&list), ["/s", "t1/a", "t1/b"]);
    // Also in pages and at past revisions.
    let first = system.get(&format!("{ALL}?limit=2")).await?.json();
    assert_eq!(keys(&first), ["/s", "t1/a"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    create_foos(&two, &["d"]).await?;
    create_foos(&one, &["e"]).await?;
    let token = first["metadata"]["continue"].as_str().unwrap_or("");
    let second = system
        .get(&format!("{ALL}?limit=2&continue={token}"))
        .await?
        .json();
    assert_eq!(keys(&second), ["t1/b"]);
    let at = list["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let past = format!("{ALL}?resourceVersion={at}&resourceVersionMatch=Exact");
    assert_eq!(
        keys(&system.get(&past).await?.json()),
        ["/s", "t1/a", "t1/b"]
    );
    // Tenants cannot list all spaces.
    assert_eq!(one.get(ALL).await?.status, 403);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_over_all_spaces_covers_the_shared_definition() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, one, two) = (
        server.system().await?,
        server.tenant("t1").await?,
        server.tenant("t2").await?,
    );
    system.define(&published(foos())).await?;
    two.define(&own(foos(), "mine")).await?;
    create_foos(&two, &["hidden"]).await?;
    create_foos(&one, &["a"]).await?;
    let mut watch = system.watch(&format!("{ALL}?watch=1")).await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(
        (first["type"].as_str(), key(&first["object"]).as_str()),
        (Some("ADDED"), "t1/a")
    );
    create_foos(&two, &["hidden-too"]).await?;
    let patch = json!({"spec": {"color": "red"}});
    two.patch(&format!("{FOOS}/hidden"), "merge", &patch)
        .await?;
    two.delete(&format!("{FOOS}/hidden")).await?;
    create_foos(&system, &["s"]).await?;
    let next = watch.next().await?.unwrap_or_default();
    assert_eq!(
        (next["type"].as_str(), key(&next["object"]).as_str()),
        (Some("ADDED"), "/s")
    );
    // When the tenant deletes its own definition, it uses the system's again.
    two.delete(&path("foos.ex.io")).await?;
    let begun = std::time::Instant::now();
    while two.post(FOOS, &foo("mine", json!({}))).await?.status != 201 {
        anyhow::ensure!(begun.elapsed().as_secs() < 20);
    }
    let next = watch.next().await?.unwrap_or_default();
    assert_eq!(
        (next["type"].as_str(), key(&next["object"]).as_str()),
        (Some("ADDED"), "t2/mine")
    );
    // A watch from a past revision delivers the same.
    let at = first["object"]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("");
    let mut past = system
        .watch(&format!("{ALL}?watch=1&resourceVersion={at}"))
        .await?;
    for wanted in ["/s", "t2/mine"] {
        let event = past.next().await?.unwrap_or_default();
        assert_eq!(key(&event["object"]), wanted);
    }
    Ok(())
}

/// The event log that a watch over all spaces reads is removed with the last tenant that has
/// objects of the kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_over_all_spaces_ends_when_its_log_is_removed() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let system = server.system().await?;
    system.define(&published(foos())).await?;
    let streamed = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for query in ["?watch=1", streamed] {
        let one = server.tenant("t1").await?;
        create_foos(&one, &["a"]).await?;
        let mut watch = system.watch(&format!("{ALL}{query}")).await?;
        system.delete("/api/v1/tenants/t1").await?;
        system.until_gone("/api/v1/tenants/t1").await?;
        let mut reported = Vec::new();
        while let Some(event) = watch.next().await? {
            let object = &event["object"];
            reported.push((event["type"].clone(), key(object), object["code"].clone()));
        }
        // The pending events are delivered, then the watch ends with an error.
        assert_eq!(
            reported,
            [
                (json!("ADDED"), "t1/a".to_owned(), Value::Null),
                (json!("DELETED"), "t1/a".to_owned(), Value::Null),
                (json!("ERROR"), "/".to_owned(), json!(410)),
            ]
        );
        // A new watch sees later events.
        let mut watch = system.watch(&format!("{ALL}{query}")).await?;
        let two = server.tenant("t2").await?;
        create_foos(&two, &["b"]).await?;
        let event = watch.next().await?.unwrap_or_default();
        assert_eq!(key(&event["object"]), "t2/b");
        system.delete("/api/v1/tenants/t2").await?;
        system.until_gone("/api/v1/tenants/t2").await?;
    }
    Ok(())
}
