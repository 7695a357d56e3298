//! Many watchers while many writers write: no event is missed or duplicated, and slow watchers
//! affect no other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fixtures::revision;
use insula_testkit::server::{Client, Engine, Lines, Setup, TestServer};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// With a selector by type the server reads every object, so that lists take a while.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SELECT: &str = "fieldSelector=type%3DOpaque";
/// More would only slow down a slow machine.
const WATCHERS: usize = 16;
const END: &str = "zz-end";

/// The key `tenant/name`.
fn key(object: &Value) -> String {
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or("").to_owned();
    format!("{}/{}", text("tenant"), text("name"))
}

/// The state that a watcher has assembled.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    objects: BTreeMap<String, Value>,
    revision: u64,
}

impl Seen {
    fn of_list(list: &Value) -> anyhow::Result<Self> {
        let mut seen = Self {
            revision: revision(list),
            ..Self::default()
        };
        for item in list["items"].as_array().into_iter().flatten() {
            anyhow::ensure!(
                revision(item) <= seen.revision,
                "an item is newer than the list"
            );
            seen.objects.insert(key(item), item.clone());
        }
        Ok(seen)
    }

    /// Applies an event, if it is a valid successor.
    fn apply(&mut self, event: &Value) -> anyhow::Result<()> {
        let mut object = event["object"].clone();
        if let Some(members) = object.as_object_mut() {
            members.remove("kind");
            members.remove("apiVersion");
        }
        let (key, at) = (key(&object), revision(&object));
        anyhow::ensure!(at > self.revision, "{at} after {}", self.revision);
        self.revision = at;
        let before = match event["type"].as_str() {
            Some("ADDED") => self.objects.insert(key, object).is_none(),
            Some("MODIFIED") => self.objects.insert(key, object).is_some(),
            Some("DELETED") => self.objects.remove(&key).is_some(),
            _ => false,
        };
        anyhow::ensure!(before, "invalid successor: {event}");
        Ok(())
    }
}

/// Watches until every writer's space has delivered its end object.
async fn follow(mut seen: Seen, mut watch: Lines, ends: usize) -> anyhow::Result<Seen> {
    loop {
        let done = seen.objects.keys().filter(|key| key.ends_with(END)).count();
        if done == ends {
            return Ok(seen);
        }
        let event = watch.next().await?;
        let event = event.ok_or_else(|| anyhow::anyhow!("the watch ended early"))?;
        // Bookmarks come on a slow machine after a minute and carry no change.
        if event["type"] != "BOOKMARK" {
            seen.apply(&event)?;
        }
    }
}

/// Lists, then watches from the list's revision.
async fn list_and_watch(client: Client, path: String, ends: usize) -> anyhow::Result<Seen> {
    let seen = Seen::of_list(&client.get(&format!("{path}?{SELECT}")).await?.json())?;
    let from = seen.revision;
    let path = format!("{path}?{SELECT}&watch=1&resourceVersion={from}");
    let watch = client.watch(&path).await?;
    follow(seen, watch, ends).await
}

/// Streams the initial state, then continues.
async fn watch_list(client: Client, path: String, ends: usize) -> anyhow::Result<Seen> {
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true";
    let mut watch = client.watch(&format!("{path}?{SELECT}&{query}")).await?;
    let mut seen = Seen::default();
    loop {
        let event = watch.next().await?.unwrap_or_default();
        let mut object = event["object"].clone();
        if event["type"] == "BOOKMARK" {
            seen.revision = revision(&object);
            return follow(seen, watch, ends).await;
        }
        if let Some(members) = object.as_object_mut() {
            members.remove("kind");
            members.remove("apiVersion");
        }
        let twice = seen.objects.insert(key(&object), object);
        anyhow::ensure!(twice.is_none(), "an object came twice: {twice:?}");
    }
}

/// Creates, changes and deletes a few own objects and shared ones.
async fn write(client: Client, writer: usize, rounds: usize) -> anyhow::Result<()> {
    for round in 0..rounds {
        let name = match round % 3 {
            0 => format!("own-{writer}-{}", round % 5),
            _ => format!("shared-{}", (round * 7 + writer) % 6),
        };
        let path = format!("{SECRETS}/{name}");
        let answer = match (round + writer) % 4 {
            0 | 1 => {
                let labels = json!({"by": writer.to_string()});
                let object = json!({"metadata": {"name": name, "labels": labels}});
                client.post(SECRETS, &object).await?
            }
            2 => {
                let patch = json!({"metadata": {"labels": {"round": format!("{writer}-{round}")}}});
                client.patch(&path, "merge", &patch).await?
            }
            _ => client.delete(&path).await?,
        };
        // The object exists already, is gone, or has changed in the meantime.
        let fine = matches!(answer.status, 200 | 201 | 404 | 409);
        anyhow::ensure!(fine, "{}", answer.text());
    }
    Ok(())
}

/// Runs four writers in these tenants, with watchers that start before and during the writes.
async fn check_no_event_missed(engine: Engine, tenants: &[&str], path: &str) -> anyhow::Result<()> {
    let Some(server) = TestServer::start_on(engine, Setup::default()).await? else {
        // The test kit has printed that the engine is skipped.
        return Ok(());
    };
    for tenant in tenants {
        let client = server.tenant(tenant).await?;
        for number in 0..200 {
            let object = json!({"metadata": {"name": format!("ballast-{number}")}});
            client.post(SECRETS, &object).await?;
        }
    }
    let reader = match tenants {
        [one] => *one,
        _ => "system",
    };
    let (mut writers, mut watchers) = (JoinSet::new(), JoinSet::new());
    for writer in 0..4 {
        let client = server.client(tenants[writer % tenants.len()]).await?;
        writers.spawn(write(client, writer, 200));
    }
    let reading = server.client(reader).await?;
    loop {
        if watchers.len() < WATCHERS {
            let (client, ends) = (server.client(reader).await?, tenants.len());
            watchers.spawn(list_and_watch(client.clone(), path.to_owned(), ends));
            watchers.spawn(watch_list(client, path.to_owned(), ends));
        }
        // New watchers start as long as the writers run.
        let more = tokio::time::timeout(Duration::from_millis(150), writers.join_next()).await;
        match more {
            Ok(None) => break,
            Ok(Some(written)) => written??,
            Err(_) => {}
        }
    }
    for tenant in tenants {
        let client = server.client(tenant).await?;
        let end = json!({"metadata": {"name": END}});
        anyhow::ensure!(client.post(SECRETS, &end).await?.status == 201);
    }
    let wanted = Seen::of_list(&reading.get(path).await?.json())?;
    while let Some(watched) = watchers.join_next().await {
        assert_eq!(watched??, wanted, "{engine:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_or_duplicated_in_memory() -> anyhow::Result<()> {
    check_no_event_missed(Engine::Memory, &["t1"], SECRETS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_or_duplicated_on_disk() -> anyhow::Result<()> {
    check_no_event_missed(Engine::Embedded, &["t1"], SECRETS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_or_duplicated_in_etcd() -> anyhow::Result<()> {
    check_no_event_missed(Engine::Etcd, &["t1"], SECRETS).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_or_duplicated_over_all_tenants() -> anyhow::Result<()> {
    let path = "/api/v1/tenants/all/secrets";
    check_no_event_missed(Engine::Memory, &["t1", "t2", "t3"], path).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_over_all_spaces_sees_the_objects_of_a_new_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    let creator = server.system().await?;
    let creating = tokio::spawn(async move {
        for number in 0..60 {
            let object = json!({"metadata": {"name": format!("tenant-{number}")}});
            let created = creator.post("/api/v1/tenants", &object).await?;
            anyhow::ensure!(created.status == 201, "{}", created.text());
        }
        anyhow::Ok(())
    });
    let mut looks = 0;
    while !creating.is_finished() || looks == 0 {
        let list = system.get("/api/v1/tenants/all/namespaces").await?.json();
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for item in list["items"].as_array().into_iter().flatten() {
            if let Some(tenant) = item["metadata"]["tenant"].as_str() {
                *count.entry(tenant).or_default() += 1;
            }
        }
        assert!(count.values().all(|count| *count == 3), "{count:?}");
        looks += 1;
    }
    creating.await?
}

/// Counts the events after a revision up to that of `last`, each newer than the one before.
async fn count_until_last(watch: &mut Lines, mut after: u64) -> anyhow::Result<usize> {
    for count in 0.. {
        let event = watch.next().await?.unwrap_or_default();
        anyhow::ensure!(event["type"] != "ERROR", "{event} after {count} events");
        anyhow::ensure!(revision(&event["object"]) > after, "{event} after {after}");
        after = revision(&event["object"]);
        if event["object"]["metadata"]["name"] == "last" {
            return Ok(count);
        }
    }
    Ok(0)
}

/// Watches resume after more events, and more bytes, than the cache keeps.
#[tokio::test]
async fn watch_resumes_from_the_history_of_the_store() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (client, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let quiet = other
        .post(MAPS, &json!({"metadata": {"name": "a"}}))
        .await?;
    let created = client
        .post(MAPS, &json!({"metadata": {"name": "a"}}))
        .await?;
    let first = revision(&created.json());
    let big = "x".repeat(20_000);
    // This watch is not read until the log has passed it. It uses its own connection, since all
    // streams of a connection share a flow-control window.
    let sleeper = server.client("t1").await?;
    let mut slow = sleeper.watch(&format!("{MAPS}?watch=1")).await?;
    let query = "watch=1&fieldSelector=metadata.name%3Dlast";
    let mut fast = client.watch(&format!("{MAPS}?{query}")).await?;
    for number in 0..1_100 {
        let patch = json!({"data": {"k": format!("{number}{big}")}});
        let path = format!("{MAPS}/a");
        let patched = client.patch(&path, "merge", &patch).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
    }
    client
        .post(MAPS, &json!({"metadata": {"name": "last"}}))
        .await?;
    let seen = fast.next().await?.unwrap_or_default();
    assert_eq!(seen["object"]["metadata"]["name"], "last");
    assert_eq!(count_until_last(&mut slow, 0).await?, 1_101);
    let resumed = format!("{MAPS}?watch=1&resourceVersion={first}");
    let mut watch = client.watch(&resumed).await?;
    assert_eq!(count_until_last(&mut watch, first).await?, 1_100);
    let selected = format!("{resumed}&fieldSelector=metadata.name%3Dlast");
    let mut watch = client.watch(&selected).await?;
    assert_eq!(count_until_last(&mut watch, first).await?, 0);
    // A former tenant may have had this revision, and a compacted one is gone.
    let store = server.registry().store();
    let before_birth = format!("{MAPS}?watch=1&resourceVersion=1");
    assert_expired(&client, &before_birth, 1).await?;
    store.compact(store.revision().await?).await?;
    assert_expired(&client, &resumed, first).await?;
    // The log of a quiet tenant is unaffected.
    let from = revision(&quiet.json()) - 1;
    let mut neighbour = other
        .watch(&format!("{MAPS}?watch=1&resourceVersion={from}"))
        .await?;
    let event = neighbour.next().await?.unwrap_or_default();
    assert_eq!(
        (&event["type"], &event["object"]),
        (&json!("ADDED"), &quiet.json())
    );
    Ok(())
}

async fn assert_expired(client: &Client, path: &str, asked: u64) -> anyhow::Result<()> {
    let mut old = client.watch(path).await?;
    assert_eq!(old.status, 200);
    let mut event = old.next().await?.unwrap_or_default();
    let message = event["object"]["message"].take();
    let message = message.as_str().unwrap_or_default();
    let begin = format!("too old resource version: {asked} (");
    assert!(message.starts_with(&begin), "{message}");
    let wanted = json!({
        "type": "ERROR",
        "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": null, "reason": "Expired", "code": 410,
        },
    });
    assert_eq!(event, wanted);
    assert_eq!(old.next().await?, None);
    Ok(())
}
