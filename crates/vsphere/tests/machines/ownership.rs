//! Ownership of virtual machines, also when it is in doubt.

use std::time::Duration;

use insula_testkit::vcenter::{FakeVCenter, Fault};
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{Running, World, eventually, settings};

const ACCOUNT: (&str, &str) = ("team-a", "pa");
const PROVISIONED: &str = "VirtualMachineProvisioned";

async fn world() -> anyhow::Result<(World, FakeVCenter)> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    Ok((world, vcenter))
}

/// Returns the message of the condition `VirtualMachineProvisioned`.
fn provisioned_message(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
) -> &str {
    let told = conditions.iter().find(|told| told.type_ == PROVISIONED);
    told.map_or("", |told| told.message.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn fr5_foreign_machine_is_neither_adopted_nor_destroyed() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    vcenter.add_machine("/DC0/vm/theirs");
    let operator = world.start(&["team-a"]);
    for name in ["theirs", "ubuntu"] {
        let before = vcenter.machine(&format!("/DC0/vm/{name}"));
        let uuid = before.as_ref().map(|machine| machine.bios_uuid.clone());
        world
            .put(&json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereVM",
                "metadata": {
                    "name": name, "namespace": "team-a",
                    "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
                },
                "spec": {
                    "template": "ubuntu", "biosUUID": uuid,
                    "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]},
                },
            }))
            .await?;
        let message =
            "the virtual machine with the BIOS UUID of spec.biosUUID belongs to another owner";
        let expected = ("False", "NotFoundByBIOSUUID", message);
        world
            .wait_for_reason::<VSphereVM>("team-a", name, PROVISIONED, expected)
            .await?;
        world.delete::<VSphereVM>("team-a", name).await?;
        world.wait_until_gone::<VSphereVM>("team-a", name).await?;
        assert!(before.is_some());
        assert_eq!(vcenter.machine(&format!("/DC0/vm/{name}")), before);
    }
    let calls = vcenter.calls();
    let begun = calls.iter().find(|call| call.method.ends_with("_Task"));
    assert_eq!(begun, None);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_invisible_to_its_account_is_not_gone() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    let operator = world.start(&["team-a"]);
    world.machine("team-a", "m", json!({})).await?;
    world.wait_until_ready("team-a", "m").await?;
    let made = vcenter.machine("/DC0/vm/m").expect("it is there");
    vcenter.hide(&made.id);
    world.delete::<VSphereMachine>("team-a", "m").await?;
    let message = "the vCenter refuses RetrievePropertiesEx: Permission to perform this operation \
                   was denied. (NoPermission)";
    let expected = ("False", "Deleting", message);
    world
        .wait_for_reason::<VSphereVM>("team-a", "m", PROVISIONED, expected)
        .await?;
    world
        .wait_for_reason::<VSphereMachine>("team-a", "m", PROVISIONED, expected)
        .await?;
    assert!(vcenter.machine("/DC0/vm/m").is_some());
    vcenter.reveal(&made.id);
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    assert_eq!(vcenter.machine("/DC0/vm/m"), None);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_with_lost_response_stays_in_doubt() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    let mut settings = settings(&["team-a"]);
    // Time to set the outcome of the next clone, and for the first one to appear.
    settings.shell.sessions.unreachable_backoff = (Duration::from_secs(1), Duration::from_secs(1));
    settings.intervals.retry = Duration::from_secs(5);
    settings.intervals.lost_clone = Duration::from_secs(60);
    let operator = Running::new(world.admin.clone(), settings);
    vcenter.tasks_take(Duration::from_secs(4));
    vcenter.drop_connection_after("CloneVM_Task");
    world.machine("team-a", "m", json!({})).await?;
    let lost = |vm: &VSphereVM| {
        let status = vm.status.clone().unwrap_or_default();
        let mut told = status.conditions.iter();
        told.any(|told| told.reason == "VCenterUnreachable")
    };
    world.wait_until("team-a", "m", lost).await?;
    vcenter.tasks_take(Duration::ZERO);
    vcenter.fail_next_task("CloneVM_Task", Fault::new("NoDiskSpace", "it is full"));
    let expected = ("False", "TaskFailed", "it is full (NoDiskSpace)");
    world
        .wait_for_reason::<VSphereVM>("team-a", "m", PROVISIONED, expected)
        .await?;
    assert_eq!(vcenter.machine("/DC0/vm/m"), None);
    world.delete::<VSphereMachine>("team-a", "m").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    // It was created and destroyed.
    assert_eq!(vcenter.called("Destroy_Task"), 1);
    assert_eq!(vcenter.machine("/DC0/vm/m"), None);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn running_task_survives_a_failed_read() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    let mut settings = settings(&["team-a"]);
    settings.intervals.tasks = Duration::from_millis(300);
    let operator = Running::new(world.admin.clone(), settings);
    vcenter.tasks_take(Duration::from_secs(3));
    world.machine("team-a", "m", json!({})).await?;
    let begun = |vm: &VSphereVM| {
        let status = vm.status.as_ref();
        status.is_some_and(|status| status.task_ref.is_some())
    };
    world.wait_until("team-a", "m", begun).await?;
    vcenter.fault_next(
        "RetrievePropertiesEx",
        Fault::new("NoPermission", "not now"),
    );
    vcenter.tasks_take(Duration::ZERO);
    let message = "the vCenter refuses RetrievePropertiesEx: not now (NoPermission)";
    let expected = ("False", "TaskFailed", message);
    world
        .wait_for_reason::<VSphereVM>("team-a", "m", PROVISIONED, expected)
        .await?;
    world.wait_until_ready("team-a", "m").await?;
    assert_eq!(vcenter.called("CloneVM_Task"), 1);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_vsphere_vm_is_not_created_again() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    let operator = world.start(&["team-a"]);
    world.machine("team-a", "m", json!({})).await?;
    let before = world.wait_until_ready("team-a", "m").await?;
    world.delete::<VSphereVM>("team-a", "m").await?;
    let message = "its virtual machine is gone, and is not created again";
    let expected = ("False", "NotProvisioned", message);
    world
        .wait_for_reason::<VSphereMachine>("team-a", "m", PROVISIONED, expected)
        .await?;
    let machine = world.api::<VSphereMachine>("team-a").get("m").await?;
    assert_eq!(machine.spec.provider_id, before.spec.provider_id);
    let vms = world.api::<VSphereVM>("team-a");
    assert_eq!(vms.list(&Default::default()).await?.items.len(), 0);
    assert_eq!(vcenter.called("CloneVM_Task"), 1);
    world.delete::<VSphereMachine>("team-a", "m").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "m")
        .await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_filter_applies_to_the_created_vsphere_vm() -> anyhow::Result<()> {
    let (world, _vcenter) = world().await?;
    let mut settings = settings(&["team-a"]);
    settings.shell.watch_filter = Some("us".to_owned());
    let operator = Running::new(world.admin.clone(), settings);
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "us"}}});
    world.machine("team-a", "m", json!({})).await?;
    world.change::<VSphereMachine>("team-a", "m", label).await?;
    world.wait_until_ready("team-a", "m").await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_guest_shutdown_is_repeated_rarely() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    let mut settings = settings(&["team-a"]);
    settings.intervals.retry = Duration::from_secs(600);
    let operator = Running::new(world.admin.clone(), settings);
    vcenter.shutdown_takes(Duration::MAX);
    let spec = json!({"powerOffMode": "soft", "guestSoftPowerOffTimeoutSeconds": 1});
    world.machine("team-a", "m", spec).await?;
    world.wait_until_ready("team-a", "m").await?;
    world.delete::<VSphereMachine>("team-a", "m").await?;
    vcenter
        .wait_for("it is asked", |vcenter| {
            vcenter.called("ShutdownGuest") >= 2
        })
        .await?;
    // Further reconciliations do not change that.
    for nth in 0..5 {
        let pauses = |vm: &VSphereVM| {
            let status = vm.status.clone().unwrap_or_default();
            status.retry_after.is_some()
                && provisioned_message(&status.conditions).contains("did not shut down in time")
        };
        let vm = world.wait_until("team-a", "m", pauses).await?;
        let patch = json!({"metadata": {"annotations": {"look": nth.to_string()}}});
        world
            .change::<VSphereVM>("team-a", &vm.name_any(), patch)
            .await?;
    }
    assert_eq!(vcenter.called("ShutdownGuest"), 2);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn network_card_is_fixed_in_the_machine() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    vcenter.addresses_after(Duration::from_secs(3600));
    let operator = world.start(&["team-a"]);
    let network = |card: Value| json!({"network": {"devices": [card]}});
    let card = network(json!({"networkName": "VM Network"}));
    world.machine("team-a", "m", card).await?;
    let message = "network.devices[0] (VM Network) has neither DHCP nor ipAddrs";
    let expected = ("False", "WaitingForStaticIPAllocation", message);
    world
        .wait_for_reason::<VSphereMachine>("team-a", "m", PROVISIONED, expected)
        .await?;
    let card = network(json!({"networkName": "VM Network", "skipIPAllocation": true}));
    world
        .change::<VSphereMachine>("team-a", "m", json!({"spec": card}))
        .await?;
    // Its card skips the allocation, so no address is awaited.
    let ready = world.wait_until_ready("team-a", "m").await?;
    let addresses = ready.status.unwrap_or_default().addresses;
    let addresses: Vec<_> = addresses.iter().map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["m"]);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_vcenter_answer_is_reported_once() -> anyhow::Result<()> {
    let (world, vcenter) = world().await?;
    for _ in 0..1000 {
        vcenter.fault_next("FindByUuid", Fault::new("<", "no"));
    }
    let operator = world.start(&["team-a"]);
    world.machine("team-a", "m", json!({})).await?;
    let odd = |vm: &VSphereVM| {
        let status = vm.status.clone().unwrap_or_default();
        let mut told = status.conditions.iter();
        told.any(|told| told.type_ == "VCenterAvailable" && told.reason == "VCenterUnreachable")
    };
    let first = world.wait_until("team-a", "m", odd).await?;
    let looked = vcenter.called("FindByUuid");
    eventually(async || Ok((vcenter.called("FindByUuid") >= looked + 4).then_some(()))).await?;
    let then = world.api::<VSphereVM>("team-a").get("m").await?;
    assert_eq!(then.resource_version(), first.resource_version());
    operator.stop().await
}
