//! WATCH: where it starts, what it delivers and how it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fixtures::revision;
use insula_store::Transaction;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create_map(client: &Client, name: &str) -> anyhow::Result<u64> {
    let object = json!({"metadata": {"name": name, "labels": {"app": "x"}}});
    let created = client.post(MAPS, &object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(revision(&created.json()))
}

async fn label(client: &Client, name: &str, app: &str) -> anyhow::Result<u64> {
    let patch = json!({"metadata": {"labels": {"app": app}}});
    let path = format!("{MAPS}/{name}");
    let patched = client.patch(&path, "merge", &patch).await?;
    anyhow::ensure!(patched.status == 200, "{}", patched.text());
    Ok(revision(&patched.json()))
}

/// Formats an event as `TYPE name revision`.
fn summary(event: &Value) -> String {
    let (kind, object) = (event["type"].as_str(), &event["object"]);
    let name = object["metadata"]["name"].as_str().unwrap_or("-");
    format!("{} {name} {}", kind.unwrap_or("-"), revision(object))
}

async fn start() -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    Ok((server, client))
}

/// All events until the watch ends.
async fn all(client: &Client, query: &str) -> anyhow::Result<Vec<String>> {
    let mut watch = client.watch(&format!("{MAPS}?watch=1&{query}")).await?;
    anyhow::ensure!(watch.status == 200, "{:?}", watch.next().await);
    Ok(watch.rest().await?.iter().map(summary).collect())
}

#[tokio::test]
async fn resource_version_selects_the_start() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let b = create_map(&client, "b").await?;
    let a = create_map(&client, "a").await?;
    let state = [format!("ADDED a {a}"), format!("ADDED b {b}")];
    let history = [format!("ADDED b {b}"), format!("ADDED a {a}")];
    let match_it = "resourceVersionMatch=NotOlderThan&sendInitialEvents";
    let mut watches = tokio::task::JoinSet::new();
    for (query, wanted) in [
        (String::new(), &state[..]),
        ("resourceVersion=0".to_owned(), &state),
        (format!("resourceVersion={}", b - 1), &history),
        (format!("resourceVersion={b}"), &history[1..]),
        (format!("resourceVersion={a}"), &[]),
        (format!("{match_it}=true"), &state),
        (format!("{match_it}=true&resourceVersion={b}"), &state),
        (format!("{match_it}=false"), &[]),
        (format!("{match_it}=false&resourceVersion=0"), &[]),
        (
            format!("{match_it}=false&resourceVersion={b}"),
            &history[1..],
        ),
        // `limit` has no effect on a watch.
        ("limit=1".to_owned(), &state),
    ] {
        let (client, wanted) = (client.clone(), wanted.to_vec());
        watches.spawn(async move {
            let summary = all(&client, &format!("timeoutSeconds=1&{query}")).await?;
            anyhow::ensure!(summary == wanted, "{query}: {summary:?}");
            Ok(())
        });
    }
    while let Some(watched) = watches.join_next().await {
        watched??;
    }
    Ok(())
}

#[tokio::test]
async fn events_carry_the_object_after_the_change() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let mut watch = client.watch(&format!("{MAPS}?watch=true")).await?;
    assert_eq!(watch.status, 200);
    assert_eq!(watch.headers["content-type"], "application/json");
    let created = client
        .post(
            MAPS,
            &json!({"metadata": {"name": "a"}, "data": {"k": "<&>"}}),
        )
        .await?
        .json();
    let changed = client
        .patch(&format!("{MAPS}/a"), "merge", &json!({"data": {"k": "2"}}))
        .await?
        .json();
    client.delete(&format!("{MAPS}/a")).await?;
    let event = |event: &str, object: &Value| json!({"type": event, "object": object});
    assert_eq!(watch.next().await?, Some(event("ADDED", &created)));
    assert_eq!(watch.next().await?, Some(event("MODIFIED", &changed)));
    // The deletion event carries the last state with the revision of the deletion.
    let mut last = changed.clone();
    last["metadata"]["resourceVersion"] = (revision(&changed) + 1).to_string().into();
    assert_eq!(watch.next().await?, Some(event("DELETED", &last)));
    Ok(())
}

#[tokio::test]
async fn deletion_after_a_finalizer_carries_the_last_state() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let object = json!({"metadata": {"name": "a", "finalizers": ["x.io/f"]}});
    assert_eq!(client.post(MAPS, &object).await?.status, 201);
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).await?;
    client.delete(&format!("{MAPS}/a")).await?;
    let patch = json!({"metadata": {"finalizers": null}});
    let path = format!("{MAPS}/a");
    assert_eq!(client.patch(&path, "merge", &patch).await?.status, 200);
    for kind in ["ADDED", "MODIFIED", "DELETED"] {
        let event = watch.next().await?.unwrap_or_default();
        let metadata = &event["object"]["metadata"];
        assert_eq!(event["type"], kind);
        assert_eq!(metadata["finalizers"], json!(["x.io/f"]), "{kind}");
        let dying = metadata.get("deletionTimestamp").is_some();
        assert_eq!(dying, kind != "ADDED", "{kind}");
    }
    Ok(())
}

#[tokio::test]
async fn watches_are_limited_to_their_namespace_and_tenant() -> anyhow::Result<()> {
    let (server, client) = start().await?;
    let other = server.tenant("t2").await?;
    let system = server.system().await?;
    let mut here = client.watch(&format!("{MAPS}?watch=1")).await?;
    let mut tenant = client.watch("/api/v1/configmaps?watch=1").await?;
    let mut everywhere = system
        .watch("/api/v1/tenants/all/configmaps?watch=1")
        .await?;
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    client
        .post(elsewhere, &json!({"metadata": {"name": "e"}}))
        .await?;
    other
        .post(MAPS, &json!({"metadata": {"name": "o"}}))
        .await?;
    system
        .post(MAPS, &json!({"metadata": {"name": "s"}}))
        .await?;
    client
        .post(MAPS, &json!({"metadata": {"name": "h"}}))
        .await?;
    let name = |event: Option<Value>| event.unwrap_or_default()["object"]["metadata"].clone();
    assert_eq!(name(here.next().await?)["name"], "h");
    assert_eq!(name(tenant.next().await?)["name"], "e");
    assert_eq!(name(tenant.next().await?)["name"], "h");
    for (wanted, of) in [
        ("e", json!("t1")),
        ("o", json!("t2")),
        ("s", Value::Null),
        ("h", json!("t1")),
    ] {
        let found = name(everywhere.next().await?);
        assert_eq!((&found["name"], &found["tenant"]), (&json!(wanted), &of));
    }
    let refused = client
        .watch("/api/v1/tenants/all/configmaps?watch=1")
        .await?;
    assert_eq!(refused.status, 403);
    Ok(())
}

#[tokio::test]
async fn selector_changes_are_delivered_as_added_and_deleted() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let query = "watch=1&labelSelector=app%3Dy";
    let mut watch = client.watch(&format!("{MAPS}?{query}")).await?;
    create_map(&client, "a").await?;
    let entered = label(&client, "a", "y").await?;
    let path = format!("{MAPS}/a");
    let patch = json!({"data": {"k": "1"}});
    let changed = revision(&client.patch(&path, "merge", &patch).await?.json());
    let left = label(&client, "a", "z").await?;
    label(&client, "a", "zz").await?;
    let again = label(&client, "a", "y").await?;
    client.delete(&path).await?;
    let mut next = async || anyhow::Ok(watch.next().await?.unwrap_or_default());
    assert_eq!(summary(&next().await?), format!("ADDED a {entered}"));
    assert_eq!(summary(&next().await?), format!("MODIFIED a {changed}"));
    let gone = next().await?;
    assert_eq!(summary(&gone), format!("DELETED a {left}"));
    assert_eq!(gone["object"]["metadata"]["labels"]["app"], "y");
    assert_eq!(gone["object"]["data"]["k"], "1");
    assert_eq!(summary(&next().await?), format!("ADDED a {again}"));
    assert_eq!(summary(&next().await?), format!("DELETED a {}", again + 1));
    Ok(())
}

#[tokio::test]
async fn field_selectors_apply_to_events() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let query = "watch=1&fieldSelector=metadata.name%3Da";
    let mut watch = client.watch(&format!("{MAPS}?{query}")).await?;
    create_map(&client, "aa").await?;
    create_map(&client, "b").await?;
    let a = create_map(&client, "a").await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(summary(&first), format!("ADDED a {a}"));
    // The deprecated watch path of one object is equivalent.
    for path in [
        "/api/v1/watch/namespaces/default/configmaps/a",
        "/api/v1/watch/namespaces/default/configmaps",
        "/api/v1/watch/configmaps",
    ] {
        let mut watch = client.watch(&format!("{path}?timeoutSeconds=1")).await?;
        let summary: Vec<_> = watch.rest().await?.iter().map(summary).collect();
        let wanted = if path.ends_with("/a") { 1 } else { 3 };
        assert_eq!(summary.len(), wanted, "{path} {summary:?}");
        assert_eq!(summary[0], format!("ADDED a {a}"), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn future_resource_version_delivers_nothing() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let now = create_map(&client, "a").await?;
    let query = format!(
        "timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={}",
        now + 50
    );
    let mut watch = client.watch(&format!("{MAPS}?watch=1&{query}")).await?;
    assert_eq!(watch.status, 200);
    create_map(&client, "b").await?;
    assert_eq!(watch.next().await?, None);
    Ok(())
}

#[tokio::test]
async fn watch_ends_after_its_timeout() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let begun = Instant::now();
    assert_eq!(all(&client, "timeoutSeconds=1").await?, [""; 0]);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(990), "{took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    let refused = client
        .get(&format!("{MAPS}?watch=1&timeoutSeconds=abc"))
        .await?;
    let message = "strconv.ParseInt: parsing \"abc\": invalid syntax";
    assert_eq!((refused.status, refused.message().as_str()), (400, message));
    Ok(())
}

/// A hundred objects are changed in each transaction, so the watch nearly always has unread events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_with_unread_events_ends_after_its_timeout() -> anyhow::Result<()> {
    let (server, client) = start().await?;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let begun = Instant::now();
    let mut watch = client.watch(&path).await?;
    let registry = Arc::clone(server.registry());
    // It ends by itself, whatever becomes of the watch.
    let writer = tokio::spawn(async move {
        let mut round = 0;
        while begun.elapsed() < Duration::from_secs(10) {
            let mut transaction = Transaction::new();
            for n in 0..100 {
                let value = format!(
                    r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"m{n}","namespace":"default","tenant":"t1","uid":"{n}"}},"data":{{"round":"{round}"}}}}"#
                );
                let key = format!("/registry/configmaps/t1/default/m{n}");
                transaction = transaction.put(key, value);
            }
            registry.store().commit(transaction).await?;
            let revision = registry.store().revision().await?;
            registry.cache().await_applied(revision).await;
            tokio::task::yield_now().await;
            round += 1;
        }
        anyhow::Ok(())
    });
    let mut events = 0;
    while watch.next().await?.is_some() {
        events += 1;
    }
    let took = begun.elapsed();
    writer.abort();
    assert!(events > 100, "{events}");
    assert!(took >= Duration::from_millis(990), "{took:?}");
    assert!(took < Duration::from_secs(9), "{took:?}");
    Ok(())
}

#[tokio::test]
async fn final_bookmark_is_sent_after_progress() -> anyhow::Result<()> {
    let (server, client) = start().await?;
    let now = create_map(&client, "a").await?;
    let query = format!("timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion={now}");
    // Nothing happens, so there is no bookmark.
    assert_eq!(all(&client, &query).await?, [""; 0]);
    let mut watch = client.watch(&format!("{MAPS}?watch=1&{query}")).await?;
    let begun = Instant::now();
    let b = create_map(&client, "b").await?;
    // A write elsewhere also advances the watch.
    let other = server.tenant("t2").await?;
    let last = create_map(&other, "c").await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(summary(&first), format!("ADDED b {b}"));
    let wanted = json!({
        "type": "BOOKMARK",
        "object": {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": last.to_string()},
        },
    });
    assert_eq!(watch.next().await?, Some(wanted));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(900), "{took:?}");
    assert_eq!(watch.next().await?, None);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(2_900), "{took:?}");
    // Without `allowWatchBookmarks` there are none.
    let query = format!("timeoutSeconds=3&resourceVersion={now}");
    assert_eq!(all(&client, &query).await?, [format!("ADDED b {b}")]);
    Ok(())
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let a = create_map(&client, "a").await?;
    let query = "timeoutSeconds=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true";
    let path = format!("{MAPS}?watch=1&{query}");
    let mut watch = client
        .watch(&format!("{path}&allowWatchBookmarks=true"))
        .await?;
    let first = watch.next().await?.unwrap_or_default();
    assert_eq!(summary(&first), format!("ADDED a {a}"));
    let mark = |revision: u64| {
        json!({
            "type": "BOOKMARK",
            "object": {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {
                    "resourceVersion": revision.to_string(),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            },
        })
    };
    assert_eq!(watch.next().await?, Some(mark(a)));
    let b = create_map(&client, "b").await?;
    let next = watch.next().await?.unwrap_or_default();
    assert_eq!(summary(&next), format!("ADDED b {b}"));
    // An empty collection has only the bookmark; a pod's has what every pod has.
    let path = path.replace("configmaps", "pods");
    let mut watch = client
        .watch(&format!("{path}&allowWatchBookmarks=true"))
        .await?;
    let mut wanted = mark(b);
    wanted["object"]["kind"] = "Pod".into();
    wanted["object"]["spec"] = json!({"containers": null});
    wanted["object"]["status"] = json!({});
    assert_eq!(watch.next().await?, Some(wanted));
    // Without bookmarks there is no end mark.
    assert_eq!(all(&client, query).await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn initial_events_of_a_future_revision_are_a_stream_error() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let now = create_map(&client, "a").await?;
    let asked = now + 50;
    let query = "watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true";
    let path = format!("{MAPS}?{query}&resourceVersion={asked}");
    let mut watch = client.watch(&path).await?;
    assert_eq!(watch.status, 200);
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(
        event["object"]["message"],
        format!("Timeout: Too large resource version: {asked}, current: {now}")
    );
    assert_eq!(event["object"]["code"], 504);
    assert_eq!(watch.next().await?, None);
    Ok(())
}

#[tokio::test]
async fn contradictory_parameters_are_refused() -> anyhow::Result<()> {
    let (_server, client) = start().await?;
    let needs = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
                 resourceVersionMatch to NotOlderThan";
    let alone = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch \
                 unless sendInitialEvents is provided";
    let unknown = "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \
                   \"NotOlderThan\"";
    for (query, what) in [
        ("sendInitialEvents=true", needs.to_owned()),
        (
            "sendInitialEvents=false&resourceVersion=1",
            needs.to_owned(),
        ),
        ("resourceVersionMatch=NotOlderThan", alone.to_owned()),
        (
            "resourceVersionMatch=Exact&resourceVersion=1",
            format!("[{alone}, {unknown}]"),
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            format!("[{needs}, {unknown}]"),
        ),
    ] {
        let answer = client.get(&format!("{MAPS}?watch=1&{query}")).await?;
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {what}");
        assert_eq!((answer.status, answer.message()), (422, message), "{query}");
    }
    let answer = client
        .get(&format!("{MAPS}?watch=1&resourceVersion=abc"))
        .await?;
    let message = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": \
                   invalid syntax";
    assert_eq!((answer.status, answer.message().as_str()), (500, message));
    Ok(())
}

#[tokio::test]
async fn watch_ends_on_shutdown() -> anyhow::Result<()> {
    let (mut server, client) = start().await?;
    let mut watch = client.watch(&format!("{MAPS}?watch=1")).await?;
    let mut all = server
        .system()
        .await?
        .watch("/api/v1/tenants/all/configmaps?watch=1")
        .await?;
    let begun = Instant::now();
    server.stop().await;
    assert_eq!(watch.next().await?, None);
    assert_eq!(all.next().await?, None);
    assert!(begun.elapsed() < Duration::from_secs(5));
    Ok(())
}
