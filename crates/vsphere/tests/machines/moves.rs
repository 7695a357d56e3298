//! Moves of a cluster to another server while operators run at both.

use std::time::Duration;

use insula_operator::report::Silent;
use insula_relocate::{Settings, relocate};
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::inspect::VSphere;
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::world::World;

const ACCOUNT: (&str, &str) = ("team-a", "pa");
const OTHER: (&str, &str) = ("target", "pt");
const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Does what Cluster API's controllers do: the cluster owns the machine, which has a node and owns
/// its bootstrap data.
async fn adopt(world: &World) -> anyhow::Result<()> {
    let object = |kind: &str, name: &str| {
        let metadata = json!({"name": name, "namespace": "team-a"});
        json!({"apiVersion": CAPI, "kind": kind, "metadata": metadata})
    };
    let machine = world.get(&object("Machine", "prod-1")).await?;
    let cluster = world.get(&object("Cluster", "prod")).await?;
    let owners = |kind: &str, owner: &DynamicObject| {
        json!({"metadata": {"ownerReferences": [{
            "apiVersion": CAPI, "kind": kind, "name": owner.name_any(), "uid": owner.uid(),
        }]}})
    };
    world.patch(&machine, owners("Cluster", &cluster)).await?;
    let metadata = json!({"name": "prod-1-data", "namespace": "team-a"});
    let data = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    let data = world.get(&data).await?;
    world.patch(&data, owners("Machine", &machine)).await?;
    let node = json!({"nodeRef": {"name": "prod-1"}});
    world.write_status(&machine, node).await
}

/// Creates a namespace with a cluster that uses an identity.
async fn team(world: &World, vcenter: &FakeVCenter) -> anyhow::Result<()> {
    world.account("team-a", ACCOUNT).await?;
    let reference = json!({"kind": "VSphereClusterIdentity", "name": "shared"});
    let (address, thumbprint) = (vcenter.address(), vcenter.thumbprint_sha256());
    world
        .cluster("team-a", "prod", &address, &thumbprint, reference)
        .await
}

/// Creates an identity for every namespace, and its Secret.
async fn identity(
    world: &World,
    vcenter: &FakeVCenter,
    account: (&str, &str),
) -> anyhow::Result<()> {
    world
        .put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "shared-login", "namespace": "capv-system"},
            "stringData": {"username": account.0, "password": account.1},
        }))
        .await?;
    world
        .put(&json!({
            "apiVersion": OURS, "kind": "VSphereClusterIdentity",
            "metadata": {"name": "shared"},
            "spec": {
                "secretName": "shared-login",
                "allowedNamespaces": {"selector": {}},
                "allowedServers": [{"address": vcenter.address(), "thumbprint": vcenter.thumbprint_sha256()}],
            },
        }))
        .await
        .map(drop)
}

/// Reads the identity and its Secret.
async fn shared(world: &World) -> anyhow::Result<[DynamicObject; 2]> {
    let metadata = json!({"name": "shared"});
    let identity =
        json!({"apiVersion": OURS, "kind": "VSphereClusterIdentity", "metadata": metadata});
    let metadata = json!({"name": "shared-login", "namespace": "capv-system"});
    let login = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
    Ok([world.get(&identity).await?, world.get(&login).await?])
}

/// Moves a ready machine, and asserts that its virtual machine is untouched.
async fn assert_moves(source: &World, target: &World, vcenter: &FakeVCenter) -> anyhow::Result<()> {
    let here = source.start(&["team-a"]);
    let there = target.start(&["team-a"]);
    source.machine("team-a", "prod-1", json!({})).await?;
    source.wait_until_ready("team-a", "prod-1").await?;
    adopt(source).await?;
    let made = vcenter.machine("/DC0/vm/prod-1").expect("it is there");
    // The virtual machine is found although it was renamed in the vCenter.
    vcenter.rename(&made.id, "renamed");
    vcenter.clear_log();

    let settings = Settings {
        poll_interval: Duration::from_millis(20),
        timeout: Duration::from_secs(60),
        ..Settings::new("team-a", &[&VSphere])
    };
    relocate(&source.admin, &target.admin, &settings, &Silent).await?;
    source
        .wait_until_gone::<VSphereVM>("team-a", "prod-1")
        .await?;
    // Cluster API's controllers write the status of the cluster anew.
    let metadata = json!({"name": "prod", "namespace": "team-a"});
    let cluster = json!({"apiVersion": CAPI, "kind": "Cluster", "metadata": metadata});
    let cluster = target.get(&cluster).await?;
    let done = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    target
        .write_status(&cluster, json!({"initialization": done}))
        .await?;

    let machine: VSphereMachine = target.wait_until_ready("team-a", "prod-1").await?;
    let id = format!("vsphere://{}", made.bios_uuid);
    assert_eq!(machine.spec.provider_id, Some(id));
    let after = vcenter.machine("/DC0/vm/renamed").expect("it is there");
    assert_eq!((after.id, after.bios_uuid), (made.id, made.bios_uuid));
    assert!(after.powered_on);
    for method in ["CloneVM_Task", "PowerOffVM_Task", "Destroy_Task"] {
        assert_eq!(vcenter.called(method), 0, "{method}");
    }
    target.delete::<VSphereMachine>("team-a", "prod-1").await?;
    target
        .wait_until_gone::<VSphereMachine>("team-a", "prod-1")
        .await?;
    assert_eq!(vcenter.machine("/DC0/vm/renamed"), None);
    there.stop().await?;
    here.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_moved_machine_keeps_its_virtual_machine() -> anyhow::Result<()> {
    let (source, target) = (World::new().await?, World::new().await?);
    let vcenter = FakeVCenter::start(&[ACCOUNT]).await?;
    source.team("team-a", &vcenter, ACCOUNT).await?;
    assert_moves(&source, &target, &vcenter).await
}

#[tokio::test(flavor = "multi_thread")]
async fn fr4_moved_machine_works_with_the_copied_identity() -> anyhow::Result<()> {
    let (source, target) = (World::new().await?, World::new().await?);
    let vcenter = FakeVCenter::start(&[ACCOUNT]).await?;
    identity(&source, &vcenter, ACCOUNT).await?;
    team(&source, &vcenter).await?;
    assert_moves(&source, &target, &vcenter).await?;
    let (kept, carried) = (shared(&source).await?, shared(&target).await?);
    for (kept, carried) in kept.iter().zip(&carried) {
        assert_eq!(kept.metadata.deletion_timestamp, None);
        assert_eq!(kept.data["data"], carried.data["data"]);
        assert_eq!(kept.data["spec"], carried.data["spec"]);
        assert_ne!(kept.uid(), carried.uid());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fr4_moved_machine_works_with_the_identity_of_the_target() -> anyhow::Result<()> {
    let (source, target) = (World::new().await?, World::new().await?);
    let vcenter = FakeVCenter::start(&[ACCOUNT, OTHER]).await?;
    identity(&source, &vcenter, ACCOUNT).await?;
    identity(&target, &vcenter, OTHER).await?;
    team(&source, &vcenter).await?;
    let before = shared(&target).await?;
    assert_moves(&source, &target, &vcenter).await?;
    for (before, after) in before.iter().zip(&shared(&target).await?) {
        assert_eq!(before.uid(), after.uid());
        assert_eq!(before.data["data"], after.data["data"]);
        assert_eq!(before.data["spec"], after.data["spec"]);
    }
    for kept in shared(&source).await? {
        assert_eq!(kept.metadata.deletion_timestamp, None);
    }
    Ok(())
}
