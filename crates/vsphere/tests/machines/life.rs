//! The life of a machine from its creation to its deletion.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use kube::ResourceExt;
use serde_json::json;

use crate::world::World;

const ACCOUNT: (&str, &str) = ("team-a", "pa");

#[tokio::test(flavor = "multi_thread")]
async fn machine_is_cloned_configured_started_and_destroyed() -> anyhow::Result<()> {
    let (world, vcenter) = (World::new().await?, FakeVCenter::start(&[ACCOUNT]).await?);
    world.team("team-a", &vcenter, ACCOUNT).await?;
    let operator = world.start(&["team-a"]);
    let spec = json!({"numCPUs": 4, "memoryMiB": 4096, "diskGiB": 40});
    world.machine("team-a", "prod-1", spec).await?;
    let machine = world.wait_until_ready("team-a", "prod-1").await?;
    let vm = world.api::<VSphereVM>("team-a").get("prod-1").await?;

    let made = vcenter.machine("/DC0/vm/prod-1").expect("it is there");
    let told = |key: &str| made.extra.get(key).map(String::as_str);
    assert_eq!(Some(&made.instance_uuid), vm.uid().as_ref());
    assert!(made.powered_on && !made.linked && made.disk_uuids);
    assert_eq!((made.cpus, made.memory_mib), (4, 4096));
    assert_eq!(made.networks, ["VM Network"]);
    assert_eq!(told("guestinfo.userdata"), Some("I2Nsb3VkLWNvbmZpZwo="));
    assert_eq!(told("guestinfo.userdata.encoding"), Some("base64"));
    assert_eq!(told("guestinfo.metadata.encoding"), Some("base64"));

    let id = format!("vsphere://{}", made.bios_uuid);
    assert_eq!(vm.spec.bios_uuid, Some(made.bios_uuid));
    assert_eq!(machine.spec.provider_id, Some(id));
    let status = vm.status.unwrap_or_default();
    assert_eq!(status.vm_ref, Some(format!("VirtualMachine:{}", made.id)));
    assert_eq!(status.clone_mode.as_deref(), Some("fullClone"));
    assert_eq!((status.task_ref, status.retry_after), (None, None));
    assert!(status.host.is_some());
    assert_eq!(status.network[0].mac_addr, made.macs[0]);
    let of_machine = machine.status.unwrap_or_default();
    assert_eq!(of_machine.network, status.network);
    assert_eq!(
        of_machine.initialization.and_then(|done| done.provisioned),
        Some(true)
    );
    let addresses: Vec<_> = of_machine
        .addresses
        .iter()
        .map(|one| one.kind.as_str())
        .collect();
    assert_eq!(addresses, ["ExternalIP", "InternalDNS"]);
    assert_eq!(of_machine.addresses[0].address, status.addresses[0]);
    for kind in ["Ready", "VirtualMachineProvisioned"] {
        let (reason, expected) = match kind {
            "Ready" => ("Ready", ("True", "Ready", "")),
            _ => ("Provisioned", ("True", "Provisioned", "")),
        };
        world
            .wait_for_reason::<VSphereVM>("team-a", "prod-1", kind, expected)
            .await?;
        world
            .wait_for_reason::<VSphereMachine>("team-a", "prod-1", kind, expected)
            .await?;
        assert_eq!(expected.1, reason);
    }
    world
        .wait_for_reason::<VSphereVM>(
            "team-a",
            "prod-1",
            "VCenterAvailable",
            ("True", "Available", ""),
        )
        .await?;
    world
        .wait_for_reason::<VSphereVM>("team-a", "prod-1", "Paused", ("False", "NotPaused", ""))
        .await?;

    world.delete::<VSphereMachine>("team-a", "prod-1").await?;
    world
        .wait_until_gone::<VSphereMachine>("team-a", "prod-1")
        .await?;
    world
        .wait_until_gone::<VSphereVM>("team-a", "prod-1")
        .await?;
    assert_eq!(vcenter.machine("/DC0/vm/prod-1"), None);
    assert_eq!(vcenter.called("CloneVM_Task"), 1);
    assert_eq!(vcenter.called("PowerOnVM_Task"), 1);
    assert_eq!(vcenter.called("PowerOffVM_Task"), 1);
    assert_eq!(vcenter.called("Destroy_Task"), 1);
    operator.stop().await?;
    assert_eq!(vcenter.open_sessions(), []);
    Ok(())
}
