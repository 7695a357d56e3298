//! Rights that are taken away: the next request is refused, and what is open ends. And
//! rights that never were: those of the system in tenants, and of tenants over the system.

use std::time::Duration;

use insula_testkit::server::{Client, Lines};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cast::{RBAC, bind, group, make, server_with, user};
use super::{MAPS, called};

/// How long a watch may go on after the right to it is gone.
const SOON: Duration = Duration::from_secs(2);

/// A way to take a right away: what is changed, and how.
enum Taken {
    Deleted(&'static str),
    Patched(&'static str, Value),
}

impl Taken {
    async fn by(&self, client: &Client) -> anyhow::Result<()> {
        let answer = match self {
            Self::Deleted(path) => client.delete(&format!("{RBAC}/{path}")).await?,
            Self::Patched(path, patch) => {
                client
                    .patch(&format!("{RBAC}/{path}"), "merge", patch)
                    .await?
            }
        };
        anyhow::ensure!(answer.status == 200, "{}", answer.text());
        Ok(())
    }
}

/// Gives the role `maps` to a user or a group, by a binding called `given`.
async fn give(owner: &Client, namespace: Option<&str>, subject: Value) -> anyhow::Result<()> {
    let role = json!({"metadata": {"name": "maps"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
    ]});
    let roles = format!("{RBAC}/clusterroles");
    if owner.get(&format!("{roles}/maps")).await?.status == 404 {
        make(owner, &roles, role).await?;
    }
    bind(owner, namespace, "given", "maps", subject).await?;
    Ok(())
}

/// That the watch says why it ends, and ends, soon.
async fn assert_ends(mut watch: Lines, since: Instant, what: &str) -> anyhow::Result<()> {
    let events = watch.rest().await?;
    assert!(since.elapsed() < SOON, "{what}: {:?}", since.elapsed());
    let last = events.last().cloned().unwrap_or_default();
    let found = (&last["type"], &last["object"]["code"]);
    assert_eq!(found, (&json!("ERROR"), &json!(403)), "{what}: {events:?}");
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_gone_at_the_next_request_and_ends_what_is_open()
-> anyhow::Result<()> {
    let server = server_with(&["t1/alice", "system/bob"], false).await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let there = "/api/v1/tenants/t1/configmaps";
    let everywhere = "/api/v1/tenants/all/configmaps";
    let ways = || {
        [
            ("users", Taken::Deleted("clusterrolebindings/given")),
            (
                "users",
                Taken::Patched("clusterrolebindings/given", json!({"subjects": []})),
            ),
            (
                "users",
                Taken::Patched("clusterroles/maps", json!({"rules": []})),
            ),
            ("users", Taken::Deleted("clusterroles/maps")),
            (
                "groups",
                Taken::Patched("clusterrolebindings/given", json!({"subjects": null})),
            ),
            ("groups", Taken::Deleted("clusterrolebindings/given")),
        ]
    };
    for (owner, name, paths) in [
        (&tenant, "t1/alice", &["/api/v1/configmaps", there][..]),
        // Somebody of the system, in a tenant and in all.
        (&system, "system/bob", &[there, everywhere]),
    ] {
        let (_, short) = name.split_once('/').unwrap_or_default();
        for (kind, way) in ways() {
            let subject = match kind {
                "users" => user(short),
                _ => group(&format!("{short}s")),
            };
            give(owner, None, subject).await?;
            let (watcher, other) = (server.client(name).await?, server.client(name).await?);
            let mut open = Vec::new();
            for path in paths {
                let watch = watcher.watch(&format!("{path}?watch=true")).await?;
                assert_eq!(watch.status, 200, "{path}");
                assert_eq!(other.get(path).await?.status, 200, "{path}");
                open.push(watch);
            }
            way.by(owner).await?;
            let since = Instant::now();
            for path in paths {
                assert_eq!(other.get(path).await?.status, 403, "{name} {path}");
            }
            for watch in open {
                assert_ends(watch, since, name).await?;
            }
            for left in ["clusterrolebindings/given", "clusterroles/maps"] {
                owner.delete(&format!("{RBAC}/{left}")).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_right_in_one_namespace_is_taken_away_as_fast() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let tenant = server.tenant("t1").await?;
    for way in [
        Taken::Deleted("namespaces/default/rolebindings/given"),
        Taken::Patched("clusterroles/maps", json!({"rules": []})),
    ] {
        give(&tenant, Some("default"), user("alice")).await?;
        let (watcher, other) = (
            server.client("t1/alice").await?,
            server.client("t1/alice").await?,
        );
        let watch = watcher.watch(&format!("{MAPS}?watch=true")).await?;
        assert_eq!(watch.status, 200);
        assert_eq!(other.get("/api/v1/configmaps").await?.status, 403);
        way.by(&tenant).await?;
        let since = Instant::now();
        assert_eq!(other.get(MAPS).await?.status, 403);
        assert_ends(watch, since, "in a namespace").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_right_that_one_of_two_bindings_gives_stays() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let tenant = server.tenant("t1").await?;
    give(&tenant, None, user("alice")).await?;
    bind(&tenant, None, "second", "maps", group("alices")).await?;
    let alice = server.client("t1/alice").await?;
    let mut watch = alice.watch(&format!("{MAPS}?watch=true")).await?;
    let given = format!("{RBAC}/clusterrolebindings/given");
    assert_eq!(tenant.delete(&given).await?.status, 200);
    make(&tenant, MAPS, called("x")).await?;
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["metadata"]["name"], "x", "{event}");
    assert_eq!(alice.get(MAPS).await?.status, 200);
    Ok(())
}

/// What somebody may do in the namespace `default` of a space: read, and write.
async fn rights(client: &Client, prefix: &str) -> anyhow::Result<(u16, u16)> {
    let read = client.get(&format!("{prefix}{MAPS}")).await?;
    let named = json!({"metadata": {"generateName": "x-"}});
    let written = client.post(&format!("{prefix}{MAPS}"), &named).await?;
    Ok((read.status, written.status))
}

#[tokio::test]
async fn a_role_in_a_namespace_of_the_system_is_none_in_that_namespace_of_a_tenant()
-> anyhow::Result<()> {
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
    assert_eq!(rights(&bob, "").await?, (200, 201));
    for prefix in ["/tenants/t1", "/tenants/ghost"] {
        assert_eq!(rights(&bob, prefix).await?, (403, 403), "{prefix}");
    }
    let refused = bob.get("/api/v1/tenants/all/configmaps").await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let refused = bob.get("/api/v1/tenants/all/namespaces/default/configmaps");
    assert_eq!(refused.await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn a_viewer_of_the_system_reads_tenants_and_changes_nothing() -> anyhow::Result<()> {
    let server = server_with(&["system/bob"], false).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    make(&tenant, MAPS, called("x")).await?;
    let bob = server.client("system/bob").await?;
    bind(&system, None, "bob", "view", user("bob")).await?;
    for prefix in ["", "/tenants/t1"] {
        assert_eq!(rights(&bob, prefix).await?, (200, 403), "{prefix}");
        let secrets = format!("{prefix}/api/v1/namespaces/default/secrets");
        assert_eq!(bob.get(&secrets).await?.status, 403, "{prefix}");
    }
    assert_eq!(bob.get("/api/v1/tenants/all/configmaps").await?.status, 200);
    let path = format!("/tenants/t1{MAPS}/x");
    let patch = json!({"data": {"a": "b"}});
    assert_eq!(bob.delete(&path).await?.status, 403);
    assert_eq!(bob.patch(&path, "merge", &patch).await?.status, 403);
    assert_eq!(bob.put(&path, &called("x")).await?.status, 403);
    assert_eq!(bob.delete(&format!("/tenants/t1{MAPS}")).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn no_binding_of_a_tenant_is_about_anybody_of_the_system_or_of_another_tenant()
-> anyhow::Result<()> {
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
        assert_eq!(rights(client, "/tenants/t1").await?, (403, 403));
        assert_eq!(rights(client, "").await?, (403, 403));
        assert_eq!(rights(client, "/tenants/system").await?, (403, 403));
    }
    // The tenant's own user of that name it is about, in the tenant and nowhere else.
    let own = server.client("t1/bob").await?;
    assert_eq!(rights(&own, "").await?, (200, 201));
    assert_eq!(rights(&own, "/tenants/t2").await?, (403, 403));
    assert_eq!(rights(&own, "/tenants/system").await?, (403, 403));
    assert_eq!(own.get("/api/v1/nodes").await?.status, 403);
    assert_eq!(own.get("/api/v1/tenants").await?.status, 403);
    Ok(())
}
