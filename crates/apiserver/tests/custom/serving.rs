//! A definition is served in its own space only.

use insula_testkit::server::{DEFINITIONS, TestServer};
use serde_json::json;

use super::{FOOS, foo, foos};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_kind_is_served_in_its_own_space_only() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    assert_eq!(one.get(FOOS).await?.status, 404);
    let defined = one.define(&foos()).await?;
    assert_eq!(defined["status"]["acceptedNames"]["singular"], "foo");
    let created = one.post(FOOS, &foo("a", json!({"color": "red"}))).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let created = created.json();
    assert_eq!(created["spec"], json!({"color": "red", "size": 3}));
    assert_eq!(created["metadata"]["tenant"], "t1");
    assert_eq!(created["metadata"]["generation"], 1);
    let read = one.get(&format!("{FOOS}/a")).await?.json();
    assert_eq!(read, created);
    let listed = one.get(FOOS).await?.json();
    assert_eq!(listed["kind"], "FooList");
    assert_eq!(listed["items"][0]["spec"]["size"], 3);
    assert_eq!(other.get(FOOS).await?.status, 404);
    let gone = one.delete(&format!("{DEFINITIONS}/foos.ex.io")).await?;
    assert_eq!(gone.status, 200, "{}", gone.text());
    one.until_gone(&format!("{DEFINITIONS}/foos.ex.io")).await?;
    assert_eq!(one.get(FOOS).await?.status, 404);
    Ok(())
}
