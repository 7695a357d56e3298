//! Running the cases against a server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Method;
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

use crate::answer::Recorded;
use crate::case::{Case, Category, Step};

/// The deadline of a repeated step.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between repetitions.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The user agent, which is the default field manager.
const AGENT: &str = "differential/1.0";

/// Values kept from earlier responses.
type Kept = BTreeMap<String, String>;

/// Runs every case of a file, in order.
pub async fn category(client: &Client, category: &Category) -> Vec<Recorded> {
    let mut answers = Vec::new();
    for case in &category.cases {
        answers.extend(run_case(client, case).await);
    }
    answers
}

async fn run_case(client: &Client, case: &Case) -> Vec<Recorded> {
    create_namespace(client, &case.name).await;
    let mut kept = Kept::from([("ns".to_owned(), case.name.clone())]);
    let mut answers = Vec::new();
    for (index, step) in case.steps.iter().enumerate() {
        let answer = send_until(client, step, &kept).await;
        for (name, pointer) in &step.keep {
            kept.insert(name.clone(), found(&answer.json(), pointer));
        }
        answers.push(Recorded::new(case, index, &answer, &kept));
    }
    answers
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let made = client.post("/api/v1/namespaces", &namespace).await;
    let made = made.expect("it is answered");
    assert_eq!(made.status, 201, "the namespace {name}: {}", made.text());
}

async fn send_until(client: &Client, step: &Step, kept: &Kept) -> Answer {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = send(client, step, kept).await;
        let Some(until) = &step.until else {
            return answer;
        };
        let there = answer.json();
        let there = there.pointer(&until.at).unwrap_or(&Value::Null);
        let is = until.at.is_empty() || *there == until.is;
        // After the deadline the last response is compared.
        if (answer.status == until.status && is) || Instant::now() > deadline {
            return answer;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn send(client: &Client, step: &Step, kept: &Kept) -> Answer {
    let (method, path) = step.target();
    let mut headers = vec![("user-agent", AGENT), ("accept", step.accepted())];
    if !step.body.is_null() || matches!(method, Method::PATCH | Method::POST | Method::PUT) {
        headers.push(("content-type", step.sent_type()));
    }
    let more = step.headers.iter();
    headers.extend(more.map(|(name, value)| (name.as_str(), value.as_str())));
    let (path, body) = (substitute(path, kept), substitute(&step.text(), kept));
    let answer = client.send(method, &path, &headers, body).await;
    answer.unwrap_or_else(|error| panic!("{}: {error:#}", step.send))
}

/// Replaces the names of kept values.
fn substitute(text: &str, kept: &Kept) -> String {
    let mut text = text.replace("$ns", &kept["ns"]);
    for (name, value) in kept {
        text = text.replace(&format!("${{{name}}}"), value);
    }
    text
}

fn found(body: &Value, pointer: &str) -> String {
    match body.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        // Later steps are sent and compared nonetheless.
        None => "absent".to_owned(),
    }
}
