//! The life of machines in two vcsim simulators, each with its own account.

use insula_testkit::vcsim::VcSim;
use insula_vsphere::kinds::{VSphereMachine, VSphereVM};
use serde_json::json;

use crate::world::World;

/// The thumbprint of the certificate that is built into vcsim.
const THUMBPRINT: &str = "52:6C:4E:88:1D:78:AE:12:1C:F3:BB:6C:5B:F4:E2:82:86:A7:08:AF";

#[tokio::test(flavor = "multi_thread")]
async fn g1_t3_machines_in_two_simulators_with_two_accounts() -> anyhow::Result<()> {
    let (Some(first), Some(second)) = (VcSim::start("team-a", "pa"), VcSim::start("team-b", "pb"))
    else {
        return Ok(());
    };
    let world = World::new().await?;
    let operator = world.start(&["team-a", "team-b"]);
    for (team, password, simulator) in [("team-a", "pa", &first), ("team-b", "pb", &second)] {
        world.account(team, (team, password)).await?;
        let reference = json!({"kind": "Secret", "name": "account"});
        let server = simulator.address();
        world
            .cluster(team, "prod", &server, THUMBPRINT, reference)
            .await?;
        let spec = json!({
            "template": "DC0_C0_RP0_VM0", "resourcePool": "DC0_C0/Resources",
        });
        world.machine(team, "m", spec).await?;
    }
    for (team, simulator) in [("team-a", &first), ("team-b", &second)] {
        let waits = ("False", "WaitingForIPAddress", "it has no address yet");
        world
            .wait_for_reason::<VSphereVM>(team, "m", "VirtualMachineProvisioned", waits)
            .await?;
        let vm = world.api::<VSphereVM>(team).get("m").await?;
        let object = vm.status.unwrap_or_default().vm_ref.unwrap_or_default();
        let id = object.trim_start_matches("VirtualMachine:");
        // The guest would report this.
        simulator
            .ask(&format!(
                "<ReconfigVM_Task xmlns=\"urn:vim25\"><_this type=\"VirtualMachine\">{id}</_this>\
                 <spec><extraConfig xsi:type=\"OptionValue\" \
                 xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
                 <key>SET.guest.ipAddress</key><value xsi:type=\"xsd:string\" \
                 xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\">10.0.0.42</value>\
                 </extraConfig></spec></ReconfigVM_Task>"
            ))
            .await?;
        let machine = world.wait_until_ready(team, "m").await?;
        let vm = world.api::<VSphereVM>(team).get("m").await?;
        let uuid = vm.spec.bios_uuid.unwrap_or_default();
        assert_eq!(machine.spec.provider_id, Some(format!("vsphere://{uuid}")));
        assert_eq!(vm.status.unwrap_or_default().addresses, ["10.0.0.42"]);
        world.delete::<VSphereMachine>(team, "m").await?;
        world.wait_until_gone::<VSphereMachine>(team, "m").await?;
    }
    operator.stop().await
}
