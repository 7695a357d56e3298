//! Noisy neighbours: what one tenant can cost, block or reveal to the others.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use http::Method;
use insula_apiserver::Registry;
use insula_kinds::kinds;
use insula_testkit::server::TestServer;
use serde_json::json;
use tokio::time::Instant;

use super::principals::{create, server_with, service_account_token};
use super::{MAPS, named, until};

/// The series of the metrics endpoint: every line without its value.
async fn series(server: &TestServer) -> anyhow::Result<Vec<String>> {
    let text = server.system().await?.get("/metrics").await?.text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| line.rsplit_once(' '));
    Ok(series.map(|(series, _)| series.to_owned()).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i42_metric_series_do_not_grow_with_tenants_or_user_agents() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    // One response of each kind.
    create(&system, "/api/v1/tenants", named("first")).await?;
    system.get("/api/v1/tenants/ghost").await?;
    series(&server).await?;
    let before = series(&server).await?;
    assert!(before.len() > 2, "{before:?}");
    let created = (0..200).map(|number| {
        let system = &system;
        async move {
            let name = format!("canary-{number}");
            create(system, "/api/v1/tenants", named(&name)).await?;
            let agent = format!("agent-{number}");
            let headers = [("user-agent", agent.as_str())];
            let path = format!("/tenants/{name}{MAPS}/x?{agent}");
            system.send(Method::GET, &path, &headers, "").await
        }
    });
    try_join_all(created).await?;
    assert_eq!(series(&server).await?, before);
    Ok(())
}

/// Counts the tenants' collections that the cache holds.
fn cached_collections(registry: &Registry) -> usize {
    let all = kinds()
        .iter()
        .map(|(kind, _)| registry.cache().everywhere(kind));
    all.flatten()
        .filter(|(space, _)| !space.is_system())
        .count()
}

/// The keys in the store, but for the record of the system's own credentials, which the test uses.
async fn keys(server: &TestServer) -> anyhow::Result<Vec<String>> {
    let mut keys = server.keys().await?;
    keys.retain(|key| key != "/registry/access.insula.dev/tenantaccesses/system");
    Ok(keys)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i43_a_hundred_deleted_tenants_leave_nothing_behind() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let system = server.system().await?;
    let (before, tasks) = (keys(&server).await?, tasks());
    let lived = (0..100).map(|number| {
        let system = &system;
        async move {
            let (name, path) = (format!("t-{number}"), format!("/api/v1/tenants/t-{number}"));
            create(system, "/api/v1/tenants", named(&name)).await?;
            let maps = format!("/tenants/{name}{MAPS}");
            create(system, &maps, named("x")).await?;
            drop(system.watch(&format!("{maps}?watch=true")).await?);
            let deleted = system.delete(&path).await?;
            anyhow::ensure!(deleted.status == 200, "{}", deleted.text());
            until(system, &path, |answer| answer.status == 404).await?;
            anyhow::Ok(())
        }
    });
    try_join_all(lived).await?;
    assert_eq!(keys(&server).await?, before);
    let deadline = Instant::now() + Duration::from_secs(20);
    while cached_collections(server.registry()) > 0 || self::tasks() > tasks {
        let left = (cached_collections(server.registry()), self::tasks(), tasks);
        assert!(Instant::now() < deadline, "{left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

#[tokio::test]
async fn i44_finalizers_of_one_tenant_do_not_block_another() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let (system, one) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    for client in [&one, &other] {
        create(client, "/api/v1/namespaces", named("doomed")).await?;
    }
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/never"]}});
    create(&one, "/api/v1/namespaces/doomed/configmaps", held).await?;
    create(
        &other,
        "/api/v1/namespaces/doomed/configmaps",
        named("free"),
    )
    .await?;
    let doomed = "/api/v1/namespaces/doomed";
    for client in [&one, &other] {
        assert_eq!(client.delete(doomed).await?.status, 200);
    }
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    until(&other, doomed, |answer| answer.status == 404).await?;
    assert_eq!(system.delete("/api/v1/tenants/t2").await?.status, 200);
    until(&system, "/api/v1/tenants/t2", |answer| answer.status == 404).await?;
    // The first tenant is still terminating; removing the finalizer completes its deletion.
    let object = "/tenants/t1/api/v1/namespaces/doomed/configmaps/held";
    assert_eq!(system.get(object).await?.status, 200);
    let patch = json!({"metadata": {"finalizers": null}});
    assert_eq!(system.patch(object, "merge", &patch).await?.status, 200);
    until(&system, "/api/v1/tenants/t1", |answer| answer.status == 404).await?;
    Ok(())
}

/// Captures the log at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log).into_owned()
    }
}

/// Runs on one thread, since the log subscriber is set per thread.
#[tokio::test(flavor = "current_thread")]
async fn i45_secrets_appear_neither_in_logs_nor_in_responses() -> anyhow::Result<()> {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = TestServer::start().await?;
    let tenant = server.tenant("t1").await?;
    let canary = "canary4711canary";
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": canary}});
    create(&tenant, secrets, secret.clone()).await?;
    let issued = service_account_token(&tenant, "default", "robot").await?;
    let mut reported = Vec::new();
    // Every error path that has a secret at hand.
    let headers = [("content-type", "application/json")];
    let broken = format!("{{\"metadata\":{{}},\"stringData\":{{\"key\":\"{canary}\"");
    for body in [broken, secret.to_string(), format!("{canary}: [")] {
        reported.push(tenant.send(Method::POST, secrets, &headers, body).await?);
    }
    let patch = json!({"data": {"key": canary}, "type": 7, "immutable": canary});
    reported.push(
        tenant
            .patch(&format!("{secrets}/s"), "merge", &patch)
            .await?,
    );
    let numbers =
        json!({"metadata": {"name": "n"}, "stringData": {"key": 7}, "data": {"key": canary}});
    reported.push(tenant.post(secrets, &numbers).await?);
    for token in [canary, &format!("{issued}x"), &issued] {
        let client = server.client(token).await?;
        reported.push(client.get(secrets).await?);
        let cookie = [("cookie", canary)];
        let path = "/tenants/t2/api";
        reported.push(client.send(Method::GET, path, &cookie, "").await?);
    }
    let (_, signature) = issued.rsplit_once('.').unwrap_or_default();
    for answer in &reported {
        assert!(answer.status >= 400, "{}", answer.text());
        assert!(!answer.text().contains(signature), "{}", answer.text());
    }
    let lines = log.text();
    assert!(lines.contains("token rejected"), "nothing is logged");
    let encoded = "Y2FuYXJ5NDcxMWNhbmFye";
    for secret in [canary, encoded, signature] {
        let found = lines.lines().find(|line| line.contains(secret));
        assert_eq!(found, None);
    }
    Ok(())
}
