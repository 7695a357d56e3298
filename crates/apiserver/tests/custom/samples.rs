//! Definitions and helpers for tests of custom resources.

use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

use super::{FOOS, foos};

/// `foos.ex.io` with all subresources.
pub fn foos_with_all() -> Value {
    let mut foos = foos();
    let version = &mut foos["spec"]["versions"][0];
    version["subresources"] = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    });
    let properties = &mut version["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"]["properties"]["replicas"] = json!({"type": "integer"});
    foos
}

/// The path of a Foo.
pub fn foo_path(name: &str) -> String {
    format!("{FOOS}/{name}")
}

/// Creates an object and asserts success.
pub async fn make(client: &Client, path: &str, object: &Value) -> anyhow::Result<Value> {
    let made = client.post(path, object).await?;
    anyhow::ensure!(made.status == 201, "{}", made.text());
    Ok(made.json())
}

/// The raw warning texts of a response.
pub fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    all.map(|text| text.to_str().unwrap_or("").to_owned())
        .collect()
}

pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}
