//! Comparison with recorded responses of kube-apiserver 1.36.

use http::Method;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};

const OBJECTS: &str = include_str!("../data/golden-cr-validation.jsonl");
const SCHEMA: &str = include_str!("../data/golden-cr-schema.json");
const DEFINITIONS: &str = include_str!("../data/golden-crd-validation.jsonl");
const EXPRESSIONS: &str = include_str!("../data/golden-crd-cel.jsonl");

/// Go maps are unordered, so these errors were recorded in arbitrary order. Which of many equal
/// rules is reported as the most expensive is arbitrary too, so their fields are not compared.
const UNORDERED: &[&str] = &["multi", "cost total"];

fn cases(text: &str) -> anyhow::Result<Vec<Value>> {
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

/// Describes the differences from the recording.
fn compare(case: &Value, answer: &Answer) -> Result<(), String> {
    let label = case["label"].as_str().unwrap_or("");
    let body = answer.json();
    if case["code"] != answer.status {
        return Err(format!("{label}: {} {body}", answer.status));
    }
    let warnings = answer.headers.get_all("warning").iter();
    let warnings: Vec<Value> = warnings
        .map(|text| text.to_str().unwrap_or("").into())
        .collect();
    let reported = case["warnings"].as_array().cloned().unwrap_or_default();
    if warnings != reported {
        return Err(format!("{label}: warnings {warnings:?}"));
    }
    let Some(reported) = case["response"].as_object() else {
        return Ok(());
    };
    let found = json!({
        "reason": body["reason"], "message": body["message"], "details": body["details"],
    });
    if UNORDERED.contains(&label) {
        let sorted = |details: &Value| {
            let causes = details["causes"].as_array().into_iter().flatten();
            let reported = causes.map(|cause| format!("{} {}", cause["reason"], cause["message"]));
            let mut reported: Vec<String> = reported.collect();
            reported.sort();
            reported
        };
        let same = sorted(&found["details"]) == sorted(&reported["details"]);
        return same.then_some(()).ok_or(format!("{label}: {found}"));
    }
    for member in ["reason", "message", "details"] {
        let wanted = reported.get(member).unwrap_or(&Value::Null);
        if &found[member] != wanted {
            return Err(format!("{label}: {}\n  wanted: {wanted}", found[member]));
        }
    }
    Ok(())
}

/// Sends all cases and returns those with different responses.
async fn differences(client: &Client, text: &str) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for case in cases(text)? {
        let method: Method = case["method"].as_str().unwrap_or("").parse()?;
        let path = case["path"].as_str().unwrap_or("");
        let headers = [("content-type", "application/json")];
        let sent = case["body"].to_string();
        let answer = client.send(method, path, &headers, sent).await?;
        wrong.extend(compare(&case, &answer).err());
    }
    Ok(wrong)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_validation_matches_the_recording() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t2").await?;
    let namespace = json!({"metadata": {"name": "t1"}});
    let created = client.post("/api/v1/namespaces", &namespace).await?;
    assert_eq!(created.status, 201, "{}", created.text());
    let mut definition = super::foos();
    let schema: Value = serde_json::from_str(SCHEMA)?;
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    client.define(&definition).await?;
    assert_eq!(cases(OBJECTS)?.len(), 46);
    assert_eq!(differences(&client, OBJECTS).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_validation_matches_the_recording() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    // The system and a tenant get the same responses.
    for client in [server.system().await?, server.tenant("t1").await?] {
        assert_eq!(cases(DEFINITIONS)?.len(), 58);
        assert_eq!(
            differences(&client, DEFINITIONS).await?,
            Vec::<String>::new()
        );
        assert_eq!(cases(EXPRESSIONS)?.len(), 36);
        assert_eq!(
            differences(&client, EXPRESSIONS).await?,
            Vec::<String>::new()
        );
        // None of it was stored.
        let all = client
            .get(insula_testkit::server::DEFINITIONS)
            .await?
            .json();
        assert_eq!(all["items"], json!([]));
    }
    Ok(())
}
