//! WATCH: which watches a write wakes, and what quiet ones miss.

use crate::fixtures::revision;
use insula_testkit::server::{Client, Lines, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ELSEWHERE: &str = "/api/v1/namespaces/kube-system/configmaps";

async fn put(client: &Client, maps: &str, name: &str, app: &str) -> anyhow::Result<u64> {
    let metadata = json!({"name": name, "labels": {"app": app}});
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata});
    let path = format!("{maps}/{name}?fieldManager=test&force=true");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let method = http::Method::PATCH;
    let answer = client
        .send(method, &path, &headers, object.to_string())
        .await?;
    anyhow::ensure!(answer.status < 300, "{}", answer.text());
    Ok(revision(&answer.json()))
}

/// Formats an event as `TYPE name revision`.
fn summary(event: &Value) -> String {
    let (kind, object) = (event["type"].as_str(), &event["object"]);
    let name = object["metadata"]["name"].as_str().unwrap_or("-");
    format!("{} {name} {}", kind.unwrap_or("-"), revision(object))
}

async fn next(watch: &mut Lines) -> anyhow::Result<String> {
    Ok(summary(&watch.next().await?.unwrap_or_default()))
}

async fn watch(client: &Client, path: &str, query: &str) -> anyhow::Result<Lines> {
    let watch = client.watch(&format!("{path}?watch=1&{query}")).await?;
    anyhow::ensure!(watch.status == 200);
    Ok(watch)
}

#[tokio::test]
async fn write_wakes_only_the_watches_that_it_concerns() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let (system, neighbour) = (server.system().await?, server.tenant("t2").await?);
    let woken = || server.registry().cache().watches_woken();
    let mut others = Vec::new();
    for number in 0..50 {
        let query = format!("fieldSelector=metadata.name%3Dother-{number}");
        others.push(watch(&client, MAPS, &query).await?);
    }
    let name = "fieldSelector=metadata.name%3Dmine";
    others.push(watch(&client, ELSEWHERE, name).await?);
    others.push(watch(&client, ELSEWHERE, "").await?);
    others.push(watch(&client, MAPS, "labelSelector=app%3Dother").await?);
    others.push(watch(&neighbour, MAPS, "").await?);
    let mut mine = watch(&client, MAPS, name).await?;
    let before = woken();
    let at = put(&client, MAPS, "mine", "x").await?;
    assert_eq!(next(&mut mine).await?, format!("ADDED mine {at}"));
    assert_eq!(woken() - before, 1, "the watch of the name");

    let mut labelled = watch(&client, MAPS, "labelSelector=app%3Dy").await?;
    let all = "/api/v1/tenants/all/configmaps";
    let mut everywhere = watch(
        &system,
        all,
        "resourceVersionMatch=NotOlderThan&sendInitialEvents=false",
    )
    .await?;
    let before = woken();
    let at = put(&client, MAPS, "mine", "y").await?;
    assert_eq!(next(&mut mine).await?, format!("MODIFIED mine {at}"));
    assert_eq!(next(&mut labelled).await?, format!("ADDED mine {at}"));
    assert_eq!(next(&mut everywhere).await?, format!("MODIFIED mine {at}"));
    assert_eq!(woken() - before, 3, "those of name, label and all spaces");

    let before = woken();
    let at = put(&client, MAPS, "mine", "z").await?;
    assert_eq!(next(&mut mine).await?, format!("MODIFIED mine {at}"));
    assert_eq!(next(&mut labelled).await?, format!("DELETED mine {at}"));
    assert_eq!(next(&mut everywhere).await?, format!("MODIFIED mine {at}"));
    assert_eq!(woken() - before, 3, "an object that leaves a selection");

    let before = woken();
    let at = put(&client, MAPS, "unwatched", "x").await?;
    assert_eq!(
        next(&mut everywhere).await?,
        format!("ADDED unwatched {at}")
    );
    assert_eq!(woken() - before, 1, "the watch over all spaces");
    for other in &mut others {
        assert!(other.is_quiet_for(std::time::Duration::ZERO).await);
    }
    Ok(())
}

#[tokio::test]
async fn watch_of_one_object_gets_its_events_among_many_others() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let name = "fieldSelector=metadata.name%3Dmine";
    let mut mine = watch(&client, MAPS, name).await?;
    let mut labelled = watch(&client, "/api/v1/configmaps", "labelSelector=app%3Dmine").await?;
    put(&client, MAPS, "other", "other").await?;
    let big = "x".repeat(5_000);
    let mut kind = "ADDED";
    // More than the log holds, by events and by bytes.
    for round in 0..3 {
        for number in 0..400 {
            let patch = json!({"data": {"k": format!("{round}-{number}{big}")}});
            let patched = client
                .patch(&format!("{MAPS}/other"), "merge", &patch)
                .await?;
            assert_eq!(patched.status, 200, "{}", patched.text());
        }
        let at = put(&client, MAPS, "mine", "mine").await?;
        // An apply without a change writes nothing, so the label alternates.
        assert_eq!(next(&mut mine).await?, format!("{kind} mine {at}"));
        assert_eq!(next(&mut labelled).await?, format!("ADDED mine {at}"));
        kind = "MODIFIED";
        let at = put(&client, MAPS, "mine", "away").await?;
        assert_eq!(next(&mut mine).await?, format!("{kind} mine {at}"));
        assert_eq!(next(&mut labelled).await?, format!("DELETED mine {at}"));
    }
    client.delete(&format!("{MAPS}/mine")).await?;
    let gone = next(&mut mine).await?;
    assert!(gone.starts_with("DELETED mine"), "{gone}");
    Ok(())
}
