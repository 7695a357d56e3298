//! Secrets never appear in the audit log, regardless of how they are sent.

use std::collections::BTreeSet;

use http::Method;
use insula_testkit::server::{Audit, AuditLog, TestServer};
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = "/api/v1/namespaces/default/secrets/a";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// The secret that must not be found.
const CANARY: &str = "c4nary";

/// The secret in base64, after zero, one or two other bytes.
const CANARY_BASE64: [&str; 3] = ["YzRuYXJ5", "M0bmFye", "jNG5hcn"];

/// Method, path, content type and body.
type Request = (Method, &'static str, &'static str, String);

/// A Secret with these further fields.
fn secret(name: &str, more: Value) -> String {
    let mut secret = json!({"metadata": {"name": name}});
    for (member, value) in more.as_object().into_iter().flatten() {
        secret[member] = value.clone();
    }
    secret.to_string()
}

fn creations() -> Vec<Request> {
    let sent = [
        secret("a", json!({"data": {"k": CANARY_BASE64[0]}})),
        // A Secret of this name already exists.
        secret("a", json!({"data": {"k": CANARY_BASE64[0]}})),
        secret("A_", json!({"data": {"k": CANARY_BASE64[0]}})),
        secret("b", json!({"data": {"k": CANARY}})),
        secret("b", json!({"data": CANARY})),
        secret("b", json!({"data": {CANARY: 1}})),
        secret("b", json!({"data": {"c4nary !": ""}})),
        secret("b", json!({"type": CANARY, "immutable": CANARY})),
        secret(
            "b",
            json!({"type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": CANARY}}),
        ),
        secret(
            "b",
            json!({"metadata": {"labels": {"c4nary/c4nary/c4nary": ""}}}),
        ),
        secret("b", json!({"metadata": {"name": CANARY.to_uppercase()}})),
        format!("{{\"{CANARY}"),
        CANARY.to_owned(),
        format!("{{\"kind\":\"{CANARY}\"}}"),
        format!("{{\"apiVersion\":\"{CANARY}\"}}"),
        // Larger than the request size limit.
        secret("b", json!({"stringData": {"k": CANARY.repeat(1 << 20)}})),
    ];
    let sent = sent.map(|body| (Method::POST, SECRETS, "application/json", body));
    let yaml = format!("data: {{k: [{CANARY}");
    let other_requests = [
        (Method::POST, SECRETS, "application/yaml", yaml),
        (Method::POST, SECRETS, "text/plain", CANARY.to_owned()),
    ];
    sent.into_iter().chain(other_requests).collect()
}

fn changes() -> Vec<Request> {
    let put = [
        secret("a", json!({"stringData": {"k": CANARY}})),
        secret("a", json!({"type": CANARY})),
        secret(CANARY, json!({})),
        secret("a", json!({"metadata": {"name": "a", "uid": CANARY}})),
    ];
    let merge = [
        json!({"stringData": {"k": CANARY}}),
        json!({"data": {"k": CANARY}}),
        json!({"type": CANARY}),
        json!(CANARY),
    ];
    let operations = [
        json!([{"op": "test", "path": "/data/k", "value": CANARY}]),
        json!([{"op": CANARY}]),
        json!([{"op": "remove", "path": "/data/c4nary"}]),
    ];
    let put = put.map(|body| (Method::PUT, SECRET, "application/json", body));
    let patch =
        |media: &'static str, body: &Value| (Method::PATCH, SECRET, media, body.to_string());
    let merge = merge.map(|body| patch("application/merge-patch+json", &body));
    let operations = operations.map(|body| patch("application/json-patch+json", &body));
    put.into_iter().chain(merge).chain(operations).collect()
}

fn other_requests() -> Vec<Request> {
    let bound = json!({"kind": "Secret", "apiVersion": "v1", "name": "a", "uid": CANARY});
    let sent = [
        (
            Method::POST,
            TOKEN,
            json!({"spec": {"audiences": [CANARY]}}),
        ),
        (
            Method::POST,
            TOKEN,
            json!({"spec": {"boundObjectRef": bound}}),
        ),
        (
            Method::POST,
            TOKEN,
            json!({"spec": {"boundObjectRef": {"kind": CANARY}}}),
        ),
        (Method::POST, REVIEWS, json!({"spec": {"token": CANARY}})),
        (
            Method::DELETE,
            SECRET,
            json!({"preconditions": {"uid": CANARY}}),
        ),
        (
            Method::GET,
            "/api?token=c4nary&c4nary&x=c4nary",
            Value::Null,
        ),
        (Method::GET, SECRET, Value::Null),
        (Method::GET, SECRETS, Value::Null),
        (
            Method::GET,
            "/api/v1/secrets?watch=1&timeoutSeconds=1",
            Value::Null,
        ),
    ];
    sent.map(|(method, path, body)| (method, path, "application/json", body.to_string()))
        .into()
}

#[tokio::test]
async fn no_secret_is_ever_logged() -> anyhow::Result<()> {
    let log = AuditLog::default();
    let mut server = TestServer::audited(Audit::Memory(log.clone())).await?;
    let tenant = server.tenant("t1").await?;
    let (mut codes, mut issued) = (BTreeSet::new(), Vec::new());
    let requests = [creations(), changes(), other_requests()].concat();
    for (method, path, media, body) in requests {
        let headers = [
            ("content-type", media),
            ("cookie", CANARY),
            ("x-token", CANARY),
            ("audit-id", "c4nary_"),
        ];
        let answer = tenant.send(method, path, &headers, body).await?;
        log.event(answer.header("audit-id")).await?;
        codes.insert(answer.status);
        let token = answer.json()["status"]["token"].clone();
        issued.extend(token.as_str().map(str::to_owned));
    }
    let stranger = server.client(CANARY).await?;
    assert_eq!(stranger.get("/api").await?.status, 401);
    server.stop().await;
    let refusals: BTreeSet<u16> = [200, 201, 400, 409, 413, 415, 422].into();
    assert!(codes.is_superset(&refusals), "only {codes:?} were answered");
    assert_eq!(issued.len(), 1);
    let signature = issued[0].rsplit('.').next().unwrap_or_default();
    let text = log.text();
    for secret in [CANARY, "C4NARY", signature, "Bearer"]
        .iter()
        .chain(&CANARY_BASE64)
    {
        let found = text.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{secret} is in the log");
    }
    Ok(())
}
