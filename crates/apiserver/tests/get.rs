//! GET of single objects.

use std::time::{Duration, Instant};

use crate::fixtures::revision;
use http::Method;
use insula_testkit::server::{Client, TestServer};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create_map(client: &Client, name: &str) -> anyhow::Result<Value> {
    let object = json!({"metadata": {"name": name}, "data": {"of": name}});
    let created = client.post(MAPS, &object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(created.json())
}

#[tokio::test]
async fn objects_are_read_as_created() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let created = create_map(&client, "a").await?;
    for query in [
        "",
        "?resourceVersion=",
        "?resourceVersion=0",
        "?resourceVersion=1",
        &format!("?resourceVersion={}", revision(&created)),
        "?watch=true",
        "?resourceVersionMatch=Foo",
        "?limit=x&unknown=1",
    ] {
        let found = client.get(&format!("{MAPS}/a{query}")).await?;
        assert_eq!(found.status, 200, "{query} {}", found.text());
        assert_eq!(found.json(), created, "{query}");
        assert_eq!(found.header("content-type"), "application/json");
    }
    assert_eq!(created["metadata"]["tenant"], "t1");
    Ok(())
}

#[tokio::test]
async fn future_resource_versions_time_out() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let now = revision(&create_map(&client, "a").await?);
    let asked = now + 1000;
    let begun = Instant::now();
    let refused = client
        .get(&format!("{MAPS}/a?resourceVersion={asked}"))
        .await?;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(2_900), "{took:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert_eq!(refused.status, 504);
    assert_eq!(refused.header("retry-after"), "1");
    let message = format!("Timeout: Too large resource version: {asked}, current: {now}");
    let wanted = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message,
        "reason": "Timeout",
        "details": {
            "causes": [{
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }],
            "retryAfterSeconds": 1,
        },
        "code": 504,
    });
    assert_eq!(refused.json(), wanted);
    Ok(())
}

#[tokio::test]
async fn future_resource_versions_are_served_once_reached() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let next = revision(&create_map(&client, "a").await?) + 1;
    let path = format!("{MAPS}/a?resourceVersion={next}");
    let waiting = client.get(&path);
    let writing = async {
        // The reader is waiting before the writer begins.
        tokio::task::yield_now().await;
        create_map(&client, "b").await
    };
    let (found, created) = tokio::join!(waiting, writing);
    assert_eq!(found?.status, 200);
    assert_eq!(revision(&created?), next);
    Ok(())
}

#[tokio::test]
async fn invalid_resource_versions_are_errors_without_a_reason() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for (text, shown, why) in [
        ("abc", "abc", "invalid syntax"),
        ("-1", "-1", "invalid syntax"),
        ("%2B1", "+1", "invalid syntax"),
        (
            "99999999999999999999",
            "99999999999999999999",
            "value out of range",
        ),
    ] {
        let path = format!("{MAPS}/a?resourceVersion={text}");
        let refused = client.get(&path).await?;
        let message = format!(
            "resourceVersion: Invalid value: \"{shown}\": strconv.ParseUint: parsing \"{shown}\": \
             {why}"
        );
        let wanted = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "code": 500,
        });
        assert_eq!((refused.status, refused.json()), (500, wanted), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn missing_objects_are_not_found() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let status = |message: &str, details: Value| {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "NotFound", "details": details, "code": 404,
        })
    };
    let missing = client.get(&format!("{MAPS}/a")).await?;
    let wanted = status(
        "configmaps \"a\" not found",
        json!({"name": "a", "kind": "configmaps"}),
    );
    assert_eq!((missing.status, missing.json()), (404, wanted));
    let missing = client
        .get("/apis/apps/v1/namespaces/nons/deployments/d")
        .await?;
    let wanted = status(
        "deployments.apps \"d\" not found",
        json!({"name": "d", "group": "apps", "kind": "deployments"}),
    );
    assert_eq!((missing.status, missing.json()), (404, wanted));
    for path in [
        "/api/v1/namespaces/default/foos/a",
        "/api/v1/namespaces/default/configmaps/a/foo",
        "/apis/apps/v1/foos",
        "/apis/apps/v9/deployments",
        "/api/v2/pods",
    ] {
        let missing = client.get(path).await?;
        let wanted = status(
            "the server could not find the requested resource",
            json!({}),
        );
        assert_eq!((missing.status, missing.json()), (404, wanted), "{path}");
    }
    for path in ["/foo", "/apis/foo/v1/bars"] {
        let missing = client.get(path).await?;
        assert_eq!(missing.status, 404, "{path}");
        assert_eq!(missing.text(), "404 page not found\n", "{path}");
        let content_type = missing.header("content-type");
        assert_eq!(content_type, "text/plain; charset=utf-8", "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn head_and_options_are_not_allowed_on_objects() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    create_map(&client, "a").await?;
    for path in [MAPS.to_owned(), format!("{MAPS}/a")] {
        let head = client.send(Method::HEAD, &path, &[], "").await?;
        assert_eq!((head.status, head.body.len()), (405, 0), "{path}");
        let options = client.send(Method::OPTIONS, &path, &[], "").await?;
        let wanted = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "the server does not allow this method on the requested resource",
            "reason": "MethodNotAllowed", "details": {}, "code": 405,
        });
        assert_eq!((options.status, options.json()), (405, wanted), "{path}");
        assert_eq!(options.header("allow"), "", "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn reads_see_preceding_writes() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let writer = server.tenant("t1").await?;
    let reader = server.client("t1").await?;
    for round in 0..200 {
        let name = format!("m{round}");
        let created = create_map(&writer, &name).await?;
        let found = reader.get(&format!("{MAPS}/{name}")).await?;
        assert_eq!(found.json(), created, "{round}");
        if round % 4 == 0 {
            writer.delete(&format!("{MAPS}/{name}")).await?;
            let gone = reader.get(&format!("{MAPS}/{name}")).await?;
            assert_eq!(gone.status, 404, "{round}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn waiting_for_a_revision_does_not_block_other_requests() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let cache = server.registry().cache();
    let mut woken = 0;
    let path = format!("{MAPS}/a?resourceVersion=99999");
    let mut waiting = std::pin::pin!(client.get(&path));
    loop {
        tokio::select! {
            answer = &mut waiting => {
                assert_eq!(answer?.status, 504);
                break;
            }
            () = cache.advanced().notified() => woken += 1,
        }
    }
    assert!(woken < 100, "the cache was asked {woken} times");
    Ok(())
}

#[tokio::test]
async fn request_timeout_shortens_the_wait() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let begun = Instant::now();
    let path = format!("{MAPS}/a?resourceVersion=99999&timeout=200ms");
    let refused = client.get(&path).await?;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let message = "Timeout: request did not complete within the allotted timeout";
    assert_eq!((refused.status, refused.message().as_str()), (504, message));
    assert_eq!(refused.json()["reason"], "Timeout");
    assert_eq!(refused.json()["details"], json!({}));
    Ok(())
}

#[tokio::test]
async fn all_versions_of_a_kind_show_the_same_object() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let path = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
    };
    let object = json!({
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50,
        },
    });
    let created = client.post(&path("v1"), &object).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let one = client.get(&format!("{}/h", path("v1"))).await?.json();
    let two = client.get(&format!("{}/h", path("v2"))).await?.json();
    assert_eq!(one, created.json());
    assert_eq!(one["apiVersion"], "autoscaling/v1");
    assert_eq!(two["apiVersion"], "autoscaling/v2");
    assert_eq!(one["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(
        two["spec"]["metrics"][0]["resource"]["target"],
        json!({"type": "Utilization", "averageUtilization": 50})
    );
    for member in ["uid", "resourceVersion", "creationTimestamp", "name"] {
        assert_eq!(one["metadata"][member], two["metadata"][member], "{member}");
    }
    Ok(())
}
