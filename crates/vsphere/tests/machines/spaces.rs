//! Machines of the same name in two tenants' spaces.

use insula_capi::{Cluster, Machine};
use insula_operator::roles::impersonation;
use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereCluster, VSphereMachine, VSphereVM};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::shared::{Space, World, create, delete, eventually, gone, until};

const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";

/// Creates a ready cluster `a/prod` with this account.
async fn cluster(here: &Space, vcenter: &FakeVCenter, account: (&str, &str)) -> anyhow::Result<()> {
    here.namespace("a", json!({})).await?;
    here.account("a", "own", account).await?;
    let spec = json!({
        "server": vcenter.address(), "thumbprint": vcenter.thumbprint_sha256(),
        "identityRef": {"kind": "Secret", "name": "own"},
    });
    here.owned("a", "prod", spec).await?;
    let done = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    let patch = Patch::Merge(json!({"status": {"initialization": done}}));
    here.inside::<Cluster>("a")
        .patch_status("prod", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

fn labels() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": "prod"})
}

fn spec(folder: &str) -> Value {
    json!({
        "template": "ubuntu", "folder": folder,
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]},
    })
}

/// Creates a machine `a/m` in this folder.
async fn machine(here: &Space, folder: &str) -> anyhow::Result<()> {
    here.secret("a", "data", &[("value", "x")]).await?;
    let owner: Machine = create(
        &here.inside("a"),
        json!({
            "apiVersion": CAPI, "kind": "Machine",
            "metadata": {"name": "m", "labels": labels()},
            "spec": {"clusterName": "prod", "bootstrap": {"dataSecretName": "data"}},
        }),
    )
    .await?;
    let owner = json!({"apiVersion": CAPI, "kind": "Machine", "name": "m", "uid": owner.uid()});
    let metadata = json!({"name": "m", "labels": labels(), "ownerReferences": [owner]});
    let machine = json!({
        "apiVersion": OURS, "kind": "VSphereMachine", "metadata": metadata, "spec": spec(folder),
    });
    create::<VSphereMachine>(&here.inside("a"), machine).await?;
    Ok(())
}

async fn ready(here: &Space) -> anyhow::Result<VSphereMachine> {
    until(&here.inside("a"), "m", |machine: &VSphereMachine| {
        let status = machine.status.as_ref();
        status.is_some_and(|status| status.ready == Some(true))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn g1_machines_of_one_name_in_two_spaces_use_their_own_accounts() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("t1", "p1"), ("t2", "p2")]).await?;
    let spaces = [("t1", "p1"), ("t2", "p2")];
    let running = world.start();
    for (name, password) in spaces {
        vcenter.add_folder(&format!("/DC0/vm/{name}"));
        let here = world.space(Some(name));
        cluster(&here, &vcenter, (name, password)).await?;
        machine(&here, name).await?;
    }
    for (name, _) in spaces {
        let machine = ready(&world.space(Some(name))).await?;
        let made = vcenter
            .machine(&format!("/DC0/vm/{name}/m"))
            .expect("it is there");
        let id = format!("vsphere://{}", made.bios_uuid);
        assert_eq!(machine.spec.provider_id, Some(id));
        assert_eq!(made.created_by, name);
        let object = format!("VirtualMachine:{}", made.id);
        let calls = vcenter.calls();
        let others = calls
            .iter()
            .filter(|call| call.object == object)
            .find(|call| call.account.as_deref() != Some(name));
        assert_eq!(others, None);
    }
    // The deletion of one does not affect the other.
    let one = world.space(Some("t1"));
    delete(&one.inside::<VSphereMachine>("a"), "m").await?;
    gone(&one.inside::<VSphereMachine>("a"), "m").await?;
    assert_eq!(vcenter.machine("/DC0/vm/t1/m"), None);
    let other = vcenter.machine("/DC0/vm/t2/m");
    assert!(other.is_some_and(|machine| machine.powered_on));
    running.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn fr5_tenant_cannot_adopt_anothers_machine_by_name_and_uuid() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("lent", "p")]).await?;
    let running = world.start();
    let (victim, thief) = (world.space(Some("t1")), world.space(Some("t2")));
    vcenter.add_folder("/DC0/vm/t1");
    cluster(&victim, &vcenter, ("lent", "p")).await?;
    cluster(&thief, &vcenter, ("lent", "p")).await?;
    machine(&victim, "t1").await?;
    ready(&victim).await?;
    let theirs = victim.inside::<VSphereVM>("a").get("m").await?;
    // Everything that can be known from outside; only the VSphereVM itself has the mark.
    let mut spec = spec("t1");
    spec["biosUUID"] = json!(theirs.spec.bios_uuid);
    let annotations = json!({"vsphere.insula.dev/mark": theirs.uid()});
    let taken = json!({
        "apiVersion": OURS, "kind": "VSphereVM",
        "metadata": {"name": "m", "labels": labels(), "annotations": annotations}, "spec": spec,
    });
    let vms = thief.inside::<VSphereVM>("a");
    create(&vms, taken).await?;
    until(&vms, "m", |vm: &VSphereVM| {
        let status = vm.status.clone().unwrap_or_default();
        let mut told = status.conditions.iter();
        told.any(|told| told.reason == "NotFoundByBIOSUUID")
    })
    .await?;
    delete(&vms, "m").await?;
    gone(&vms, "m").await?;
    let made = vcenter.machine("/DC0/vm/t1/m");
    assert!(made.is_some_and(|machine| machine.powered_on));
    assert_eq!(vcenter.called("Destroy_Task"), 0);
    running.stop().await
}

/// Gives a service account a role: of the system's space in all of them, or in a namespace.
fn binding(kind: &str, role: &str, account: (&str, &str)) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": role},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": account.0, "name": account.1}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn o08_role_of_service_accounts_is_enough_for_a_machines_life() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("t1", "p1")]).await?;
    vcenter.add_folder("/DC0/vm/t1");
    let acts = json!({"metadata": {"name": "acts"}, "rules": impersonation("capv", true)});
    create::<ClusterRole>(&world.here().all(), acts).await?;
    let operator = binding(
        "ClusterRoleBinding",
        "acts",
        ("capv-system", "capv-manager"),
    );
    create::<ClusterRoleBinding>(&world.here().all(), operator).await?;
    let mut settings = world.settings();
    settings.shell.service_account = Some("capv".to_owned());
    let running = world.start_with(settings);
    let here = world.space(Some("t1"));
    cluster(&here, &vcenter, ("t1", "p1")).await?;
    machine(&here, "/DC0/vm/t1").await?;
    // Without the RoleBinding nothing happens, and each object has an event that tells.
    let events: Api<Event> = here.inside("a");
    eventually(async || {
        let all = events.list(&ListParams::default()).await?;
        let mut notes = all.items.iter().filter_map(|event| event.note.as_deref());
        let said = notes.any(|note| note.contains("acts as service account capv here"));
        Ok(said.then_some(()))
    })
    .await?;
    assert_eq!(vcenter.logins().len(), 0);
    let account = binding("RoleBinding", "capv-service-account", ("a", "capv"));
    create::<RoleBinding>(&here.inside("a"), account).await?;
    ready(&here).await?;
    delete(&here.inside::<VSphereMachine>("a"), "m").await?;
    gone(&here.inside::<VSphereMachine>("a"), "m").await?;
    delete(&here.inside::<VSphereCluster>("a"), "prod").await?;
    gone(&here.inside::<VSphereCluster>("a"), "prod").await?;
    running.stop().await
}
