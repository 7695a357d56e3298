//! Fixtures and assertions that most test programs share.

use std::borrow::Borrow;

use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};

/// Starts a server with the tenant `t1` and returns a client of its administrator.
pub async fn start_tenant() -> anyhow::Result<(TestServer, Client)> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    Ok((server, client))
}

/// Creates an object and returns it as stored.
pub async fn create(
    client: &Client,
    path: &str,
    object: impl Borrow<Value>,
) -> anyhow::Result<Value> {
    let answer = client.post(path, object.borrow()).await?;
    anyhow::ensure!(answer.status == 201, "{path}: {}", answer.text());
    Ok(answer.json())
}

/// Asserts that a request was refused with this `Status`.
#[track_caller]
pub fn assert_refused(answer: &Answer, code: u16, reason: &str, message: &str) {
    let status = answer.json();
    assert_eq!(answer.status, code, "{}", answer.text());
    assert_eq!(status["message"], message);
    assert_eq!(status["code"], code);
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["status"], "Failure");
    assert_eq!(status["reason"].as_str().unwrap_or(""), reason);
}

/// An object with a name and nothing else.
pub fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// The names of the objects in a list.
pub fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

/// The `resourceVersion` of an object or list.
pub fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
