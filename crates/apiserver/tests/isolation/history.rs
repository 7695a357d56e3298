//! Watches over all spaces keep their place whatever one tenant writes.

use std::sync::Arc;

use http::Method;
use insula_store::memory::Memory;
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

use super::fixtures::revision;
use super::principals::create;
use super::{MAPS, named};

const ALL: &str = "/api/v1/tenants/all/configmaps";

/// More objects of this size than the cache keeps history of.
const LARGE: usize = 900 << 10;
const NOISE: usize = 8;

fn labelled(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"team": value}}})
}

/// Writes more than the history of one kind, and deletes part of it.
async fn write_noise(client: &Client) -> anyhow::Result<()> {
    for number in 0..NOISE {
        let mut map = named(&format!("noise-{number}"));
        map["data"] = json!({"x": "x".repeat(LARGE)});
        create(client, MAPS, map).await?;
    }
    assert_eq!(client.delete(&format!("{MAPS}/noise-0")).await?.status, 200);
    Ok(())
}

/// The quiet tenant's changes: `a` is created, changed and deleted, then `last` is created.
async fn write_quietly(client: &Client) -> anyhow::Result<()> {
    create(client, MAPS, labelled("a", "red")).await?;
    for value in ["red", "blue"] {
        let path = format!("{MAPS}/a");
        let changed = client.put(&path, &labelled("a", value)).await?;
        assert_eq!(changed.status, 200, "{}", changed.text());
    }
    assert_eq!(client.delete(&format!("{MAPS}/a")).await?.status, 200);
    create(client, MAPS, labelled("last", "red")).await?;
    Ok(())
}

/// The events after a revision, up to that of `last`: their types, tenants and names.
async fn events(client: &Client, query: &str) -> anyhow::Result<Vec<String>> {
    events_at(client, ALL, query).await
}

async fn events_at(client: &Client, path: &str, query: &str) -> anyhow::Result<Vec<String>> {
    let mut watch = client.watch(&format!("{path}?watch=true&{query}")).await?;
    let mut events = Vec::new();
    loop {
        let event = watch.next().await?.unwrap_or_default();
        let (kind, metadata) = (&event["type"], &event["object"]["metadata"]);
        anyhow::ensure!(kind != "ERROR", "{event} after {events:?}");
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        events.push(
            [kind, &metadata["tenant"], &metadata["name"]]
                .map(text)
                .join(" "),
        );
        if metadata["name"] == "last" {
            return Ok(events);
        }
    }
}

/// The expected events, noise first.
fn expected() -> Vec<String> {
    let noise = (0..NOISE).map(|number| format!("ADDED t2 noise-{number}"));
    let rest = [
        "DELETED t2 noise-0",
        "ADDED t1 a",
        "MODIFIED t1 a",
        "DELETED t1 a",
        "ADDED t1 last",
    ];
    noise.chain(rest.map(str::to_owned)).collect()
}

async fn check_resumed(server: &TestServer) -> anyhow::Result<()> {
    let system = server.system().await?;
    let (quiet, noisy) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let since = revision(&system.get(&format!("{ALL}?limit=1")).await?.json());
    write_noise(&noisy).await?;
    write_quietly(&quiet).await?;
    let since = format!("resourceVersion={since}");
    assert_eq!(events(&system, &since).await?, expected());
    // Objects that leave the selection are deleted from it, with their last selected state.
    let selected = events(&system, &format!("{since}&labelSelector=team%3Dred")).await?;
    assert_eq!(selected, ["ADDED t1 a", "DELETED t1 a", "ADDED t1 last"]);
    // So does a watch of the noisy tenant itself.
    create(&noisy, MAPS, named("last")).await?;
    let own = events_at(&noisy, "/api/v1/configmaps", &since).await?;
    let noise = (0..NOISE).map(|number| format!("ADDED t2 noise-{number}"));
    let rest = ["DELETED t2 noise-0", "ADDED t2 last"].map(str::to_owned);
    assert_eq!(own, noise.chain(rest).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i46_noisy_tenant_does_not_end_watches_over_all_spaces() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded, Engine::Etcd] {
        // The test kit has printed that an engine is skipped.
        if let Some(server) = TestServer::start_on(engine, Setup::default()).await? {
            check_resumed(&server).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i46_slow_watch_over_all_spaces_misses_nothing() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let (quiet, noisy) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let since = revision(&system.get(&format!("{ALL}?limit=1")).await?.json());
    // A watch that is not read while the noise is written.
    let path = format!("{ALL}?watch=true&resourceVersion={since}");
    let mut watch = system.watch(&path).await?;
    write_noise(&noisy).await?;
    write_noise_again(&noisy).await?;
    write_quietly(&quiet).await?;
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "last") {
        let event = watch.next().await?.unwrap_or_default();
        anyhow::ensure!(event["type"] != "ERROR", "{event}");
        let name = &event["object"]["metadata"]["name"];
        names.push(name.as_str().unwrap_or("").to_owned());
    }
    let large = names
        .iter()
        .filter(|name| name.starts_with("noise"))
        .count();
    assert_eq!((large, names.len()), (3 * NOISE + 1, 3 * NOISE + 5));
    Ok(())
}

/// Writes the noise again, after the rest of it was deleted.
async fn write_noise_again(client: &Client) -> anyhow::Result<()> {
    let rest = client.send(Method::DELETE, MAPS, &[], "").await?;
    assert_eq!(rest.status, 200, "{}", rest.text());
    write_noise(client).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i46_watch_over_all_spaces_resumes_after_a_restart() -> anyhow::Result<()> {
    let store = Arc::new(Memory::new());
    let mut server = TestServer::start_on_store(store.clone(), Setup::default()).await?;
    let system = server.system().await?;
    let (quiet, noisy) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let since = revision(&system.get(&format!("{ALL}?limit=1")).await?.json());
    write_noise(&noisy).await?;
    write_quietly(&quiet).await?;
    server.stop().await;
    let server = TestServer::start_on_store(store, Setup::default()).await?;
    let system = server.system().await?;
    let since = format!("resourceVersion={since}");
    assert_eq!(events(&system, &since).await?, expected());
    Ok(())
}
