//! Large definitions, their updates and the OpenAPI documents that they are part of.

use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use super::Run;
use crate::api::client::Sender;
use crate::api::definition;

const DEFINITIONS: usize = 25;
/// The size of a definition, below the limit of the store.
const BYTES: usize = 850_000;
const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "neighbours.example.com";

pub async fn flood(run: &Run) -> Result<()> {
    let client = run.connect(4).await?;
    run.workers(4, |worker, run| {
        let sender = client.sender(worker);
        async move {
            let sender = sender?;
            for n in (worker..DEFINITIONS).step_by(4) {
                let body = Bytes::from(large(n).to_string());
                send(&run, &sender, Method::POST, PATH, Some(body)).await?;
            }
            for round in 0.. {
                if run.is_over() {
                    break;
                }
                for path in [
                    "/openapi/v2".to_owned(),
                    format!("/openapi/v3/apis/{GROUP}/v1"),
                ] {
                    send(&run, &sender, Method::GET, &path, None).await?;
                }
                let path = format!("{PATH}/kind{}s.{GROUP}", (worker + round) % DEFINITIONS);
                let patch = json!({"metadata": {"annotations": {"round": round.to_string()}}});
                let body = Bytes::from(patch.to_string());
                send(&run, &sender, Method::PATCH, &path, Some(body)).await?;
            }
            Ok(())
        }
    })
    .await
}

async fn send(
    run: &Run,
    sender: &Sender,
    method: Method,
    path: &str,
    body: Option<Bytes>,
) -> Result<()> {
    let request = sender.prepare(method, path, body)?;
    run.counts.count(&sender.send(request).await);
    Ok(())
}

/// Returns a definition with a schema that repeats that of a workload.
fn large(n: usize) -> Value {
    let schema = definition::schema();
    let copies = BYTES / schema.to_string().len();
    let properties: Map<String, Value> = (0..copies)
        .map(|copy| (format!("part{copy}"), schema["properties"]["spec"].clone()))
        .collect();
    let kind = format!("Kind{n}");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("kind{n}s.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": format!("kind{n}s"), "singular": format!("kind{n}"),
                "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": properties},
                }}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_large_and_below_the_limit_of_the_store() {
        let bytes = large(7).to_string().len();
        assert!((BYTES / 2..1_000_000).contains(&bytes), "{bytes}");
    }
}
