//! A cluster is moved to another server while the operator runs at both ends.

use std::time::Duration;

use insula_operator::report::Silent;
use insula_relocate::{Settings, relocate};
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use kube::ResourceExt;
use serde_json::json;

use crate::world::World;

const ACCOUNT: (&str, &str) = ("team-a", "pa");
const CAPI: &str = "cluster.x-k8s.io/v1beta2";

/// What Cluster API's controllers would have done: the cluster owns the machine, which is a
/// node and owns what it was started with.
async fn adopt(world: &World) -> anyhow::Result<()> {
    let object = |kind: &str, name: &str| {
        let metadata = json!({"name": name, "namespace": "team-a"});
        json!({"apiVersion": CAPI, "kind": kind, "metadata": metadata})
    };
    let machine = world.get(&object("Machine", "prod-1")).await?;
    let cluster = world.get(&object("Cluster", "prod")).await?;
    let owners = |kind: &str, owner: &kube::api::DynamicObject| {
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
    world.tell(&machine, node).await
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_moved_machine_keeps_its_virtual_machine_and_gets_no_second() -> anyhow::Result<()> {
    let (source, target) = (World::new().await?, World::new().await?);
    let vcenter = FakeVCenter::start(&[ACCOUNT]).await?;
    source.team("team-a", &vcenter, ACCOUNT).await?;
    let here = source.start(&["team-a"]);
    let there = target.start(&["team-a"]);
    source.machine("team-a", "prod-1", json!({})).await?;
    source.ready("team-a", "prod-1").await?;
    adopt(&source).await?;
    let made = vcenter.machine("/DC0/vm/prod-1").expect("it is there");
    // Whoever renames it in the vCenter does not take it from anybody.
    vcenter.rename(&made.id, "renamed");
    vcenter.clear_log();

    let settings = Settings {
        look: Duration::from_millis(20),
        patience: Duration::from_secs(60),
        ..Settings::new("team-a")
    };
    relocate(&source.admin, &target.admin, &settings, &Silent).await?;
    source.gone::<VSphereVM>("team-a", "prod-1").await?;
    // What Cluster API says of the cluster anew.
    let metadata = json!({"name": "prod", "namespace": "team-a"});
    let cluster = json!({"apiVersion": CAPI, "kind": "Cluster", "metadata": metadata});
    let cluster = target.get(&cluster).await?;
    let done = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    target
        .tell(&cluster, json!({"initialization": done}))
        .await?;

    let machine: VSphereMachine = target.ready("team-a", "prod-1").await?;
    let id = format!("vsphere://{}", made.bios_uuid);
    assert_eq!(machine.spec.provider_id, Some(id));
    let after = vcenter.machine("/DC0/vm/renamed").expect("it is there");
    assert_eq!((after.id, after.bios_uuid), (made.id, made.bios_uuid));
    assert!(after.powered_on);
    for method in ["CloneVM_Task", "PowerOffVM_Task", "Destroy_Task"] {
        assert_eq!(vcenter.called(method), 0, "{method}");
    }
    target.delete::<VSphereMachine>("team-a", "prod-1").await?;
    target.gone::<VSphereMachine>("team-a", "prod-1").await?;
    assert_eq!(vcenter.machine("/DC0/vm/renamed"), None);
    there.stop().await?;
    here.stop().await
}
