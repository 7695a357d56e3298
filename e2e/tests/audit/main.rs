//! Audit events of the same requests to a real kube-apiserver and to Insula, under one policy.
//!
//! The events of the real one are recorded in `recorded.jsonl`, and Insula must write the same;
//! this needs no kube-apiserver. Where one is installed (`make peers`), the recording must match
//! its events, and `make record` updates it. [`INTENDED`] lists what differs on purpose.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Method;
use insula_e2e::kube_apiserver::KubeApiserver;
use insula_testkit::server::{Audit, AuditLog, Client, TestServer};
use serde_json::{Value, json};

/// The policy of both servers.
const POLICY: &str = include_str!("policy.yaml");

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

const MAPS: &str = "/api/v1/namespaces/audit/configmaps";
const SECRETS: &str = "/api/v1/namespaces/audit/secrets";
const JSON: &str = "application/json";

/// A request, which its audit ID names.
struct Sent {
    id: &'static str,
    method: Method,
    path: String,
    media: &'static str,
    body: String,
}

/// What Insula does differently on purpose: the request, the member, and why.
const INTENDED: [(&str, &str, &str); 7] = [
    (
        "unreadable",
        "requestObject",
        "as sent, so that no client decides what is recorded",
    ),
    ("namespace", "requestObject", "as sent, without defaults"),
    ("review", "requestObject", "as sent, without defaults"),
    (
        "delete",
        "requestObject",
        "as sent, in the version of the client",
    ),
    (
        "document",
        "responseObject",
        "documents are no objects, as the API says",
    ),
    (
        "nowhere",
        "responseStatus",
        "with the reason, also for plain text",
    ),
    (
        "unserved",
        "responseStatus",
        "with the reason, also for plain text",
    ),
];

fn requests() -> Vec<Sent> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"k": "v"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"k": "v"}});
    let named = format!("{MAPS}/a");
    let merge = "application/merge-patch+json";
    let update = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "audit"}, "data": {"k": "w"}});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "audit"}});
    let stale = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "resourceVersion": "1"}});
    let review = json!({"apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    [
        (
            "namespace",
            Method::POST,
            "/api/v1/namespaces",
            JSON,
            namespace.to_string(),
        ),
        ("create", Method::POST, MAPS, JSON, map.to_string()),
        ("exists", Method::POST, MAPS, JSON, map.to_string()),
        (
            "invalid",
            Method::POST,
            MAPS,
            JSON,
            map.to_string().replace("\"a\"", "\"A\""),
        ),
        ("unreadable", Method::POST, MAPS, JSON, "{".to_owned()),
        ("get", Method::GET, &named, JSON, String::new()),
        (
            "get-namespace",
            Method::GET,
            "/api/v1/namespaces/audit",
            JSON,
            String::new(),
        ),
        (
            "missing",
            Method::GET,
            &format!("{MAPS}/b"),
            JSON,
            String::new(),
        ),
        (
            "list",
            Method::GET,
            &format!("{MAPS}?fieldSelector=metadata.name=a"),
            JSON,
            String::new(),
        ),
        ("update", Method::PUT, &named, JSON, update.to_string()),
        ("stale", Method::PUT, &named, JSON, stale.to_string()),
        (
            "patch",
            Method::PATCH,
            &named,
            merge,
            r#"{"data":{"k":"x"}}"#.to_owned(),
        ),
        ("secret", Method::POST, SECRETS, JSON, secret.to_string()),
        (
            "review",
            Method::POST,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            JSON,
            review.to_string(),
        ),
        ("document", Method::GET, "/api", JSON, String::new()),
        ("nowhere", Method::GET, "/nowhere", JSON, String::new()),
        (
            "unserved",
            Method::GET,
            "/apis/example.com/v1/namespaces/audit/widgets/w",
            JSON,
            String::new(),
        ),
        (
            "delete",
            Method::DELETE,
            &named,
            JSON,
            r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#
                .to_owned(),
        ),
        ("gone", Method::DELETE, &named, JSON, String::new()),
        (
            "collection",
            Method::DELETE,
            &format!("{MAPS}?labelSelector=none"),
            JSON,
            String::new(),
        ),
    ]
    .map(|(id, method, path, media, body)| Sent {
        id,
        method,
        path: path.to_owned(),
        media,
        body,
    })
    .into()
}

/// Sends all requests, and a watch that ends by its timeout.
async fn send_all(client: &Client) -> anyhow::Result<()> {
    for request in requests() {
        let mut headers = vec![("audit-id", request.id), ("user-agent", "audit/1.0")];
        if !request.body.is_empty() {
            headers.push(("content-type", request.media));
        }
        let path = &request.path;
        client
            .send(request.method, path, &headers, request.body)
            .await?;
    }
    let headers = [("audit-id", "watch"), ("user-agent", "audit/1.0")];
    let path = format!("{SECRETS}?watch=1&timeoutSeconds=1");
    client.send(Method::GET, &path, &headers, "").await?;
    Ok(())
}

/// The events of the requests, in their order, once the last of them is there.
fn events_of(text: &str) -> Vec<Value> {
    let ids: Vec<&str> = requests()
        .iter()
        .map(|sent| sent.id)
        .chain(["watch"])
        .collect();
    let events: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |id: &&str| {
        let id = *id;
        let events = events.iter().filter(move |event| event["auditID"] == id);
        events.cloned().map(normalized).collect::<Vec<_>>()
    };
    ids.iter().flat_map(of).collect()
}

/// Masks what differs in every run, and removes what only Insula has.
fn normalized(mut event: Value) -> Value {
    if let Some(annotations) = event["annotations"].as_object_mut() {
        annotations.retain(|name, _| !name.starts_with("insula.dev/"));
        if annotations.is_empty() {
            event
                .as_object_mut()
                .map(|event| event.remove("annotations"));
        }
    }
    mask(&mut event);
    event
}

fn mask(value: &mut Value) {
    const MASKED: [&str; 7] = [
        "creationTimestamp",
        "requestReceivedTimestamp",
        "resourceVersion",
        "stageTimestamp",
        "time",
        "uid",
        "serverAddress",
    ];
    match value {
        Value::Object(members) => {
            // Only Insula still has it.
            members.remove("selfLink");
            for (name, member) in members {
                // "1" is what the test itself sends.
                let is_text = member.as_str().is_some_and(|text| text != "1");
                match MASKED.contains(&name.as_str()) && is_text {
                    true => *member = "…".into(),
                    false => mask(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/audit/recorded.jsonl")
}

fn recorded() -> Vec<Value> {
    let text = std::fs::read_to_string(recording()).expect("it is recorded");
    let line = |line| serde_json::from_str(line).expect("it is JSON");
    text.lines().map(line).collect()
}

/// Returns where two lists of events differ: the request and stage, the member, both values.
fn differences(expected: &[Value], found: &[Value]) -> Vec<String> {
    let key = |event: &Value| format!("{} {}", event["auditID"], event["stage"]).replace('"', "");
    let keys = |events: &[Value]| -> Vec<String> { events.iter().map(key).collect() };
    let mut different = Vec::new();
    if keys(expected) != keys(found) {
        let (expected, found) = (keys(expected), keys(found));
        return vec![format!("events: {expected:?}, not {found:?}")];
    }
    for (expected, found) in expected.iter().zip(found) {
        let members = |event: &Value| -> BTreeSet<String> {
            event
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect()
        };
        for member in members(expected).union(&members(found)) {
            let id = expected["auditID"].as_str().unwrap_or_default();
            let is_intended = INTENDED.iter().any(|(of, at, _)| *of == id && at == member);
            if expected[member] != found[member] && !is_intended {
                different.push(format!(
                    "{}: {member}\n  kube-apiserver: {}\n  insula:         {}",
                    key(expected),
                    expected[member],
                    found[member]
                ));
            }
        }
    }
    different
}

#[tokio::test]
async fn events_match_the_recording() -> anyhow::Result<()> {
    let log = AuditLog::default();
    let mut server = TestServer::audited(Audit::Policy(log.clone(), POLICY.to_owned())).await?;
    send_all(&server.system().await?).await?;
    server.stop().await;
    let different = differences(&recorded(), &events_of(&log.text()));
    assert!(different.is_empty(), "{}", different.join("\n"));
    Ok(())
}

#[tokio::test]
async fn kube_apiserver_matches_the_recording() -> anyhow::Result<()> {
    let Some(server) = KubeApiserver::start_audited(POLICY).await else {
        return Ok(());
    };
    send_all(&server.client().await?).await?;
    let deadline = Instant::now() + TIMEOUT;
    let found = loop {
        let found = events_of(&std::fs::read_to_string(server.audit_log())?);
        let last = found.last().cloned().unwrap_or_default();
        if last["auditID"] == "watch" && last["stage"] == "ResponseComplete" {
            break found;
        }
        anyhow::ensure!(Instant::now() < deadline, "{found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let lines: Vec<String> = found.iter().map(|event| format!("{event}\n")).collect();
        std::fs::write(recording(), lines.concat())?;
    }
    let different = differences(&recorded(), &found);
    assert!(different.is_empty(), "{}", different.join("\n"));
    Ok(())
}
