//! Server-side apply, and field ownership through every sort of write.

mod conflicts;
mod custom;
#[path = "../support/fixtures.rs"]
#[expect(dead_code, reason = "other programs use the rest")]
mod fixtures;
mod lists;
mod managed_fields;
mod requests;
mod subresources;

use fixtures::{assert_refused, start_tenant};
use http::Method;
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/m";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

/// Applies as this field manager; `manager` may be followed by further query parameters.
async fn apply(client: &Client, path: &str, manager: &str, body: &Value) -> anyhow::Result<Answer> {
    let path = format!("{path}?fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let body = body.to_string();
    client.send(Method::PATCH, &path, &headers, body).await
}

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

fn deployment(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

/// A minimal deployment.
fn minimal_deployment() -> Value {
    json!({
        "selector": {"matchLabels": {"app": "x"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        },
    })
}

/// `manager operation [subresource]` and the owned fields of each managedFields entry.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let entries = entries.into_iter().flatten();
    let name = |entry: &Value| {
        let words = ["manager", "operation", "subresource"];
        let words = words.iter().filter_map(|word| entry[*word].as_str());
        words.collect::<Vec<_>>().join(" ")
    };
    entries
        .map(|entry| (name(entry), entry["fieldsV1"].clone()))
        .collect()
}
