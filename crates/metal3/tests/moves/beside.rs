//! Hosts next to the machines move with them.

use std::collections::BTreeMap;

use insula_capi::Machine;
use insula_metal3::ipam::kinds::IPAddress;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_relocate::Settings;
use insula_testkit::bare_metal::{FakeBareMetalOperator, State};
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{
    BLOCK_MOVE, Identity, PAUSED, Scene, health_checks, host_of, inventory, move_settings,
    provision, ready, relocate_between,
};

const STATUS: &str = "baremetalhost.metal3.io/status";

/// Returns how often a host was provisioned.
pub fn provisionings(bare_metal: &FakeBareMetalOperator, host: &str) -> usize {
    let path = bare_metal.path(host);
    path.iter()
        .filter(|state| **state == State::Provisioning)
        .count()
}

#[tokio::test]
async fn r35_x08_hosts_next_to_machines_move_with_them_and_are_not_provisioned_again()
-> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let (here, there) = (source.serve_hosts().await?, target.serve_hosts().await?);
    source.hosts("team-a", &["h0", "h1", "free"]).await?;
    scene
        .cluster(json!({}), &["m0", "m1"], (source, "team-a"))
        .await?;
    health_checks(&scene, &["c"]).await?;
    let before = Identity::of(source, "team-a").await?;
    assert_eq!(before.addresses.len(), 2);
    let free = source.consumers("team-a").await?;
    let free = free
        .into_iter()
        .find(|(_, user)| user.is_empty())
        .unwrap()
        .0;
    let had = inventory(source, "team-a").await?;

    let (moved, lines) = scene.relocate().await?;
    assert_eq!(lines.warnings(), Vec::<String>::new());
    assert_eq!(moved.copied, Vec::<String>::new());
    // Nothing stays at the source, and everything arrives: also the template that health checks
    // name, which no object owns.
    assert!(had.contains(&"Metal3RemediationTemplate restart".to_owned()));
    assert_eq!(inventory(source, "team-a").await?, Vec::<String>::new());
    assert_eq!(inventory(target, "team-a").await?, had);
    for name in ["m0", "m1"] {
        ready(target, "team-a", name).await?;
    }
    assert_eq!(Identity::of(target, "team-a").await?, before);
    for name in ["h0", "h1", "free"] {
        let is_free = name == free;
        let state = if is_free { "available" } else { "provisioned" };
        let host = target.wait_for_host("team-a", name, state).await?;
        let hardware = host.status.unwrap().hardware.unwrap();
        assert_eq!(hardware.hostname, name);
        target
            .wait_until("team-a", name, |host: &BareMetalHost| {
                let annotations = host.annotations();
                !annotations.contains_key(PAUSED)
                    && !annotations.contains_key(STATUS)
                    && annotations.contains_key(BLOCK_MOVE) != is_free
            })
            .await?;
        let key = format!("team-a/{name}");
        // Its status was restored, so it has entered no state at the target, nor another one at
        // the source.
        assert_eq!(there.path(&key), []);
        let times = usize::from(!is_free);
        assert_eq!(provisionings(&here, &key), times);
        assert!(!here.path(&key).contains(&State::Deprovisioning));
    }
    // The target's operators manage what has arrived.
    target.delete::<Machine>("team-a", "m0").await?;
    target
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let host = &before.hosts["m0"];
    target.wait_for_host("team-a", host, "available").await?;
    target
        .wait_until_gone::<IPAddress>("team-a", &released(&before))
        .await
}

/// Returns the name of the address of `m0`.
fn released(before: &Identity) -> String {
    let claim = format!("{}-net", before.indexes["m0"]);
    format!("net-{}", before.addresses[&claim].replace('.', "-"))
}

#[tokio::test]
async fn r35_one_cluster_moves_with_its_own_hosts_only() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (source, target) = (&scene.source, &scene.target);
    let (here, there) = (source.serve_hosts().await?, target.serve_hosts().await?);
    source.hosts("team-a", &["h0", "h1", "h2"]).await?;
    scene
        .cluster(json!({}), &["m0"], (source, "team-a"))
        .await?;
    // The other cluster shares the pool and the data template.
    source.cluster("team-a", "d", json!({})).await?;
    let workload = &scene.workload;
    source.workload("team-a", "d", workload).await?;
    source.machine("team-a", "d", "other", "nodes").await?;
    provision(source, ("team-a", "other"), (source, "team-a"), workload).await?;
    let settings = Settings {
        cluster: Some("c".to_owned()),
        ..move_settings("team-a")
    };
    let clients = (&source.client, &target.client);
    let refused = relocate_between(clients, &settings).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "not everything can be moved:\n  \
         IPPool team-a/net is also used by IPClaim team-a/data-1-net, which is not moved\n  \
         Metal3DataTemplate team-a/data is also used by Metal3DataClaim team-a/other, which is \
         not moved"
    );
    source.delete::<Machine>("team-a", "other").await?;
    source
        .wait_until_gone::<Metal3Machine>("team-a", "other")
        .await?;
    source.template("team-a", "bare", json!({})).await?;
    source.machine("team-a", "d", "another", "bare").await?;
    let machine: Metal3Machine = source
        .wait_until("team-a", "another", |machine: &Metal3Machine| {
            host_of(machine).is_some()
        })
        .await?;
    let stays = host_of(&machine).unwrap();
    source
        .wait_for_host("team-a", &stays, "provisioned")
        .await?;
    source
        .wait_until_gone::<IPAddress>("team-a", "net-10-0-0-2")
        .await?;

    health_checks(&scene, &["c", "d"]).await?;
    let path = here.path(&format!("team-a/{stays}"));
    let moves = Identity::of(source, "team-a").await?.hosts["m0"].clone();
    let (moved, _) = relocate_between(clients, &settings).await?;
    // The other cluster needs it too.
    let template = "Metal3RemediationTemplate team-a/restart";
    assert_eq!(moved.copied, [template]);
    for side in [source, target] {
        let all = inventory(side, "team-a").await?;
        assert!(all.contains(&"Metal3RemediationTemplate restart".to_owned()));
    }
    ready(target, "team-a", "m0").await?;
    let names = |consumers: BTreeMap<String, String>| consumers.into_keys().collect::<Vec<_>>();
    let arrived = names(target.consumers("team-a").await?);
    assert_eq!(arrived, std::slice::from_ref(&moves));
    let left = names(source.consumers("team-a").await?);
    assert!(!left.contains(&moves) && left.len() == 2, "{left:?}");
    assert_eq!(there.path(&format!("team-a/{moves}")), []);
    assert_eq!(here.path(&format!("team-a/{stays}")), path);
    let host: BareMetalHost = source.api("team-a").get(&stays).await?;
    assert!(!host.annotations().contains_key(PAUSED));
    Ok(())
}
