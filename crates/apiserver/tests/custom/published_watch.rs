//! Watches on definitions in tenants: published and own definitions form one consistent stream.

use std::collections::BTreeMap;

use insula_testkit::server::{Client, DEFINITIONS, Lines, TestServer, definition};
use serde_json::{Value, json};

use super::{PUBLISHED, foos, own, path, published};
use crate::fixtures::revision;

/// The state assembled by a list and a watch.
struct Seen {
    objects: BTreeMap<String, Value>,
    revision: u64,
    watch: Lines,
}

impl Seen {
    async fn begin(client: &Client, query: &str) -> anyhow::Result<Self> {
        let list = client.get(&format!("{DEFINITIONS}?{query}")).await?.json();
        let at = revision(&list);
        let items = list["items"].as_array().into_iter().flatten();
        let items = items.map(|item| (name(item), bare(item)));
        let watch = format!("{DEFINITIONS}?{query}&watch=1&resourceVersion={at}");
        Ok(Self {
            objects: items.collect(),
            revision: at,
            watch: client.watch(&watch).await?,
        })
    }

    /// The type and object of the next event, if it is a valid successor.
    async fn next(&mut self) -> anyhow::Result<(String, Value)> {
        let event = self.watch.next().await?.unwrap_or_default();
        let (object, at) = (&event["object"], revision(&event["object"]));
        anyhow::ensure!(at > self.revision, "{event} after {}", self.revision);
        self.revision = at;
        let kind = event["type"].as_str().unwrap_or("").to_owned();
        let follows = match kind.as_str() {
            "ADDED" => self.objects.insert(name(object), bare(object)).is_none(),
            "MODIFIED" => self.objects.insert(name(object), bare(object)).is_some(),
            "DELETED" => self.objects.remove(&name(object)).is_some(),
            _ => false,
        };
        anyhow::ensure!(follows, "invalid successor: {event}");
        Ok((kind, object.clone()))
    }

    /// Reads events up to the first one that matches and returns its type.
    async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<String> {
        loop {
            let (kind, object) = self.next().await?;
            if wanted(&object) {
                return Ok(kind);
            }
        }
    }

    /// Asserts that a list returns the assembled state once all events were delivered.
    async fn assert_consistent(&mut self, client: &Client, query: &str) -> anyhow::Result<()> {
        let fresh = Self::begin(client, query).await?;
        while content(&self.objects) != content(&fresh.objects) {
            anyhow::ensure!(self.revision < fresh.revision, "{:?}", self.objects);
            self.next().await?;
        }
        Ok(())
    }
}

/// The objects without resourceVersion: a definition that becomes visible again carries the
/// revision of that event.
fn content(objects: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let without = objects.iter().map(|(name, object)| {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = Value::Null;
        (name.clone(), object)
    });
    without.collect()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or("").to_owned()
}

fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    object
}

fn is_established(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Established" && one["status"] == "True")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_delivers_changes_of_published_definitions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&foos()).await?;
    let mut seen = Seen::begin(&tenant, "").await?;
    assert_eq!(seen.objects.len(), 0);
    let publish = json!({"metadata": {"annotations": {PUBLISHED: "true"}}});
    let defined = system
        .patch(&path("foos.ex.io"), "merge", &publish)
        .await?
        .json();
    // Publishing: the definition is added as it is read.
    let (kind, object) = seen.next().await?;
    assert_eq!(
        (kind.as_str(), &object),
        ("ADDED", &tenant.get(&path("foos.ex.io")).await?.json())
    );
    assert_eq!(
        object["metadata"]["resourceVersion"],
        defined["metadata"]["resourceVersion"]
    );
    assert_eq!(object["metadata"]["tenant"], "t1");
    // A change.
    let labels = json!({"metadata": {"labels": {"a": "1"}}});
    system.patch(&path("foos.ex.io"), "merge", &labels).await?;
    let (kind, object) = seen.next().await?;
    assert_eq!(
        (kind.as_str(), &object["metadata"]["labels"]),
        ("MODIFIED", &json!({"a": "1"}))
    );
    // The tenant defines its own and deletes it. Changes of the published one in the meantime are
    // not delivered.
    let mine = tenant.define(&own(foos(), "mine")).await?;
    let uid = mine["metadata"]["uid"].clone();
    let (kind, object) = seen.next().await?;
    assert_eq!(
        (kind.as_str(), &object["metadata"]["uid"]),
        ("MODIFIED", &uid)
    );
    seen.until(is_established).await?;
    let labels = json!({"metadata": {"labels": {"a": "2"}}});
    system.patch(&path("foos.ex.io"), "merge", &labels).await?;
    tenant.delete(&path("foos.ex.io")).await?;
    let published = defined["metadata"]["uid"].clone();
    let kind = seen
        .until(|object| object["metadata"]["uid"] != uid)
        .await?;
    let object = &seen.objects["foos.ex.io"];
    assert_eq!(
        (kind.as_str(), &object["metadata"]["uid"]),
        ("MODIFIED", &published)
    );
    assert_eq!(object["metadata"]["labels"], json!({"a": "2"}));
    seen.assert_consistent(&tenant, "").await?;
    // Withdrawing.
    let withdraw = json!({"metadata": {"annotations": {PUBLISHED: null}}});
    let withdrawn = system
        .patch(&path("foos.ex.io"), "merge", &withdraw)
        .await?
        .json();
    let (kind, object) = seen.next().await?;
    assert_eq!(kind, "DELETED");
    assert_eq!(
        object["metadata"]["resourceVersion"],
        withdrawn["metadata"]["resourceVersion"]
    );
    assert_eq!(object["metadata"]["annotations"][PUBLISHED], "true");
    assert_eq!(object["metadata"]["tenant"], "t1");
    // Deleting the published definition.
    system.patch(&path("foos.ex.io"), "merge", &publish).await?;
    assert_eq!(seen.next().await?.0, "ADDED");
    system.delete(&path("foos.ex.io")).await?;
    loop {
        match seen.next().await?.0.as_str() {
            "MODIFIED" => {}
            last => break assert_eq!(last, "DELETED"),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_from_a_past_revision_delivers_later_changes() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let at = revision(&tenant.get(DEFINITIONS).await?.json());
    system.define(&published(foos())).await?;
    let mine = tenant.define(&own(foos(), "mine")).await?;
    let uid = mine["metadata"]["uid"].clone();
    tenant.delete(&path("foos.ex.io")).await?;
    // The own definition is deleted and the published one visible again, long before the watch
    // starts.
    let begun = std::time::Instant::now();
    while tenant.get(&path("foos.ex.io")).await?.json()["metadata"]["uid"] == uid {
        anyhow::ensure!(begun.elapsed().as_secs() < 20);
    }
    let withdraw = json!({"metadata": {"annotations": {PUBLISHED: null}}});
    system
        .patch(&path("foos.ex.io"), "merge", &withdraw)
        .await?;
    let mut seen = Seen {
        objects: BTreeMap::new(),
        revision: at,
        watch: tenant
            .watch(&format!("{DEFINITIONS}?watch=1&resourceVersion={at}"))
            .await?,
    };
    let (kind, first) = seen.next().await?;
    assert_eq!(kind, "ADDED");
    assert_ne!(first["metadata"]["uid"], uid);
    assert_eq!(
        seen.until(|object| object["metadata"]["uid"] == uid)
            .await?,
        "MODIFIED"
    );
    let theirs = |object: &Value| object["metadata"]["uid"] != uid;
    assert_eq!(seen.until(theirs).await?, "MODIFIED");
    assert_eq!(seen.until(|_| true).await?, "DELETED");
    assert_eq!(seen.objects.len(), 0);
    // A watch can resume from each event.
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selected_watch_delivers_added_and_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let mut labelled = published(foos());
    labelled["metadata"]["labels"] = json!({"a": "1"});
    system.define(&labelled).await?;
    let mut seen = Seen::begin(&tenant, "labelSelector=a%3D1").await?;
    let mut named = Seen::begin(&tenant, "fieldSelector=metadata.name%3Dbars.ex.io").await?;
    assert_eq!((seen.objects.len(), named.objects.len()), (1, 0));
    // An own definition without the label replaces it, and is deleted.
    let mine = tenant.define(&own(foos(), "mine")).await?;
    let (kind, object) = seen.next().await?;
    assert_eq!(kind, "DELETED");
    assert_ne!(object["metadata"]["uid"], mine["metadata"]["uid"]);
    tenant.delete(&path("foos.ex.io")).await?;
    assert_eq!(seen.next().await?.0, "ADDED");
    seen.assert_consistent(&tenant, "labelSelector=a%3D1")
        .await?;
    let bars = definition("ex.io", "bars", "Bar", json!({"type": "object"}));
    system.define(&published(bars)).await?;
    assert_eq!(named.next().await?.0, "ADDED");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn initial_events_include_published_definitions() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    system.define(&published(foos())).await?;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true";
    let mut watch = tenant.watch(&format!("{DEFINITIONS}?{query}")).await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(
        first["object"],
        tenant.get(&path("foos.ex.io")).await?.json()
    );
    let mark = watch.next().await?.unwrap_or_default();
    assert_eq!(mark["type"], "BOOKMARK");
    assert!(revision(&mark["object"]) >= revision(&first["object"]));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut rows = tenant
        .watch_as(&format!("{DEFINITIONS}?watch=1"), table)
        .await?;
    let row = rows.next().await?.unwrap_or_default();
    assert_eq!(row["object"]["rows"][0]["cells"][0], "foos.ex.io");
    let labels = json!({"metadata": {"labels": {"a": "1"}}});
    system.patch(&path("foos.ex.io"), "merge", &labels).await?;
    assert_eq!(watch.next().await?.unwrap_or_default()["type"], "MODIFIED");
    assert_eq!(rows.next().await?.unwrap_or_default()["type"], "MODIFIED");
    Ok(())
}

/// Publishes and withdraws, or creates and deletes an own definition, several times.
async fn churn(client: Client, plural: String, own: bool) -> anyhow::Result<()> {
    let name = format!("{plural}.ex.io");
    let created = definition(
        "ex.io",
        &plural,
        &plural.to_uppercase(),
        json!({"type": "object"}),
    );
    for round in 0..12 {
        if own {
            client.post(DEFINITIONS, &created).await?;
            client.delete(&path(&name)).await?;
        } else {
            let value = if round % 3 == 2 {
                Value::Null
            } else {
                "true".into()
            };
            let patch = json!({"metadata": {
                "annotations": {PUBLISHED: value}, "labels": {"round": round.to_string()},
            }});
            client.patch(&path(&name), "merge", &patch).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_and_watch_converge_during_changes() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let plurals = ["ants", "bees", "cats"];
    for plural in plurals {
        let created = definition(
            "ex.io",
            plural,
            &plural.to_uppercase(),
            json!({"type": "object"}),
        );
        system.define(&published(created)).await?;
    }
    let mut early = Seen::begin(&tenant, "").await?;
    let mut tasks = tokio::task::JoinSet::new();
    for plural in plurals {
        tasks.spawn(churn(server.system().await?, plural.to_owned(), false));
        tasks.spawn(churn(server.client("t1").await?, plural.to_owned(), true));
    }
    let mut others = Vec::new();
    while let Some(done) = tasks.join_next().await {
        done??;
        others.push(Seen::begin(&tenant, "").await?);
    }
    // Terminating definitions disappear on their own; after that nothing changes any more.
    let begun = std::time::Instant::now();
    loop {
        let list = tenant.get(DEFINITIONS).await?.json();
        let items = list["items"].as_array().into_iter().flatten();
        let mut items = items.filter(|item| item["metadata"]["annotations"][PUBLISHED] != "true");
        if items.next().is_none() {
            break;
        }
        anyhow::ensure!(begun.elapsed().as_secs() < 20, "{list}");
    }
    early.assert_consistent(&tenant, "").await?;
    for mut other in others {
        other.assert_consistent(&tenant, "").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_tenants_definitions_are_not_delivered() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (tenant, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let mut seen = Seen::begin(&tenant, "").await?;
    let bars = definition("ex.io", "bars", "Bar", json!({"type": "object"}));
    other.define(&published(bars)).await?;
    system
        .define(&definition(
            "ex.io",
            "ants",
            "Ant",
            json!({"type": "object"}),
        ))
        .await?;
    system.define(&published(foos())).await?;
    let (kind, object) = seen.next().await?;
    assert_eq!(
        (kind.as_str(), name(&object).as_str()),
        ("ADDED", "foos.ex.io")
    );
    Ok(())
}
