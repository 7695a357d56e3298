//! Roles and bindings belong to one space: they bind subjects of that space, and those of the
//! system apply in tenants only where they are bound for the whole system.

use insula_testkit::server::Client;
use serde_json::json;

use super::principals::{RBAC, bind, create, group, server_with, user};
use super::{MAPS, named};

/// Status codes of a read and a write in the namespace `default` of a space.
async fn read_and_write_status(client: &Client, prefix: &str) -> anyhow::Result<(u16, u16)> {
    let read = client.get(&format!("{prefix}{MAPS}")).await?;
    let named = json!({"metadata": {"generateName": "x-"}});
    let written = client.post(&format!("{prefix}{MAPS}"), &named).await?;
    Ok((read.status, written.status))
}

#[tokio::test]
async fn system_role_bindings_do_not_apply_to_the_same_namespace_of_a_tenant() -> anyhow::Result<()>
{
    let server = server_with(&["system/bob"], false).await?;
    let system = server.system().await?;
    server.tenant("t1").await?;
    let bob = server.client("system/bob").await?;
    bind(
        &system,
        Some("default"),
        "bob",
        "cluster-admin",
        user("bob"),
    )
    .await?;
    assert_eq!(read_and_write_status(&bob, "").await?, (200, 201));
    for prefix in ["/tenants/t1", "/tenants/ghost"] {
        assert_eq!(
            read_and_write_status(&bob, prefix).await?,
            (403, 403),
            "{prefix}"
        );
    }
    let refused = bob.get("/api/v1/tenants/all/configmaps").await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let refused = bob.get("/api/v1/tenants/all/namespaces/default/configmaps");
    assert_eq!(refused.await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn system_viewers_can_read_tenants_but_not_write() -> anyhow::Result<()> {
    let server = server_with(&["system/bob"], false).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    create(&tenant, MAPS, named("x")).await?;
    let bob = server.client("system/bob").await?;
    bind(&system, None, "bob", "view", user("bob")).await?;
    for prefix in ["", "/tenants/t1"] {
        assert_eq!(
            read_and_write_status(&bob, prefix).await?,
            (200, 403),
            "{prefix}"
        );
        let secrets = format!("{prefix}/api/v1/namespaces/default/secrets");
        assert_eq!(bob.get(&secrets).await?.status, 403, "{prefix}");
    }
    assert_eq!(bob.get("/api/v1/tenants/all/configmaps").await?.status, 200);
    let path = format!("/tenants/t1{MAPS}/x");
    let patch = json!({"data": {"a": "b"}});
    assert_eq!(bob.delete(&path).await?.status, 403);
    assert_eq!(bob.patch(&path, "merge", &patch).await?.status, 403);
    assert_eq!(bob.put(&path, &named("x")).await?.status, 403);
    assert_eq!(bob.delete(&format!("/tenants/t1{MAPS}")).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn tenant_bindings_do_not_bind_users_of_other_spaces() -> anyhow::Result<()> {
    let server = server_with(&["system/bob", "t2/bob", "t1/bob"], false).await?;
    let tenant = server.tenant("t1").await?;
    server.tenant("t2").await?;
    let (stranger, other) = (
        server.client("system/bob").await?,
        server.client("t2/bob").await?,
    );
    for (name, subject) in [
        ("user", user("bob")),
        ("group", group("bobs")),
        ("everybody", group("system:authenticated")),
        ("masters", group("system:masters")),
        ("long", user("system:bob")),
    ] {
        bind(&tenant, None, name, "cluster-admin", subject.clone()).await?;
        bind(&tenant, Some("default"), name, "cluster-admin", subject).await?;
    }
    for client in [&stranger, &other] {
        assert_eq!(
            read_and_write_status(client, "/tenants/t1").await?,
            (403, 403)
        );
        assert_eq!(read_and_write_status(client, "").await?, (403, 403));
        assert_eq!(
            read_and_write_status(client, "/tenants/system").await?,
            (403, 403)
        );
    }
    // The binding is about the tenant's own user of that name, in that tenant only.
    let own = server.client("t1/bob").await?;
    assert_eq!(read_and_write_status(&own, "").await?, (200, 201));
    assert_eq!(
        read_and_write_status(&own, "/tenants/t2").await?,
        (403, 403)
    );
    assert_eq!(
        read_and_write_status(&own, "/tenants/system").await?,
        (403, 403)
    );
    assert_eq!(own.get("/tenants/system/api/v1/nodes").await?.status, 403);
    assert_eq!(own.get("/api/v1/tenants").await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn bindings_do_not_resolve_roles_of_another_space() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice", "t2/alice"], false).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    let role = json!({"metadata": {"name": "elsewhere"}, "rules": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    ]});
    for owner in [&system, &other] {
        create(owner, &format!("{RBAC}/clusterroles"), role.clone()).await?;
    }
    bind(&tenant, None, "alice", "elsewhere", user("alice")).await?;
    let alice = server.client("t1/alice").await?;
    assert_eq!(read_and_write_status(&alice, "").await?, (403, 403));
    bind(&other, None, "alice", "elsewhere", user("alice")).await?;
    assert_eq!(read_and_write_status(&alice, "").await?, (403, 403));
    let alice = server.client("t2/alice").await?;
    assert_eq!(read_and_write_status(&alice, "").await?, (200, 201));
    Ok(())
}

#[tokio::test]
async fn changing_a_default_role_affects_one_space_only() -> anyhow::Result<()> {
    let users = ["t1/alice", "t2/alice", "system/alice"];
    let server = server_with(&users, false).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let other = server.tenant("t2").await?;
    for owner in [&system, &tenant, &other] {
        bind(owner, None, "alice", "view", user("alice")).await?;
    }
    // Once through an aggregated role, once by editing the role itself.
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let label = "rbac.authorization.k8s.io/aggregate-to-view";
    let part = json!({
        "metadata": {"name": "part", "labels": {label: "true"}}, "rules": everything,
    });
    create(&tenant, &format!("{RBAC}/clusterroles"), part).await?;
    for round in 0..2 {
        for (name, prefix, expected) in [
            ("t1/alice", "", (200, 201)),
            ("t2/alice", "", (200, 403)),
            ("t2/alice", "/tenants/t1", (403, 403)),
            ("system/alice", "", (200, 403)),
            ("system/alice", "/tenants/t1", (200, 403)),
            ("system/alice", "/tenants/t2", (200, 403)),
        ] {
            let client = server.client(name).await?;
            let found = read_and_write_status(&client, prefix).await?;
            assert_eq!(found, expected, "{round} {name} {prefix}");
        }
        let gone = tenant.delete(&format!("{RBAC}/clusterroles/part")).await?;
        assert!([200, 404].contains(&gone.status));
        let patch = json!({"rules": everything, "aggregationRule": null});
        let path = format!("{RBAC}/clusterroles/view");
        let patched = tenant.patch(&path, "merge", &patch).await?;
        assert_eq!(patched.status, 200, "{}", patched.text());
    }
    Ok(())
}
