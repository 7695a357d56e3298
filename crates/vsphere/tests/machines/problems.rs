//! Conditions of machines with a problem, and recovery once it is fixed.

use std::time::Duration;

use insula_capi::{Cluster, Machine};
use insula_testkit::vcenter::{ConnectionMode, FakeVCenter, Fault};
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::World;

const ACCOUNT: (&str, &str) = ("team-a", "pa");
const PROVISIONED: &str = "VirtualMachineProvisioned";

#[tokio::test(flavor = "multi_thread")]
async fn missing_inventory_objects_are_named() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    let operator = world.start(&["team-a"]);
    let device = |name: &str| json!({"devices": [{"networkName": name, "dhcp4": true}]});
    for (name, spec, message) in [
        (
            "template",
            json!({"template": "beos"}),
            "there is no template \"beos\"",
        ),
        (
            "network",
            json!({"network": device("moon")}),
            "there is no network \"moon\"",
        ),
        (
            "datastore",
            json!({"datastore": "tape"}),
            "there is no datastore \"tape\"",
        ),
        (
            "folder",
            json!({"folder": "lost"}),
            "there is no folder \"lost\"",
        ),
        (
            "pool",
            json!({"resourcePool": "sea"}),
            "there is no resource pool \"sea\"",
        ),
        (
            "datacenter",
            json!({"datacenter": "DC9"}),
            "there is no datacenter \"DC9\"",
        ),
        (
            "snapshot",
            json!({"template": "linked", "snapshot": "x"}),
            "the template has no snapshot \"x\"",
        ),
    ] {
        world.machine("team-a", name, spec).await?;
        let expected = ("False", "NotProvisioned", message);
        world
            .wait_for_reason::<VSphereVM>("team-a", name, PROVISIONED, expected)
            .await?;
        world
            .wait_for_reason::<VSphereMachine>("team-a", name, PROVISIONED, expected)
            .await?;
    }
    assert_eq!(vcenter.called("CloneVM_Task"), 0);
    // A fix in the vCenter is noticed without a change of the object.
    vcenter.add_network("/DC0/network/moon");
    world.wait_until_ready("team-a", "network").await?;
    // Nothing was started, so the deletion needs no vCenter.
    vcenter.set_connection_mode(ConnectionMode::Closed).await;
    world.delete::<VSphereMachine>("team-a", "template").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "template")
        .await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn taken_name_is_reported_and_its_machine_stays() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    let id = vcenter.add_machine("/DC0/vm/m");
    let operator = world.start(&["team-a"]);
    world.machine("team-a", "m", json!({})).await?;
    let failed = |vm: &VSphereVM| {
        let status = vm.status.clone().unwrap_or_default();
        let told = status
            .conditions
            .into_iter()
            .find(|told| told.type_ == PROVISIONED);
        told.is_some_and(|told| {
            let text = "the folder has a virtual machine \"m\" that belongs to another owner: ";
            told.reason == "TaskFailed" && told.message.starts_with(text)
        })
    };
    world.wait_until("team-a", "m", failed).await?;
    world.delete::<VSphereMachine>("team-a", "m").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    assert_eq!(
        vcenter.machine("/DC0/vm/m").map(|machine| machine.id),
        Some(id)
    );
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_waits_for_cluster_and_data_and_respects_pause() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    let clusters: Api<Cluster> = world.api("team-a");
    let tell = async |infrastructure: bool, plane: bool| {
        let patch = Patch::Merge(json!({"status": {"initialization": {
            "infrastructureProvisioned": infrastructure, "controlPlaneInitialized": plane,
        }}}));
        clusters
            .patch_status("prod", &PatchParams::default(), &patch)
            .await
    };
    let data = async |name: Option<&str>| {
        let patch = json!({"spec": {"bootstrap": {"dataSecretName": name}}});
        world.change::<Machine>("team-a", "m", patch).await
    };
    let pause = async |paused: bool| {
        let patch = json!({"spec": {"paused": paused}});
        world.change::<Cluster>("team-a", "prod", patch).await
    };
    tell(false, false).await?;
    world.machine("team-a", "m", json!({})).await?;
    data(None).await?;
    let operator = world.start(&["team-a"]);
    let said = async |reason: &str, message: &str| {
        let expected = ("False", reason, message);
        world
            .wait_for_reason::<VSphereMachine>("team-a", "m", PROVISIONED, expected)
            .await
    };
    said(
        "WaitingForClusterInfrastructureReady",
        "the infrastructure of its cluster is not ready yet",
    )
    .await?;
    tell(true, false).await?;
    said(
        "WaitingForControlPlaneInitialized",
        "the control plane of its cluster is not initialized yet",
    )
    .await?;
    tell(true, true).await?;
    said(
        "WaitingForBootstrapData",
        "its Machine has no bootstrap data yet",
    )
    .await?;
    data(Some("missing")).await?;
    said("WaitingForBootstrapData", "there is no Secret \"missing\"").await?;
    world
        .put(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "missing", "namespace": "team-a"},
            "stringData": {"value": "{}", "format": "ignition"},
        }))
        .await?;
    world.wait_until_ready("team-a", "m").await?;
    let told = vcenter.machine("/DC0/vm/m").expect("it is there").extra;
    let ignition = told
        .get("guestinfo.ignition.config.data")
        .map(String::as_str);
    assert_eq!(ignition, Some("e30="));
    pause(true).await?;
    let expected = ("True", "Paused", "Cluster spec.paused is set to true");
    world
        .wait_for_reason::<VSphereMachine>("team-a", "m", "Paused", expected)
        .await?;
    world
        .wait_for_reason::<VSphereVM>("team-a", "m", "Paused", expected)
        .await?;
    let calls = vcenter.calls().len();
    world.delete::<VSphereMachine>("team-a", "m").await?;
    world.machine("team-a", "after", json!({})).await?;
    world
        .wait_for_reason::<VSphereMachine>("team-a", "after", "Paused", expected)
        .await?;
    let left: Vec<_> = vcenter.calls().split_off(calls);
    let left: Vec<_> = left.iter().filter(|call| call.method != "Logout").collect();
    assert!(left.is_empty(), "{left:?}");
    pause(false).await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    world.wait_until_ready("team-a", "after").await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn vcenter_failures_are_reported_and_retried() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    vcenter.addresses_after(Duration::from_secs(3600));
    let operator = world.start(&["team-a"]);
    let said = async |reason: &str, message: &str| {
        let expected = ("False", reason, message);
        world
            .wait_for_reason::<VSphereVM>("team-a", "m", PROVISIONED, expected)
            .await
    };
    world.machine("team-a", "m", json!({})).await?;
    said("WaitingForIPAddress", "it has no address yet").await?;
    let machine = vcenter.machine("/DC0/vm/m").expect("it is there");
    vcenter.set_addresses(&machine.id, &["fe80::1", "10.0.0.7"]);
    vcenter.addresses_after(Duration::ZERO);
    let ready = world.wait_until_ready("team-a", "m").await?;
    let addresses = ready.status.unwrap_or_default().addresses;
    let addresses: Vec<_> = addresses.iter().map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.7", "m"]);
    // A virtual machine that was destroyed by a user is not created again.
    vcenter.destroy(&machine.id);
    let patch = json!({"metadata": {"annotations": {"look": "again"}}});
    world.change::<VSphereVM>("team-a", "m", patch).await?;
    let message = format!(
        "there is no virtual machine with the BIOS UUID {}: it was created, and is not created again",
        machine.bios_uuid
    );
    said("NotFoundByBIOSUUID", &message).await?;
    assert_eq!(vcenter.called("CloneVM_Task"), 1);
    world.delete::<VSphereMachine>("team-a", "m").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_is_shut_down_if_configured() -> anyhow::Result<()> {
    let world = World::new().await?;
    for (mode, never, hard) in [
        ("soft", false, 0),
        ("trySoft", false, 0),
        ("trySoft", true, 1),
    ] {
        let vcenter = FakeVCenter::start(&[ACCOUNT]).await?;
        let name = format!("{}-{never}", mode.to_lowercase());
        world.team(&name, &vcenter, ACCOUNT).await?;
        vcenter.shutdown_takes(if never {
            Duration::MAX
        } else {
            Duration::from_millis(50)
        });
        let operator = world.start(&[&name]);
        let spec = json!({"powerOffMode": mode, "guestSoftPowerOffTimeoutSeconds": 1});
        let spec = if never {
            spec
        } else {
            json!({"powerOffMode": mode})
        };
        world.machine(&name, &name, spec).await?;
        world.wait_until_ready(&name, &name).await?;
        world.delete::<VSphereMachine>(&name, &name).await?;
        world
            .wait_until_gone::<VSphereMachine>(&name, &name)
            .await?;
        assert_eq!(vcenter.called("ShutdownGuest"), 1, "{name}");
        assert_eq!(vcenter.called("PowerOffVM_Task"), hard, "{name}");
        assert_eq!(vcenter.machine(&format!("/DC0/vm/{name}")), None);
        operator.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn zone_places_a_machine_only_on_the_clusters_vcenter() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    let other = FakeVCenter::start(&[ACCOUNT]).await?;
    world.team("team-a", &vcenter, ACCOUNT).await?;
    vcenter.add_folder("/DC0/vm/teams");
    vcenter.add_pool("/DC0/host/DC0_C0/Resources/zone");
    vcenter.add_network("/DC0/network/zone");
    vcenter.add_datastore("/DC0/datastore/zone");
    let version = "infrastructure.cluster.x-k8s.io/v1beta2";
    let part = json!({"name": "x", "type": "Datacenter", "tagCategory": "x"});
    world
        .put(&json!({
            "apiVersion": version, "kind": "VSphereFailureDomain", "metadata": {"name": "d"},
            "spec": {
                "region": part, "zone": part,
                "topology": {"datacenter": "DC0", "datastore": "zone", "networks": ["zone"]},
            },
        }))
        .await?;
    for (name, server) in [("here", vcenter.address()), ("there", other.address())] {
        world
            .put(&json!({
                "apiVersion": version, "kind": "VSphereDeploymentZone", "metadata": {"name": name},
                "spec": {
                    "server": server, "failureDomain": "d",
                    "placementConstraint": {
                        "folder": "teams", "resourcePool": "DC0_C0/Resources/zone",
                    },
                },
            }))
            .await?;
    }
    let operator = world.start(&["team-a"]);
    world
        .machine("team-a", "m", json!({"failureDomain": "here"}))
        .await?;
    world
        .machine("team-a", "n", json!({"failureDomain": "there"}))
        .await?;
    world
        .machine("team-a", "o", json!({"failureDomain": "nowhere"}))
        .await?;
    world.wait_until_ready("team-a", "m").await?;
    let made = vcenter.machine("/DC0/vm/teams/m").expect("it is there");
    assert_eq!(made.pool, "/DC0/host/DC0_C0/Resources/zone");
    assert_eq!(made.datastore, "/DC0/datastore/zone");
    assert_eq!(made.networks, ["zone"]);
    let mismatch = format!(
        "VSphereDeploymentZone \"there\" is on {}, and VSphereCluster \"prod\" on {}",
        other.address(),
        vcenter.address()
    );
    let said = async |name: &str, reason: &str, message: &str| {
        let expected = ("False", reason, message);
        world
            .wait_for_reason::<VSphereMachine>("team-a", name, PROVISIONED, expected)
            .await
    };
    said("n", "FailureDomainMismatch", &mismatch).await?;
    let missing = "there is no VSphereDeploymentZone \"nowhere\"";
    said("o", "FailureDomainNotFound", missing).await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_message_of_the_vcenter_is_reported() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    let mut settings = crate::world::settings(&["team-a"]);
    settings.intervals.retry = Duration::from_secs(60);
    let operator = crate::world::Running::new(world.admin.clone(), settings);
    vcenter.fault_next("CloneVM_Task", Fault::new("NoPermission", "not yours"));
    world.machine("team-a", "m", json!({})).await?;
    let message = "the vCenter refuses CloneVM_Task: not yours (NoPermission)";
    let expected = ("False", "TaskFailed", message);
    world
        .wait_for_reason::<VSphereVM>("team-a", "m", PROVISIONED, expected)
        .await?;
    vcenter.fail_next_task("CloneVM_Task", Fault::new("NoDiskSpace", "it is full"));
    world.machine("team-a", "n", json!({})).await?;
    let expected = ("False", "TaskFailed", "it is full (NoDiskSpace)");
    world
        .wait_for_reason::<VSphereVM>("team-a", "n", PROVISIONED, expected)
        .await?;
    let paused = world
        .api::<VSphereVM>("team-a")
        .get("n")
        .await?
        .status
        .unwrap_or_default();
    assert!(paused.retry_after.is_some() && paused.clone_mode.is_none());
    // Neither was cloned, so their deletion waits for nothing.
    for name in ["m", "n"] {
        world.delete::<VSphereMachine>("team-a", name).await?;
        world
            .wait_until_gone::<VSphereMachine>("team-a", name)
            .await?;
    }
    operator.stop().await
}
