//! A cluster over several pools, each with its own credentials.

use insula_metal3::kinds::machine::Metal3Machine;
use serde_json::json;

use crate::scene::{Scene, annotation, identity};
use crate::world::{Entry, kubeconfig};

#[tokio::test]
async fn s05_r09_r12_machines_of_one_cluster_use_the_pools_of_their_templates() -> anyhow::Result<()>
{
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    for (pool, host) in [("pool-a", "a0"), ("pool-b", "b0"), ("shared", "s0")] {
        hosts.hosts(pool, &[host]).await?;
    }
    // Two contexts of one Secret, a second Secret, and one for a server that is away.
    let entries = [
        Entry::new("workers", hosts.token("user-a")?, "pool-a"),
        Entry::new("control", hosts.token("user-s1")?, "shared"),
    ];
    let both = kubeconfig(&hosts.server, &entries);
    management.identity("team-a", "hosts", &both).await?;
    scene
        .world
        .identity("team-a", "edge", ("user-b", "pool-b"))
        .await?;
    let mut away = hosts.kubeconfig("user-b", "pool-b")?;
    away["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    management.identity("team-a", "away", &away).await?;

    scene
        .cluster("team-a", "c", identity("hosts"), json!({}))
        .await?;
    for (template, reference) in [
        ("control", json!({"name": "hosts", "context": "control"})),
        ("edge", json!({"name": "edge"})),
        ("away", json!({"name": "away"})),
    ] {
        let spec = json!({"identityRef": reference});
        management.template("team-a", template, spec).await?;
    }
    for (machine, template) in [
        ("lost", "away"),
        ("c0", "control"),
        ("e0", "edge"),
        ("w0", "workers"),
    ] {
        management.machine("team-a", "c", machine, template).await?;
    }
    for (name, host, reference) in [
        (
            "c0",
            "shared/s0",
            json!({"name": "hosts", "context": "control"}),
        ),
        ("e0", "pool-b/b0", json!({"name": "edge"})),
        // It inherits the reference of its cluster, and records it.
        ("w0", "pool-a/a0", json!({"name": "hosts"})),
    ] {
        let machine = scene.provisioned("team-a", name).await?;
        assert_eq!(annotation(&machine).as_deref(), Some(host), "{name}");
        assert_eq!(json!(machine.spec.identity_ref), reference, "{name}");
    }
    // A server that is away delays no other machine, and gets no host of another pool.
    let message = scene
        .host_problem("team-a", "lost", "IdentityUnreachable")
        .await?;
    assert!(message.contains("127.0.0.1:1"), "{message}");
    let lost: Metal3Machine = management.api("team-a").get("lost").await?;
    assert_eq!(annotation(&lost), None);
    // Each pool was used by its own user only.
    for user in ["user-a", "user-b", "user-s1"] {
        let namespace = match user {
            "user-a" => "pool-a",
            "user-b" => "pool-b",
            _ => "shared",
        };
        let requests = hosts.requests_by(user)?;
        let on_objects = |request: &&String| !request.contains("selfsubjectaccessreviews");
        for request in requests.iter().filter(on_objects) {
            assert!(request.ends_with(namespace), "{user}: {request}");
        }
    }
    Ok(())
}
