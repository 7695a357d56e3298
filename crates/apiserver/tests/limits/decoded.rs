//! The memory of decoded objects: what the writes of one space may hold.

use insula_apiserver::Limits;
use insula_apiserver::flow_control::Bound;
use insula_testkit::server::{Engine, Setup, TestServer, loopback};
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};

use super::{MAPS, await_metric, metric, start};

const DECODED: &str = "insula_seats_in_use{work=\"decode\"}";
const REFUSED: &str = "insula_seats_refused_total{work=\"decode\"}";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A megabyte for one space, two for all, and no queue.
fn limits() -> Limits {
    let decoded = Bound {
        total: 32,
        each: 16,
        queue: 0,
    };
    Limits {
        decoded,
        ..Limits::default()
    }
}

/// An object that counts as more than the share of a space.
fn large(name: &str, label: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"hook": label}},
        "data": {"k": "x".repeat(400_000)},
    })
}

/// A webhook for objects with the label `hook: waits`.
fn hook(webhook: &FakeWebhook) -> Value {
    json!({
        "metadata": {"name": "waits"},
        "webhooks": [{
            "name": "waits.example.com",
            "clientConfig": webhook.client_config("/"),
            "objectSelector": {"matchLabels": {"hook": "waits"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 3,
        }],
    })
}

/// A definition that is large when it is decoded.
fn definition() -> Value {
    let properties: serde_json::Map<String, Value> = (0..2_000)
        .map(|n| (format!("property{n}"), json!({"type": "string"})))
        .collect();
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": properties}}}],
        },
    })
}

#[tokio::test]
async fn large_objects_of_a_space_are_decoded_within_its_share() -> anyhow::Result<()> {
    let setup = Setup {
        limits: Some(limits()),
        egress: loopback(),
        ..Setup::default()
    };
    let server = TestServer::start_on(Engine::Memory, setup).await?.unwrap();
    let (a, b) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let webhook = FakeWebhook::start(Reply::Silence).await?;
    assert_eq!(a.post(HOOKS, &hook(&webhook)).await?.status, 201);
    assert_eq!(a.post(DEFINITIONS, &definition()).await?.status, 201);
    let waiting = {
        let a = a.clone();
        tokio::spawn(async move { a.post(MAPS, &large("first", "waits")).await })
    };
    await_metric(&system, DECODED, 16).await?;
    // The webhook has the object, so that its memory is in use for as long as it takes.
    webhook.called(1).await?;
    let refused = a.post(MAPS, &large("second", "none")).await?;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    // A small patch of a large definition needs the whole definition.
    let patch = json!({"metadata": {"annotations": {"a": "b"}}});
    let path = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(a.patch(&path, "merge", &patch).await?.status, 429);
    assert_eq!(metric(&system, REFUSED).await?, 2);
    let small = json!({"metadata": {"name": "small"}, "data": {"k": "x"}});
    assert_eq!(a.post(MAPS, &small).await?.status, 201);
    assert_eq!(b.post(MAPS, &large("second", "none")).await?.status, 201);
    assert_eq!(waiting.await??.status, 201);
    await_metric(&system, DECODED, 0).await?;
    assert_eq!(a.post(MAPS, &large("second", "none")).await?.status, 201);
    assert_eq!(a.patch(&path, "merge", &patch).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn object_of_too_many_maps_gets_413() -> anyhow::Result<()> {
    let server = start(Limits::default()).await?;
    let client = server.tenant("t1").await?;
    let maps = vec![json!({"a": 1}); 120_001];
    let object = json!({"metadata": {"name": "m"}, "data": maps});
    let refused = client.post(MAPS, &object).await?;
    assert_eq!(refused.status, 413);
    assert!(
        refused.text().contains("the limit is 120000"),
        "{}",
        refused.text()
    );
    Ok(())
}
