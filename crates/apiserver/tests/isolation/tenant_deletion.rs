//! Tenant deletion: nothing that belonged to a deleted tenant works for a new tenant of the same
//! name.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use insula_access::certificate;
use insula_core::TenantBinding;
use insula_testkit::peer::skipped;
use insula_testkit::server::{Client, TestServer};
use serde_json::json;

use super::principals::{
    bind, create, server_with, service_account, service_account_token, subject, user,
};
use super::{MAPS, named, names, until};

const TENANT: &str = "/api/v1/tenants/t1";

/// Deletes the tenant and waits until the tenant controller has emptied its space.
async fn delete_tenant(server: &TestServer) -> anyhow::Result<()> {
    let system = server.system().await?;
    let deleted = system.delete(TENANT).await?;
    anyhow::ensure!(deleted.status == 200, "{}", deleted.text());
    until(&system, TENANT, |answer| answer.status == 404).await?;
    Ok(())
}

/// Asserts that the client is either unauthenticated or has no permission.
async fn assert_no_access(client: &Client, when: &str) -> anyhow::Result<()> {
    for path in [
        MAPS,
        "/api/v1/tenants/t1/configmaps",
        "/tenants/t1/api/v1/namespaces",
        "/api/v1/tenants/t1/configmaps?watch=true&timeoutSeconds=1",
    ] {
        let refused = client.get(path).await?;
        let is_nobody = matches!(refused.status, 401 | 403);
        assert!(is_nobody, "{when} {path}: {}", refused.text());
    }
    let refused = client.post(MAPS, &named("x")).await?;
    let is_nobody = matches!(refused.status, 401 | 403);
    assert!(is_nobody, "{when}: {}", refused.text());
    Ok(())
}

#[tokio::test]
async fn i05_certificates_are_invalid_after_tenant_deletion() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    server.tenant("t1").await?;
    let identity = server.identity(&subject("admin", &[], "t1")?).await?;
    let tenant_binding = certificate::read(&identity.certificate)?.tenant_binding;
    let client = server.client_with_identity(identity.clone(), "").await?;
    assert_eq!(client.get(MAPS).await?.status, 200);
    let issued = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    delete_tenant(&server).await?;
    assert_no_access(&client, "after the end").await?;
    // Certificates have a resolution of seconds: the new tenant must not be created within the same
    // second.
    while SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() <= issued {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let next = server.tenant("t1").await?;
    assert_eq!(next.get(MAPS).await?.status, 200);
    if tenant_binding == TenantBinding::Name {
        skipped("certificates are not tied to a tenant, only to its name");
        return Ok(());
    }
    assert_no_access(&client, "on the old connection").await?;
    let again = server.client_with_identity(identity, "").await?;
    assert_no_access(&again, "on a new connection").await
}

#[tokio::test]
async fn i05_service_account_tokens_are_invalid_after_tenant_deletion() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let mut tokens: Vec<String> = Vec::new();
    for _ in 0..2 {
        let admin = server.tenant("t1").await?;
        for old in &tokens {
            assert_no_access(&server.client(old).await?, "before its account is back").await?;
        }
        let token = service_account_token(&admin, "default", "robot").await?;
        let robot = service_account("default", "robot");
        bind(&admin, None, "robot", "cluster-admin", robot).await?;
        let client = server.client(&token).await?;
        assert_eq!(client.get(MAPS).await?.status, 200);
        // Same name, same namespace, same permissions, but a different service account.
        for old in &tokens {
            assert_no_access(&server.client(old).await?, "after its account is back").await?;
        }
        delete_tenant(&server).await?;
        tokens.push(token);
        for old in &tokens {
            assert_no_access(&server.client(old).await?, "after the end").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn i05_watches_end_with_tenant_deletion() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let admin = server.tenant("t1").await?;
    let system = server.system().await?;
    create(&admin, MAPS, named("old")).await?;
    let mut open = Vec::new();
    for (client, path) in [
        (&admin, format!("{MAPS}?watch=true")),
        (&admin, "/api/v1/watch/configmaps".to_owned()),
        (&system, format!("/tenants/t1{MAPS}?watch=true")),
        (
            &system,
            "/api/v1/tenants/t1/configmaps?watch=true".to_owned(),
        ),
    ] {
        let mut watch = client.watch(&path).await?;
        loop {
            let event = watch.next().await?.unwrap_or_default();
            assert_eq!(event["type"], "ADDED", "{path}");
            if event["object"]["metadata"]["name"] == "old" {
                break;
            }
        }
        open.push((path, watch));
    }
    delete_tenant(&server).await?;
    let next = server.tenant("t1").await?;
    create(&next, MAPS, named("new")).await?;
    for (path, mut watch) in open {
        let events = watch.rest().await?;
        let last = events.last().cloned().unwrap_or_default();
        assert_eq!(last["type"], "ERROR", "{path}: {events:?}");
        let of_next = events.iter().any(|event| event.to_string().contains("new"));
        assert!(!of_next, "{path}: {events:?}");
    }
    Ok(())
}

#[tokio::test]
async fn i05_continue_tokens_are_invalid_after_tenant_deletion() -> anyhow::Result<()> {
    let server = server_with(&[], true).await?;
    let admin = server.tenant("t1").await?;
    for name in ["a", "b", "c"] {
        create(&admin, MAPS, named(name)).await?;
    }
    let page = admin.get(&format!("{MAPS}?limit=1")).await?.json();
    let token = page["metadata"]["continue"].as_str().unwrap_or("");
    let path = format!("{MAPS}?limit=1&continue={token}");
    assert_eq!(names(&admin.get(&path).await?.json()), ["b"]);
    delete_tenant(&server).await?;
    let next = server.tenant("t1").await?;
    for name in ["a", "b", "c"] {
        create(&next, MAPS, named(name)).await?;
    }
    let system = server.system().await?;
    for (client, path) in [
        (&next, path.clone()),
        (&system, format!("/tenants/t1{path}")),
    ] {
        let refused = client.get(&path).await?;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert!(refused.message().starts_with("invalid continue token"));
    }
    Ok(())
}

#[tokio::test]
async fn i05_role_bindings_are_gone_after_tenant_deletion() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], true).await?;
    let admin = server.tenant("t1").await?;
    let alice = server.client("t1/alice").await?;
    let role = json!({"metadata": {"name": "maps"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": ["*"]},
    ]});
    create(
        &admin,
        &format!("{}/clusterroles", super::principals::RBAC),
        role,
    )
    .await?;
    bind(&admin, None, "alice", "maps", user("alice")).await?;
    assert_eq!(alice.get(MAPS).await?.status, 200);
    delete_tenant(&server).await?;
    assert_no_access(&alice, "after the end").await?;
    let next = server.tenant("t1").await?;
    assert_no_access(&alice, "in the next tenant").await?;
    // A binding of the new tenant does not resolve to a role of the deleted one.
    bind(&next, None, "alice", "maps", user("alice")).await?;
    assert_no_access(&alice, "without the role").await?;
    assert_eq!(next.get(MAPS).await?.status, 200);
    Ok(())
}
