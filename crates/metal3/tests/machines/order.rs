//! Workload clusters that do not answer delay no machine of another team.

use std::time::Duration;

use insula_metal3::kinds::machine::Metal3Machine;
use tokio::time::Instant;

use crate::scene::Scene;
use crate::world::{Gate, settings};

/// How long a workload cluster may take to answer: longer than the test waits.
const LONG: Duration = Duration::from_secs(120);
const HOSTS: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];

#[tokio::test]
async fn silent_workload_cluster_delays_no_machine_of_another_team() -> anyhow::Result<()> {
    let mut scene = Scene::start_without_operator().await?;
    let mut settings = settings();
    settings.shell.concurrency = 4;
    settings.workload_timeout = LONG;
    scene.running = Some(scene.world.start_with(settings));
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-b", &HOSTS).await?;
    hosts.hosts("pool-a", &["h0"]).await?;
    // More machines than concurrent reconciliations look for their nodes there.
    let gate = Gate::closed(scene.workload.server.address()).await?;
    scene.cluster_on("team-b", ("user-b", "pool-b")).await?;
    let mut file = scene.workload.kubeconfig();
    file["clusters"][0]["cluster"]["server"] = gate.url().into();
    let text = file.to_string();
    management
        .replace_secret("team-b", "c-kubeconfig", &[("value", &text)])
        .await?;
    let machines = HOSTS.map(|host| host.replace('h', "m"));
    let machines = machines.each_ref().map(String::as_str);
    scene.machines("team-b", &machines).await?;
    gate.wait_for_connection().await?;

    let begun = Instant::now();
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    let elapsed = begun.elapsed();
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
    // The machines of the team itself have their hosts, and say what they wait for.
    for host in HOSTS {
        hosts.wait_for_host("pool-b", host, "provisioned").await?;
    }
    let busy = |machine: &&Metal3Machine| {
        let node = crate::world::condition(*machine, "KubernetesNodeReady");
        node.is_some_and(|it| it[2] == "too many API servers of workload clusters do not answer")
    };
    let all = management.api::<Metal3Machine>("team-b");
    crate::world::eventually(async || {
        let all = all.list(&kube::api::ListParams::default()).await?;
        let busy = all.items.iter().filter(busy).count();
        Ok((busy == HOSTS.len() - 1).then_some(()))
    })
    .await
}
