//! Deletion of machines: hosts are released, in order.

use insula_capi::Machine;
use insula_metal3::hosts::release::FastTrack;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::names::MACHINE_FINALIZER;
use insula_metal3::operator::Settings;
use insula_testkit::bare_metal::State;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{HOST, Scene, host_secrets, secrets};
use crate::world::{condition, eventually, settings};

#[tokio::test]
async fn x05_host_stays_on_with_fast_track() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    scene.running.take().unwrap().stop().await?;
    let fast = Settings {
        fast_track: FastTrack::On,
        ..settings()
    };
    scene.running = Some(scene.world.start_with(fast));
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["h0"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    hosts.wait_for_host("pool-a", "h0", "available").await?;
    assert_eq!(hosts.bare_metal.power("pool-a/h0"), [true]);
    Ok(())
}

#[tokio::test]
async fn x05_host_is_deprovisioned_and_released() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["h0"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    assert_eq!(secrets(hosts, "pool-a").await?, ["m0-userdata"]);
    hosts.bare_metal.hold(State::Deprovisioning);
    management.delete::<Machine>("team-a", "m0").await?;
    let host = hosts
        .wait_for_host("pool-a", "h0", "deprovisioning")
        .await?;
    assert_eq!((host.spec.image.is_none(), host.spec.online), (true, false));
    assert_eq!(host_secrets(&host), [None, None, None]);
    assert!(host.spec.consumer_ref.is_some());
    let waits = "BareMetalHost pool-a/h0 is in state \"deprovisioning\"";
    let machine: Metal3Machine = management
        .wait_until("team-a", "m0", |machine| {
            condition(machine, HOST).is_some_and(|found| found[2] == waits)
        })
        .await?;
    assert_eq!(
        condition(&machine, HOST).unwrap(),
        ["False", "Deleting", waits]
    );
    for kind in ["KubernetesNodeReady", "AssociateMetal3MachineMetaData"] {
        assert_eq!(
            condition(&machine, kind).unwrap(),
            ["False", "Deleting", ""]
        );
    }
    assert_eq!(machine.finalizers(), [MACHINE_FINALIZER]);
    assert_eq!(secrets(hosts, "pool-a").await?, [""; 0]);
    hosts.bare_metal.release();
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let host = hosts.wait_for_host("pool-a", "h0", "available").await?;
    assert_eq!(host.spec.consumer_ref, None);
    assert!(!host.labels().contains_key("cluster.x-k8s.io/cluster-name"));
    Ok(())
}

#[tokio::test]
async fn x06_deletion_waits_for_a_credential_that_is_missing() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["h0"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    management.delete::<Secret>("team-a", "hosts").await?;
    scene
        .host_problem("team-a", "m0", "IdentitySecretNotFound")
        .await?;
    management.delete::<Machine>("team-a", "m0").await?;
    let machine: Metal3Machine = management
        .wait_until("team-a", "m0", |machine: &Metal3Machine| {
            let node = condition(machine, "KubernetesNodeReady");
            node.is_some_and(|found| found[1] == "Deleting")
        })
        .await?;
    assert_eq!(machine.finalizers(), [MACHINE_FINALIZER]);
    let found = condition(&machine, HOST).unwrap();
    assert_eq!(found[..2], ["False", "IdentitySecretNotFound"]);
    let host: BareMetalHost = hosts.api("pool-a").get("h0").await?;
    assert!(host.spec.image.is_some());
    // The credential comes back.
    scene
        .world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let host = hosts.wait_for_host("pool-a", "h0", "available").await?;
    assert_eq!(host.spec.consumer_ref, None);
    assert_eq!(secrets(hosts, "pool-a").await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn host_without_a_recorded_machine_is_adopted_or_released() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("pool-a", &["h0", "h1"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    let host = scene.host_of("team-a", "m0").await?;
    // As after a crash between the claim and the annotation.
    let lose = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": null}}});
    let management = scene.management();
    management
        .patch::<Metal3Machine>("team-a", "m0", lose.clone())
        .await?;
    management
        .wait_until("team-a", "m0", |machine: &Metal3Machine| {
            crate::scene::annotation(machine).as_deref() == Some(host.as_str())
        })
        .await?;
    if let Some(running) = scene.running.take() {
        running.stop().await?;
    }
    let management = scene.management();
    management
        .patch::<Metal3Machine>("team-a", "m0", lose)
        .await?;
    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until("team-a", "m0", |machine: &Metal3Machine| {
            machine.metadata.deletion_timestamp.is_some()
        })
        .await?;
    scene.running = Some(scene.world.start());
    scene
        .management()
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let consumers = scene.world.hosts.consumers("pool-a").await?;
    assert!(consumers.values().all(String::is_empty), "{consumers:?}");
    Ok(())
}

#[tokio::test]
async fn host_is_kept_for_the_next_machine_of_its_deployment() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["h0", "h1"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    let reuse = json!({"spec": {"nodeReuse": true}});
    management
        .patch::<insula_metal3::kinds::machine::Metal3MachineTemplate>("team-a", "workers", reuse)
        .await?;
    let owner = |kind: &str, name: &str| {
        json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": name,
            "uid": "00000000-0000-0000-0000-000000000001"}])
    };
    // Owners that the garbage collector finds.
    let deployment = management
        .put(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "d", "namespace": "team-a"}, "spec": {},
        }))
        .await?;
    let mut owners = owner("MachineDeployment", "d");
    owners[0]["uid"] = json!(deployment.uid());
    let set = management
        .put(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
            "metadata": {"name": "s", "namespace": "team-a", "ownerReferences": owners},
            "spec": {},
        }))
        .await?;
    let mut owners = owner("MachineSet", "s");
    owners[0]["uid"] = json!(set.uid());
    let owned = json!({"metadata": {"ownerReferences": owners}});
    management
        .machine_with("team-a", "c", "m0", "workers", owned.clone())
        .await?;
    scene.provisioned("team-a", "m0").await?;
    let host = scene.host_of("team-a", "m0").await?;
    let name = host.strip_prefix("pool-a/").unwrap();
    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let kept = hosts.wait_for_host("pool-a", name, "available").await?;
    let label = &kept.labels()["infrastructure.cluster.x-k8s.io/node-reuse"];
    assert_eq!(label, "md-d");
    assert_eq!(hosts.consumers("pool-a").await?[name], "Cluster team-a/c");
    management
        .machine_with("team-a", "c", "m1", "workers", owned)
        .await?;
    scene.provisioned("team-a", "m1").await?;
    assert_eq!(scene.host_of("team-a", "m1").await?, host);
    eventually(async || {
        let kept: BareMetalHost = hosts.api("pool-a").get(name).await?;
        let labels = kept.labels();
        Ok((!labels.contains_key("infrastructure.cluster.x-k8s.io/node-reuse")).then_some(()))
    })
    .await
}
