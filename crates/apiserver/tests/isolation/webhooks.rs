//! Webhooks that do not answer: a request waiting for one holds no seat that others need.

use std::time::Duration;

use insula_testkit::server::{DEFINITIONS, Setup, TestServer, definition, loopback};
use insula_testkit::webhook::{FakeWebhook, Reply};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::names;

/// Far less than the 30 seconds of the webhook timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);

/// More objects than a cheap read may return.
const OBJECTS: usize = 120;

/// A definition with two versions that only a webhook can convert.
fn foos(webhook: &FakeWebhook) -> Value {
    let mut foos = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    let mut second = foos["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    let first = foos["spec"]["versions"][0].clone();
    foos["spec"]["versions"] = json!([first, second]);
    foos["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": webhook.client_config("/convert"),
        },
    });
    foos
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i35_a_hanging_conversion_webhook_holds_no_seat() -> anyhow::Result<()> {
    let webhook = FakeWebhook::start(Reply::Silence).await?;
    let server = TestServer::start_with(Setup {
        egress: loopback(),
        ..Setup::with_controllers()
    })
    .await?;
    let (attacker, neighbour) = (server.tenant("t1").await?, server.tenant("t2").await?);
    attacker.define(&foos(&webhook)).await?;
    for number in 0..OBJECTS {
        let metadata = json!({"name": format!("x{number:03}")});
        let foo = json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": metadata});
        let created = attacker
            .post("/apis/ex.io/v1/namespaces/default/foos", &foo)
            .await?;
        assert_eq!(created.status, 201, "{}", created.text());
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let created = neighbour
            .post("/api/v1/namespaces/default/configmaps", &map)
            .await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    // Somewhat more requests than any test machine has seats for expensive ones.
    let lists: Vec<_> = (0..40)
        .map(|_| {
            let attacker = attacker.clone();
            tokio::spawn(async move { attacker.get("/apis/ex.io/v2/foos").await })
        })
        .collect();
    webhook.called(1).await?;
    for path in [
        "/api/v1/configmaps",
        "/api/v1/namespaces/default/configmaps",
    ] {
        let found = timeout(RESPONSE_TIMEOUT, neighbour.get(path)).await??;
        assert_eq!(found.status, 200, "{}", found.text());
        assert!(names(&found.json()).len() >= OBJECTS);
    }
    // They delay neither their own tenant nor its deletion.
    let own = timeout(RESPONSE_TIMEOUT, attacker.get("/apis/ex.io/v1/foos")).await??;
    assert_eq!(names(&own.json()).len(), OBJECTS);
    let deleted = timeout(
        RESPONSE_TIMEOUT,
        attacker.delete(&format!("{DEFINITIONS}/foos.ex.io")),
    )
    .await??;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let system = server.system().await?;
    assert_eq!(system.delete("/api/v1/tenants/t1").await?.status, 200);
    system.until_gone("/api/v1/tenants/t1").await?;
    lists.iter().for_each(|list| list.abort());
    Ok(())
}
