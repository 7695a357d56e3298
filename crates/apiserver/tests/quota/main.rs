//! ResourceQuotas, LimitRanges and tenant quotas.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod counts;
mod default_quota;
#[path = "../support/fixtures.rs"]
#[expect(dead_code, reason = "other programs use the rest")]
mod fixtures;
mod lagging_server;
mod limit_ranges;
mod races;
mod resources;
mod tenants;

use fixtures::create;
use futures_util::future::join_all;
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// The end of every refusal by a tenant quota.
const ADVICE: &str = "; delete objects, or ask the administrator of this server for a larger quota";

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "b"}})
}

/// Limits the namespace `default`.
async fn create_quota(client: &Client, name: &str, hard: Value) -> anyhow::Result<()> {
    let quota = json!({"metadata": {"name": name}, "spec": {"hard": hard}});
    create(client, QUOTAS, &quota).await?;
    Ok(())
}

/// The recorded usage of a quota.
async fn used(client: &Client, name: &str) -> anyhow::Result<Value> {
    let quota = client.get(&format!("{QUOTAS}/{name}")).await?;
    anyhow::ensure!(quota.status == 200, "{}", quota.text());
    Ok(quota.json()["status"]["used"].clone())
}

#[track_caller]
fn forbidden(answer: &Answer, message: &str) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(answer.message(), message);
    assert_eq!(answer.json()["reason"], "Forbidden");
}

/// Creates objects concurrently through these clients, in turn, and returns the number of
/// successes; all others must be refused with this message.
async fn race(
    clients: &[&Client],
    path: &str,
    objects: &[Value],
    refusal: &str,
) -> anyhow::Result<usize> {
    let clients = clients.iter().cycle();
    let posts = objects
        .iter()
        .zip(clients)
        .map(|(object, client)| client.post(path, object));
    let mut created = 0;
    for answer in join_all(posts).await {
        let answer = answer?;
        match answer.status {
            201 => created += 1,
            403 => assert!(answer.message().ends_with(refusal), "{}", answer.message()),
            _ => anyhow::bail!("{}", answer.text()),
        }
    }
    Ok(created)
}
