//! Tenant isolation: another tenant's objects are answered as if they did not exist. The checklist,
//! and the test that proves each line, is `docs/requirements/isolation.md`.

#[path = "../support/golden.rs"]
mod golden;
#[path = "../support/principals.rs"]
mod principals;
#[path = "../support/routes.rs"]
mod routes;
#[path = "../support/samples.rs"]
mod samples;

mod addresses;
mod custom_resources;
mod expensive_kinds;
mod identity;
mod interference;
mod neighbours;
mod order;
mod own_paths;
mod revocation;
mod roles;
mod side_channels;
mod subresources;
mod sweep;
mod tenant_deletion;
mod webhooks;
mod writes;

use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Answer, Client};
use samples::{api, sample};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

/// The body body_without the names that the caller itself sent.
fn body_without(answer: &Answer, names: &[&str]) -> String {
    let mut text = answer.text();
    for name in names {
        text = text.replace(&format!("\\\"{name}\\\""), "@");
        text = text.replace(&format!("\"name\":\"{name}\""), "@");
    }
    text
}

/// Polls `path` until the response satisfies `wanted`.
async fn until(
    client: &Client,
    path: &str,
    wanted: impl Fn(&Answer) -> bool,
) -> anyhow::Result<Answer> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let answer = client.get(path).await?;
        if wanted(&answer) {
            return Ok(answer);
        }
        anyhow::ensure!(
            tokio::time::Instant::now() < deadline,
            "{path}: {}",
            answer.text()
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Creates an object of every kind in the client's space and returns their paths.
async fn create_all_kinds(
    client: &Client,
    is_system: bool,
) -> anyhow::Result<Vec<(&'static Kind, String)>> {
    let mut created = Vec::new();
    for (_, kind) in kinds().iter() {
        if !kind.supports("create") || !kind.supports("get") || (kind.system_only && !is_system) {
            continue;
        }
        let mut object = sample(kind)?;
        if kind.storage()
            != kinds()
                .find(&kind.group, &kind.version, &kind.resource)
                .expect("itself")
        {
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            object["metadata"]["name"] = format!("{name}-too").into();
        }
        let collection = match kind.namespaced() {
            true => format!("{}/namespaces/default/{}", api(kind), kind.resource),
            false => format!("{}/{}", api(kind), kind.resource),
        };
        let answer = client.post(&collection, &object).await?;
        anyhow::ensure!(answer.status == 201, "{}: {}", kind.kind, answer.text());
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        created.push((kind, format!("{collection}/{name}")));
    }
    Ok(created)
}
