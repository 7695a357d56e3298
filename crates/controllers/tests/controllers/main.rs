//! The controllers of a running server.

mod access;
mod bootstrap_objects;
mod certificates;
mod events;
mod garbage;
mod namespaces;
mod quotas;
mod roles;
mod tenants;
mod tokens;
mod volumes;

use std::time::Duration;

use insula_testkit::server::{Answer, Client, Engine, Setup, TestServer};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a test waits for a state before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A server for each engine that needs no other program.
async fn servers() -> anyhow::Result<Vec<TestServer>> {
    let mut servers = Vec::new();
    for engine in [Engine::Memory, Engine::Embedded] {
        servers.extend(TestServer::start_on(engine, Setup::with_controllers()).await?);
    }
    Ok(servers)
}

/// Waits until the object at `path` satisfies the condition.
async fn until(
    client: &Client,
    path: &str,
    wanted: impl Fn(&Answer) -> bool,
) -> anyhow::Result<Answer> {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        let answer = client.get(path).await?;
        if wanted(&answer) {
            return Ok(answer);
        }
        anyhow::ensure!(Instant::now() < deadline, "{path}: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until `path` is not found.
async fn until_gone(client: &Client, path: &str) -> anyhow::Result<()> {
    until(client, path, |answer| answer.status == 404).await?;
    Ok(())
}

/// Creates an object, which must succeed.
async fn create(client: &Client, path: &str, object: Value) -> anyhow::Result<Value> {
    let created = client.post(path, &object).await?;
    anyhow::ensure!(created.status == 201, "{path}: {}", created.text());
    Ok(created.json())
}

/// A ConfigMap, optionally with finalizers.
fn config_map(name: &str, finalizers: &[&str]) -> Value {
    json!({"metadata": {"name": name, "finalizers": finalizers}, "data": {"a": "b"}})
}

/// The condition of this type.
fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}

/// Removes all finalizers of an object.
async fn release(client: &Client, path: &str) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"finalizers": null}});
    let patched = client.patch(path, "merge", &patch).await?;
    anyhow::ensure!(patched.status == 200, "{path}: {}", patched.text());
    Ok(())
}

/// The number of objects in a list, without those that every namespace has.
async fn count(client: &Client, path: &str) -> anyhow::Result<usize> {
    let list = client.get(path).await?;
    anyhow::ensure!(list.status == 200, "{path}: {}", list.text());
    let items = list.json()["items"].as_array().cloned().unwrap_or_default();
    let own = |item: &&Value| item["metadata"]["name"] != "kube-root-ca.crt";
    Ok(items.iter().filter(own).count())
}
