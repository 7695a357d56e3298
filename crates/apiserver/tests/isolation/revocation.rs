//! Revoked permissions: the next request is refused and open watches end.

use std::time::Duration;

use insula_testkit::server::{Client, Lines};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::principals::{RBAC, bind, create, group, server_with, user};
use super::{MAPS, named};

/// How long a watch may last after its permission was revoked.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(2);

/// A way to revoke a permission.
enum Revocation {
    Deleted(&'static str),
    Patched(&'static str, Value),
}

impl Revocation {
    async fn apply(&self, client: &Client) -> anyhow::Result<()> {
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

/// Binds the role `maps` to a user or a group, with a binding named `given`.
async fn grant_map_reader(
    owner: &Client,
    namespace: Option<&str>,
    subject: Value,
) -> anyhow::Result<()> {
    let role = json!({"metadata": {"name": "maps"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
    ]});
    let roles = format!("{RBAC}/clusterroles");
    if owner.get(&format!("{roles}/maps")).await?.status == 404 {
        create(owner, &roles, role).await?;
    }
    bind(owner, namespace, "given", "maps", subject).await?;
    Ok(())
}

/// Asserts that the watch ends soon, with an error event.
async fn assert_ends(mut watch: Lines, since: Instant, what: &str) -> anyhow::Result<()> {
    let events = watch.rest().await?;
    assert!(
        since.elapsed() < REVOCATION_TIMEOUT,
        "{what}: {:?}",
        since.elapsed()
    );
    let last = events.last().cloned().unwrap_or_default();
    let found = (&last["type"], &last["object"]["code"]);
    assert_eq!(found, (&json!("ERROR"), &json!(403)), "{what}: {events:?}");
    Ok(())
}

#[tokio::test]
async fn revocation_takes_effect_on_the_next_request_and_ends_open_watches() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice", "system/bob"], false).await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let there = "/api/v1/tenants/t1/configmaps";
    let all_namespaces = "/api/v1/tenants/all/configmaps";
    let ways = || {
        [
            ("users", Revocation::Deleted("clusterrolebindings/given")),
            (
                "users",
                Revocation::Patched("clusterrolebindings/given", json!({"subjects": []})),
            ),
            (
                "users",
                Revocation::Patched("clusterroles/maps", json!({"rules": []})),
            ),
            ("users", Revocation::Deleted("clusterroles/maps")),
            (
                "groups",
                Revocation::Patched("clusterrolebindings/given", json!({"subjects": null})),
            ),
            ("groups", Revocation::Deleted("clusterrolebindings/given")),
        ]
    };
    for (owner, name, paths) in [
        (&tenant, "t1/alice", &["/api/v1/configmaps", there][..]),
        // A system user, in one tenant and in all spaces.
        (&system, "system/bob", &[there, all_namespaces]),
    ] {
        let (_, short) = name.split_once('/').unwrap_or_default();
        for (kind, way) in ways() {
            let subject = match kind {
                "users" => user(short),
                _ => group(&format!("{short}s")),
            };
            grant_map_reader(owner, None, subject).await?;
            let (watcher, other) = (server.client(name).await?, server.client(name).await?);
            let mut open = Vec::new();
            for path in paths {
                let watch = watcher.watch(&format!("{path}?watch=true")).await?;
                assert_eq!(watch.status, 200, "{path}");
                assert_eq!(other.get(path).await?.status, 200, "{path}");
                open.push(watch);
            }
            way.apply(owner).await?;
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
async fn revocation_in_one_namespace_takes_effect_on_the_next_request() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let tenant = server.tenant("t1").await?;
    for way in [
        Revocation::Deleted("namespaces/default/rolebindings/given"),
        Revocation::Patched("clusterroles/maps", json!({"rules": []})),
    ] {
        grant_map_reader(&tenant, Some("default"), user("alice")).await?;
        let (watcher, other) = (
            server.client("t1/alice").await?,
            server.client("t1/alice").await?,
        );
        let watch = watcher.watch(&format!("{MAPS}?watch=true")).await?;
        assert_eq!(watch.status, 200);
        assert_eq!(other.get("/api/v1/configmaps").await?.status, 403);
        way.apply(&tenant).await?;
        let since = Instant::now();
        assert_eq!(other.get(MAPS).await?.status, 403);
        assert_ends(watch, since, "in a namespace").await?;
    }
    Ok(())
}

#[tokio::test]
async fn permission_remains_while_another_binding_grants_it() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let tenant = server.tenant("t1").await?;
    grant_map_reader(&tenant, None, user("alice")).await?;
    bind(&tenant, None, "second", "maps", group("alices")).await?;
    let alice = server.client("t1/alice").await?;
    let mut watch = alice.watch(&format!("{MAPS}?watch=true")).await?;
    let given = format!("{RBAC}/clusterrolebindings/given");
    assert_eq!(tenant.delete(&given).await?.status, 200);
    create(&tenant, MAPS, named("x")).await?;
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["object"]["metadata"]["name"], "x", "{event}");
    assert_eq!(alice.get(MAPS).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn no_event_after_a_revocation_is_delivered() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice", "system/bob"], false).await?;
    let (tenant, system) = (server.tenant("t1").await?, server.system().await?);
    let given = format!("{RBAC}/clusterrolebindings/given");
    for round in 0..20 {
        let mut open = Vec::new();
        for (owner, name) in [(&tenant, "alice"), (&system, "bob")] {
            grant_map_reader(owner, None, user(name)).await?;
            let home = if name == "bob" { "system" } else { "t1" };
            let client = server.client(&format!("{home}/{name}")).await?;
            let path = "/api/v1/tenants/t1/configmaps?watch=true&resourceVersion=0";
            open.push(client.watch(path).await?);
        }
        create(&tenant, MAPS, named(&format!("before-{round}"))).await?;
        for owner in [&tenant, &system] {
            assert_eq!(owner.delete(&given).await?.status, 200);
        }
        create(&tenant, MAPS, named(&format!("after-{round}"))).await?;
        for mut watch in open {
            let events = watch.rest().await?;
            let after = format!("after-{round}");
            let reported = events
                .iter()
                .any(|event| event.to_string().contains(&after));
            assert!(!reported, "{events:?}");
            let last = events.last().cloned().unwrap_or_default();
            assert_eq!(last["object"]["code"], 403, "{last}");
        }
    }
    Ok(())
}

/// The clients send requests all the time, each on its own connection: no request that starts after
/// the response to the deletion is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_concurrent_request_is_granted_after_a_revocation() -> anyhow::Result<()> {
    let server = server_with(&["t1/alice"], false).await?;
    let tenant = server.tenant("t1").await?;
    for _ in 0..10 {
        grant_map_reader(&tenant, None, user("alice")).await?;
        let mut askers = Vec::new();
        for _ in 0..4 {
            let alice = server.client("t1/alice").await?;
            assert_eq!(alice.get(MAPS).await?.status, 200);
            askers.push(tokio::spawn(async move {
                let mut granted = Instant::now();
                loop {
                    let began = Instant::now();
                    match alice.get(MAPS).await?.status {
                        200 => granted = began,
                        403 => return anyhow::Ok(granted),
                        other => anyhow::bail!("{other}"),
                    }
                }
            }));
        }
        let given = format!("{RBAC}/clusterrolebindings/given");
        assert_eq!(tenant.delete(&given).await?.status, 200);
        let gone = Instant::now();
        for asker in askers {
            let granted = asker.await??;
            assert!(granted < gone, "{:?} too late", granted - gone);
        }
    }
    Ok(())
}
