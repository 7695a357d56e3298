//! Admission: built-in defaulting, PodSecurity, webhooks and policies.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod built_in;
mod calls;
mod classes;
#[path = "../support/fixtures.rs"]
#[expect(dead_code, reason = "other programs use the rest")]
mod fixtures;
mod mutation;
mod pod_security;
mod policies;
mod responses;
mod tenants;

use fixtures::assert_refused;
use insula_testkit::server::{Audit, AuditLog, Client, Setup, TestServer, loopback};
use insula_testkit::webhook::FakeWebhook;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A server that allows tenants' webhooks on loopback addresses.
async fn server() -> anyhow::Result<TestServer> {
    let setup = Setup {
        egress: loopback(),
        ..Setup::default()
    };
    TestServer::start_with(setup).await
}

/// The same with an audit log.
async fn audited() -> anyhow::Result<(TestServer, AuditLog)> {
    let log = AuditLog::default();
    let setup = Setup {
        audit: Some(Audit::Memory(log.clone())),
        egress: loopback(),
        ..Setup::default()
    };
    Ok((TestServer::start_with(setup).await?, log))
}

async fn start_tenant() -> anyhow::Result<(TestServer, Client)> {
    let server = server().await?;
    let client = server.tenant("t1").await?;
    Ok((server, client))
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "b"}})
}

/// A webhook configuration entry, for ConfigMaps unless `changes` says otherwise.
fn hook(webhook: &FakeWebhook, name: &str, changes: Value) -> Value {
    let mut hook = json!({
        "name": name,
        "clientConfig": webhook.client_config("/x"),
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["*"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (member, value) in changes.as_object().unwrap() {
        hook[member] = value.clone();
    }
    hook
}

/// Creates a webhook configuration, which takes effect at once.
async fn configure(client: &Client, sort: &str, name: &str, hooks: &[Value]) -> anyhow::Result<()> {
    let path = format!("{HOOKS}/{sort}webhookconfigurations");
    let configuration = json!({"metadata": {"name": name}, "webhooks": hooks});
    let created = client.post(&path, &configuration).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(())
}

/// A tenant with one webhook for ConfigMaps.
async fn tenant_with_webhook(
    sort: &str,
    webhook: &FakeWebhook,
    changes: Value,
) -> anyhow::Result<(TestServer, Client)> {
    let (server, client) = start_tenant().await?;
    let hook = hook(webhook, "w1.ex.io", changes);
    configure(&client, sort, "c1", &[hook]).await?;
    Ok((server, client))
}
