//! Clusters are not ready before their hosts have answered, and servers that do not answer delay
//! no other cluster.

use std::time::Duration;

use insula_capi::Cluster;
use insula_metal3::kinds::cluster::Metal3Cluster;
use tokio::time::Instant;

use crate::basics::{identity, ready};
use crate::world::{Gate, World, condition, settings};

/// How long a server may take to answer in these tests: longer than any of them waits.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn r27_cluster_is_not_ready_before_its_hosts_have_answered() -> anyhow::Result<()> {
    let world = World::new().await?;
    let management = &world.management;
    let mut settings = settings();
    settings.shell.sessions.request_timeout = LONG;
    let _running = world.start_with(settings);
    let gate = Gate::closed(world.hosts.server.address()).await?;
    let mut file = world.hosts.kubeconfig("user-a", "pool-a")?;
    file["clusters"][0]["cluster"]["server"] = gate.url().into();
    management.identity("team-a", "hosts", &file).await?;
    management
        .cluster("team-a", "prod", identity("hosts"))
        .await?;
    gate.wait_for_connection().await?;
    let cluster: Metal3Cluster = management
        .wait_until("team-a", "prod", |cluster: &Metal3Cluster| {
            cluster.status.is_some()
        })
        .await?;
    assert_ne!(
        condition(&cluster, "Ready").map(|ready| ready[0]),
        Some("True")
    );
    assert_eq!(cluster.status.unwrap().initialization, None);
    let owner = management.api::<Cluster>("team-a").get("prod").await?;
    assert!(!owner.is_infrastructure_provisioned());
    // Nothing has reached the server, so there is nothing that could have been verified.
    assert!(world.hosts.requests_by("user-a")?.is_empty());

    gate.open();
    ready(management, "team-a", "prod").await?;
    assert!(!world.hosts.requests_by("user-a")?.is_empty());
    management
        .wait_until("team-a", "prod", Cluster::is_infrastructure_provisioned)
        .await?;
    Ok(())
}

#[tokio::test]
async fn r27_silent_server_delays_no_other_cluster() -> anyhow::Result<()> {
    let world = World::new().await?;
    let management = &world.management;
    let mut settings = settings();
    settings.shell.sessions.request_timeout = LONG;
    let _running = world.start_with(settings);
    let gate = Gate::closed(world.hosts.server.address()).await?;
    let mut file = world.hosts.kubeconfig("user-b", "pool-b")?;
    file["clusters"][0]["cluster"]["server"] = gate.url().into();
    for number in 0..20 {
        let name = format!("silent-{number}");
        management.identity("team-b", &name, &file).await?;
        management.cluster("team-b", &name, identity(&name)).await?;
    }
    gate.wait_for_connection().await?;
    let begun = Instant::now();
    for team in ["team-a", "team-b"] {
        world.identity(team, "hosts", ("user-a", "pool-a")).await?;
        management.cluster(team, "prod", identity("hosts")).await?;
        ready(management, team, "prod").await?;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    Ok(())
}
