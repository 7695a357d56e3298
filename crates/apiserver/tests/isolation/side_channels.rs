//! What can be observed of other spaces: through watches over all spaces, documents and response
//! times.

use std::time::{Duration, Instant};

use http::Method;
use insula_testkit::server::{Client, TestServer};
use serde_json::json;

use super::principals::{create, server_with};
use super::{MAPS, named, until};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn i13_watch_over_all_spaces_sees_a_tenant_deleted_and_recreated() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let old = create(&tenant, MAPS, named("x")).await?;
    let mut watch = system
        .watch("/api/v1/tenants/all/configmaps?watch=true")
        .await?;
    let deleted = system.delete("/api/v1/tenants/t1").await?;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    until(&system, "/api/v1/tenants/t1", |answer| answer.status == 404).await?;
    let tenant = server.tenant("t1").await?;
    let new = create(&tenant, MAPS, named("x")).await?;
    let uid = |object: &serde_json::Value| object["metadata"]["uid"].clone();
    assert_ne!(uid(&old), uid(&new));
    for (kind, expected) in [("ADDED", &old), ("DELETED", &old), ("ADDED", &new)] {
        let mut event = watch.next().await?.unwrap_or_default();
        while event["object"]["metadata"]["name"] == "kube-root-ca.crt" {
            event = watch.next().await?.unwrap_or_default();
        }
        let found = (&event["type"], uid(&event["object"]));
        assert_eq!(found, (&json!(kind), uid(expected)), "{event}");
    }
    Ok(())
}

#[tokio::test]
async fn i18_etags_of_system_documents_do_not_match_for_a_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    for (path, accept) in [
        ("/api", AGGREGATED),
        ("/apis", AGGREGATED),
        ("/openapi/v2", "application/json"),
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/api/v1", "application/json"),
    ] {
        let all = system.accept(path, accept).await?;
        let some = tenant.accept(path, accept).await?;
        assert_ne!(all.header("etag"), some.header("etag"), "{path}");
        for (client, path, etag, expected) in [
            (&tenant, path.to_owned(), all.header("etag"), 200),
            (&system, path.to_owned(), some.header("etag"), 200),
            (
                &system,
                format!("/tenants/t1{path}"),
                all.header("etag"),
                200,
            ),
            (
                &system,
                format!("/tenants/t1{path}"),
                some.header("etag"),
                304,
            ),
            (&tenant, path.to_owned(), some.header("etag"), 304),
        ] {
            let headers = [("accept", accept), ("if-none-match", etag)];
            let answer = client.send(Method::GET, &path, &headers, "").await?;
            assert_eq!(answer.status, expected, "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn i18_server_documents_name_no_tenant() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let canary = "tenant-a";
    let other = server.tenant(canary).await?;
    create(&other, "/api/v1/namespaces", named("canary-namespace")).await?;
    for path in [
        "/metrics",
        "/readyz?verbose",
        "/livez?verbose=true",
        "/healthz/etcd?verbose",
        "/version",
        "/",
        "/api",
        "/apis",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
        "/debug/pprof/",
        "/debug/api_priority_and_fairness/dump_requests",
        "/logs/",
        "/configz",
        "/statusz",
        "/flagz",
        "/nothing",
    ] {
        for client in [&system, &tenant] {
            let answer = client.get(path).await?;
            let headers = format!("{:?}", answer.headers);
            for text in [answer.text(), headers] {
                assert!(!text.contains("tenant-a"), "{path}: {text}");
                assert!(!text.contains("canary"), "{path}: {text}");
            }
        }
    }
    for path in ["/metrics", "/debug/pprof/", "/logs/", "/configz"] {
        let answer = tenant.get(path).await?;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    // Neither does a warning or the metadata of a list of the tenant's own objects.
    let strange = json!({"metadata": {"name": "x"}, "unknown": 1});
    let created = tenant.post(MAPS, &strange).await?;
    assert_eq!(created.status, 201);
    assert!(!created.header("warning").is_empty());
    assert!(!created.header("warning").contains("tenant-a"));
    Ok(())
}

/// A loose bound: far below network latency, far above the machine's noise. Other tests can slow
/// down one attempt, but a difference in the server's own work is in all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i19_refusal_latency_does_not_reveal_existence() -> anyhow::Result<()> {
    const ATTEMPTS: usize = 8;
    let server = TestServer::start().await?;
    let (attacker, victim) = (server.tenant("t1").await?, server.tenant("t2").await?);
    create(&victim, MAPS, named("canary")).await?;
    let paths = [
        "/tenants/t2/api/v1/namespaces/default/configmaps/canary",
        "/tenants/t2/api/v1/namespaces/default/configmaps/absent",
        "/tenants/t2/api/v1/namespaces/absents/configmaps/canary",
        "/tenants/t9/api/v1/namespaces/default/configmaps/canary",
    ];
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let latencies = typical_latencies(&attacker, &paths).await?;
        let least = latencies.iter().min().copied().unwrap_or_default();
        let most = latencies.iter().max().copied().unwrap_or_default();
        if most - least < Duration::from_micros(100).max(least / 4) {
            return Ok(());
        }
        seen.push(latencies);
    }
    panic!("the latencies differ in every attempt: {seen:?}");
}

/// Returns the latency of a refusal for each path: the lowest tenth of many, because load only
/// ever adds to it.
async fn typical_latencies(client: &Client, paths: &[&str]) -> anyhow::Result<Vec<Duration>> {
    const ROUNDS: usize = 400;
    let mut times = vec![Vec::with_capacity(ROUNDS); paths.len()];
    for round in 0..ROUNDS {
        for turn in 0..paths.len() {
            // Each round starts with another path, so that no path is always the first.
            let which = (round + turn) % paths.len();
            let start = Instant::now();
            let refused = client.get(paths[which]).await?;
            times[which].push(start.elapsed());
            assert_eq!(refused.status, 403);
        }
    }
    let typical = times.iter_mut().map(|times| {
        times.sort_unstable();
        times[ROUNDS / 10]
    });
    Ok(typical.collect())
}
