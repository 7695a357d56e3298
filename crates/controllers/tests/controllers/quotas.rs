//! The recorded usage of quotas.

use anyhow::Context;
use insula_apiserver::registry::tenant_quota::TenantQuota;
use insula_core::Space;
use insula_testkit::server::{Answer, Client, Setup, TestServer};
use serde_json::{Value, json};

use crate::{config_map, create, servers, until};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The controllers create no Secrets, so the test knows their number.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas/q";

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn quota(hard: Value) -> Value {
    json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})
}

/// Waits until the tenant's recorded usage is its number of objects.
async fn until_usage_is_current(server: &TestServer, system: &Client) -> anyhow::Result<Value> {
    server.registry().catch_up().await?;
    let life = server.registry().cache().space_state(&Space::parse("t1")?);
    let life = life.context("there is no such tenant")?;
    let usage = until(system, "/api/v1/tenants/t1", |tenant| {
        tenant.json()["status"]["usage"]["objects"] == life.usage().objects
    });
    Ok(usage.await?.json()["status"]["usage"].clone())
}

#[tokio::test]
async fn new_quota_gets_the_current_usage() -> anyhow::Result<()> {
    for server in servers().await? {
        let client = server.tenant("t1").await?;
        create(&client, SECRETS, secret("c1")).await?;
        let hard = json!({"secrets": "5", "count/widgets.example.com": "3", "cpu": "2"});
        let created = create(&client, QUOTAS, quota(hard.clone())).await?;
        assert_eq!(created["status"], json!({}));
        let used = json!({"secrets": "1", "count/widgets.example.com": "0", "cpu": "0"});
        let status = json!({"hard": hard, "used": used});
        until(&client, QUOTA, |quota| quota.json()["status"] == status).await?;
        let more = json!({"spec": {"hard": {"cpu": null, "services": "4"}}});
        assert_eq!(client.patch(QUOTA, "merge", &more).await?.status, 200);
        let used = json!({"secrets": "1", "count/widgets.example.com": "0", "services": "0"});
        until(&client, QUOTA, |quota| {
            quota.json()["status"]["used"] == used
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn released_usage_is_recorded() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create(&client, QUOTAS, quota(json!({"secrets": "9", "pods": "9"}))).await?;
    for name in ["c1", "c2", "c3"] {
        create(&client, SECRETS, secret(name)).await?;
    }
    let container = json!({"name": "c", "image": "i"});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    create(&client, PODS, pod).await?;
    // A create records its usage in its own transaction.
    let full = client.get(QUOTA).await?.json();
    assert_eq!(full["status"]["used"], json!({"secrets": "3", "pods": "1"}));
    assert_eq!(client.delete(&format!("{SECRETS}/c1")).await?.status, 200);
    let one_less = json!({"secrets": "2", "pods": "1"});
    until(&client, QUOTA, |quota| {
        quota.json()["status"]["used"] == one_less
    })
    .await?;
    let over = json!({"status": {"phase": "Succeeded"}});
    let over = client
        .patch(&format!("{PODS}/p/status"), "merge", &over)
        .await?;
    assert_eq!(over.status, 200, "{}", over.text());
    let pod_less = json!({"secrets": "2", "pods": "0"});
    until(&client, QUOTA, |quota| {
        quota.json()["status"]["used"] == pod_less
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn wrong_usage_is_repaired() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    create(&client, QUOTAS, quota(json!({"secrets": "2"}))).await?;
    create(&client, SECRETS, secret("c1")).await?;
    for wrong in ["0", "7"] {
        let wrong = json!({"status": {"used": {"secrets": wrong}}});
        let reported = client
            .patch(&format!("{QUOTA}/status"), "merge", &wrong)
            .await?;
        assert_eq!(reported.status, 200, "{}", reported.text());
        let right = json!({"secrets": "1"});
        until(&client, QUOTA, |quota| {
            quota.json()["status"]["used"] == right
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn usage_is_recounted_at_the_start() -> anyhow::Result<()> {
    let store = std::sync::Arc::new(insula_store::memory::Memory::new());
    let mut first = TestServer::start_on_store(store.clone(), Setup::default()).await?;
    let client = first.tenant("t1").await?;
    create(&client, QUOTAS, quota(json!({"secrets": "2"}))).await?;
    create(&client, SECRETS, secret("c1")).await?;
    create(&client, SECRETS, secret("c2")).await?;
    assert_eq!(client.delete(&format!("{SECRETS}/c1")).await?.status, 200);
    let patch = json!({"spec": {"quota": {"objects": 50}}});
    let system = first.system().await?;
    let tenant = "/api/v1/tenants/t1";
    assert_eq!(system.patch(tenant, "merge", &patch).await?.status, 200);
    first.stop().await;
    let second = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let client = second.client("t1").await?;
    let used = json!({"secrets": "1"});
    until(&client, QUOTA, |quota| {
        quota.json()["status"]["used"] == used
    })
    .await?;
    let system = second.system().await?;
    until_usage_is_current(&second, &system).await?;
    Ok(())
}

#[tokio::test]
async fn limited_tenant_shows_its_usage() -> anyhow::Result<()> {
    for server in servers().await? {
        let system = server.system().await?;
        let quota = json!({"objects": 20, "bytes": "1Mi"});
        let tenant = json!({"metadata": {"name": "t1"}, "spec": {"quota": quota}});
        create(&system, "/api/v1/tenants", tenant).await?;
        let path = "/api/v1/tenants/t1";
        let client = server.client("t1").await?;
        until_usage_is_current(&server, &system).await?;
        create(&client, SECRETS, secret("c1")).await?;
        until_usage_is_current(&server, &system).await?;
        create(
            &client,
            "/api/v1/namespaces",
            json!({"metadata": {"name": "n"}}),
        )
        .await?;
        let usage = until_usage_is_current(&server, &system).await?;
        assert_eq!(usage["namespaces"], 4);
        assert_eq!(usage["customResourceDefinitions"], 0);
        assert!(usage["bytes"].is_string(), "{usage}");
        assert_eq!(client.delete(&format!("{SECRETS}/c1")).await?.status, 200);
        until_usage_is_current(&server, &system).await?;
        // A tenant without a quota shows no usage.
        let none = json!({"spec": {"quota": null}});
        assert_eq!(system.patch(path, "merge", &none).await?.status, 200);
        until(&system, path, |tenant| {
            tenant.json()["status"].get("usage").is_none()
        })
        .await?;
        server.tenant("t2").await?;
        let other = system.get("/api/v1/tenants/t2").await?.json();
        assert_eq!(other["status"], json!({"phase": "Active"}));
    }
    Ok(())
}

/// Tenants that were there before the default get it, and their usage is recorded in steps.
#[tokio::test]
async fn default_quota_is_shown_in_every_tenant() -> anyhow::Result<()> {
    let store = std::sync::Arc::new(insula_store::memory::Memory::new());
    let mut before = TestServer::start_on_store(store.clone(), Setup::with_controllers()).await?;
    before.tenant("t1").await?;
    before.stop().await;
    let setup = Setup {
        tenant_quota: TenantQuota::parse(&json!({"bytes": "1Gi"})),
        ..Setup::with_controllers()
    };
    let server = TestServer::start_on_store(store, setup).await?;
    let (system, client) = (server.system().await?, server.tenant("t2").await?);
    let shown = |tenant: &Answer| tenant.json()["status"]["quota"] == json!({"bytes": "1Gi"});
    for path in ["/api/v1/tenants/t1", "/api/v1/tenants/t2"] {
        let tenant = until(&system, path, shown).await?.json();
        assert_eq!(tenant["status"]["usage"]["namespaces"], 3);
        assert_eq!(tenant["status"]["limits"]["watches"], 10_000);
    }
    let path = "/api/v1/tenants/t2";
    let recorded = system.get(path).await?.json()["metadata"]["resourceVersion"].clone();
    create(&client, SECRETS, secret("c1")).await?;
    let namespace = json!({"metadata": {"name": "n"}});
    create(&client, "/api/v1/namespaces", namespace).await?;
    let more = until(&system, path, |tenant| {
        tenant.json()["status"]["usage"]["namespaces"] == 4
    });
    let more = more.await?.json();
    assert_ne!(more["metadata"]["resourceVersion"], recorded);
    // A change of limits is shown without a change of usage.
    let limits = json!({"spec": {"limits": {"watches": 7}}});
    assert_eq!(system.patch(path, "merge", &limits).await?.status, 200);
    until(&system, path, |tenant| {
        tenant.json()["status"]["limits"]["watches"] == 7
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn tenant_with_a_full_quota_can_be_emptied_and_deleted() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let system = server.system().await?;
    let client = server.tenant("t1").await?;
    create(&client, MAPS, config_map("c1", &["example.com/hold"])).await?;
    create(
        &client,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "n"}}),
    )
    .await?;
    let nothing = json!({"spec": {"quota": {"objects": 0, "bytes": 0, "namespaces": 0}}});
    let path = "/api/v1/tenants/t1";
    assert_eq!(system.patch(path, "merge", &nothing).await?.status, 200);
    assert_eq!(client.delete("/api/v1/namespaces/n").await?.status, 200);
    crate::until_gone(&client, "/api/v1/namespaces/n").await?;
    assert_eq!(client.delete(&format!("{MAPS}/c1")).await?.status, 200);
    crate::release(&client, &format!("{MAPS}/c1")).await?;
    assert_eq!(system.delete(path).await?.status, 200);
    crate::until_gone(&system, path).await?;
    Ok(())
}
