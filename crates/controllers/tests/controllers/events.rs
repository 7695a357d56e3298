//! Expiry of events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_controllers::Settings;
use insula_core::Revision;
use insula_store::memory::Memory;
use insula_store::{At, KeyRange, Store, Transaction};
use insula_testkit::server::{Client, Engine, Setup, TestServer};
use serde_json::{Value, json};

use super::{count, create, until, until_gone};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn event(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested", "message": "it is", "type": "Normal",
    })
}

fn new_event(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested", "note": "it is", "type": "Normal", "action": "Test",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x.io/tests", "reportingInstance": "one",
    })
}

fn living_for(seconds: u64) -> Setup {
    let controller_settings = Settings {
        event_ttl: Duration::from_secs(seconds),
    };
    Setup {
        controller_settings,
        ..Setup::with_controllers()
    }
}

#[tokio::test]
async fn event_is_removed_when_its_ttl_is_over_and_not_before() -> anyhow::Result<()> {
    for engine in [Engine::Memory, Engine::Embedded, Engine::Etcd] {
        let Some(server) = TestServer::start_on(engine, living_for(1)).await? else {
            continue;
        };
        for client in [server.system().await?, server.tenant("t1").await?] {
            let begun = Instant::now();
            create(&client, EVENTS, event("core")).await?;
            create(&client, NEW_EVENTS, new_event("new")).await?;
            assert_eq!(count(&client, EVENTS).await?, 2);
            for name in ["core", "new"] {
                until_gone(&client, &format!("{EVENTS}/{name}")).await?;
            }
            assert!(begun.elapsed() >= Duration::from_secs(1));
            assert_eq!(count(&client, NEW_EVENTS).await?, 0);
        }
    }
    Ok(())
}

#[tokio::test]
async fn writing_an_event_again_extends_its_life() -> anyhow::Result<()> {
    let server = TestServer::start_with(living_for(2)).await?;
    let client = server.tenant("t1").await?;
    for name in ["left", "kept"] {
        create(&client, EVENTS, event(name)).await?;
    }
    let kept = format!("{EVENTS}/kept");
    let mut writes = 0;
    while client.get(&format!("{EVENTS}/left")).await?.status == 200 {
        writes += 1;
        let patch = json!({"count": writes});
        let patched = client.patch(&kept, "merge", &patch).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(client.get(&kept).await?.json()["count"], writes);
    until_gone(&client, &kept).await?;
    Ok(())
}

/// Stores the event as written by a server so long ago, or without a time.
async fn put(
    store: &dyn Store,
    name: &str,
    created: i64,
    written: Option<i64>,
) -> anyhow::Result<Revision> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let now = i64::try_from(now.as_secs())?;
    let date = written.map(|age| format!(",\"lastWritten\":{:010}", now - age));
    let text = format!(
        r#"{{"kind":"Event","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"u-{name}","creationTimestamp":"{}","tenant":"t1"}},"reason":"Tested"{}}}"#,
        timestamp(now - created),
        date.unwrap_or_default()
    );
    let key = format!("/registry/events/t1/default/{name}");
    let put = Transaction::new().put(key.into_bytes(), text);
    match store.commit(put).await? {
        insula_store::Outcome::Committed(revision) => Ok(revision),
        other => anyhow::bail!("{other:?}"),
    }
}

/// A timestamp in the format of Kubernetes.
fn timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |time| time.to_string())
}

async fn names(client: &Client) -> anyhow::Result<Vec<String>> {
    let list = client.get(EVENTS).await?.json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let names = items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

#[tokio::test]
async fn restart_does_not_change_when_events_expire() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    server.tenant("t1").await?;
    server.stop().await;
    for (name, created, written) in [
        ("old", 3_700, Some(3_650)),
        ("renewed", 7_000, Some(3_500)),
        ("fresh", 10, Some(10)),
        ("old-undated", 3_700, None),
        ("fresh-undated", 10, None),
    ] {
        put(&*store, name, created, written).await?;
    }
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = server.tenant("t1").await?;
    for gone in ["old", "old-undated"] {
        until_gone(&client, &format!("{EVENTS}/{gone}")).await?;
    }
    assert_eq!(names(&client).await?, ["fresh", "fresh-undated", "renewed"]);
    Ok(())
}

#[tokio::test]
async fn two_servers_on_one_store_remove_every_event_once() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let mut server = TestServer::start_on_store(Arc::clone(&store), Setup::default()).await?;
    server.tenant("t1").await?;
    server.stop().await;
    let mut last = Revision::ZERO;
    for number in 0..350 {
        last = put(&*store, &format!("e{number:03}"), 4_000, Some(4_000)).await?;
    }
    put(&*store, "kept", 4_000, Some(1)).await?;
    let mut servers = Vec::new();
    for _ in 0..2 {
        let setup = Setup::with_controllers();
        servers.push(TestServer::start_on_store(Arc::clone(&store), setup).await?);
    }
    for server in &servers {
        let client = server.client("t1").await?;
        until(&client, EVENTS, |list| {
            list.json()["items"]
                .as_array()
                .is_some_and(|all| all.len() == 1)
        })
        .await?;
        assert_eq!(names(&client).await?, ["kept"]);
    }
    // Each at most once: of two removals by both servers, the store rejected one.
    let revision = store.revision().await?;
    assert!(revision.get() < last.get() + 350, "{revision} after {last}");
    Ok(())
}

#[tokio::test]
async fn events_without_a_ttl_stay() -> anyhow::Result<()> {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let server = TestServer::start_on_store(Arc::clone(&store), living_for(0)).await?;
    let client = server.tenant("t1").await?;
    put(&*store, "ancient", 400_000, Some(400_000)).await?;
    until(&client, &format!("{EVENTS}/ancient"), |answer| {
        answer.status == 200
    })
    .await?;
    let mut watch = client
        .watch(&format!("{EVENTS}?watch=true&resourceVersion="))
        .await?;
    watch.next().await?;
    assert!(watch.is_quiet_for(Duration::from_millis(300)).await);
    Ok(())
}

#[tokio::test]
async fn write_time_is_stored_and_never_shown() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let revision = client.get(EVENTS).await?.json()["metadata"]["resourceVersion"].clone();
    let revision = revision.as_str().unwrap_or_default().to_owned();
    let watched = format!("{EVENTS}?watch=true&resourceVersion={revision}");
    let mut watch = client.watch(&watched).await?;
    let mut seen = vec![create(&client, EVENTS, event("a")).await?.to_string()];
    create(&client, EVENTS, event("b")).await?;
    let a = format!("{EVENTS}/a");
    seen.push(
        client
            .patch(&a, "merge", &json!({"count": 2}))
            .await?
            .text(),
    );
    seen.push(client.get(&a).await?.text());
    seen.push(client.get(EVENTS).await?.text());
    let first = client.get(&format!("{EVENTS}?limit=1")).await?.json();
    let next = first["metadata"]["continue"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    // The second page is read at an older revision, which comes from the store.
    let patched = client
        .patch(&format!("{EVENTS}/b"), "merge", &json!({"count": 2}))
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let second = client
        .get(&format!("{EVENTS}?limit=1&continue={next}"))
        .await?;
    assert_eq!(
        second.json()["items"][0]["count"],
        Value::Null,
        "{}",
        second.text()
    );
    seen.push(second.text());
    let deleted = client.delete(&a).await?;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    for _ in 0..5 {
        seen.push(watch.next().await?.unwrap_or_default().to_string());
    }
    for text in seen {
        assert!(!text.contains("lastWritten"), "{text}");
        assert!(text.contains("Tested"), "{text}");
    }
    let range = KeyRange::prefix(&b"/registry/events/t1/"[..]);
    let stored = server
        .registry()
        .store()
        .range(&range, At::Latest, None)
        .await?;
    assert_eq!(stored.entries.len(), 1);
    let text = String::from_utf8_lossy(&stored.entries[0].value);
    assert!(text.contains(",\"lastWritten\":"), "{text}");
    Ok(())
}
