//! Deletion of clusters and identities.

use insula_testkit::vcenter::{ConnectionMode, FakeVCenter};
use insula_vsphere::kinds::{VSphereCluster, VSphereClusterIdentity, VSphereMachine};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::basics::{accounts, allowed, by_identity, by_secret, message};
use crate::world::{HOME, World, condition, create, delete, gone, patched, until};

#[tokio::test]
async fn c8_identity_in_use_is_kept_and_lists_its_users() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("shared", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.shared("shared", ("shared", "pw"), allowed(&vcenter))
        .await?;
    here.namespace("a", json!({})).await?;
    for number in 0..7 {
        let name = format!("c{number}");
        here.cluster("a", &name, by_identity(&vcenter, "shared"))
            .await?;
    }
    let identities: Api<VSphereClusterIdentity> = here.all();
    let counted = |users| {
        move |identity: &VSphereClusterIdentity| {
            identity
                .status
                .as_ref()
                .is_some_and(|status| status.users == Some(users))
        }
    };
    until(&identities, "shared", counted(7)).await?;

    // The policy refuses the deletion.
    let refused = identities.delete("shared", &DeleteParams::default()).await;
    let Err(kube::Error::Api(status)) = refused else {
        anyhow::bail!("{refused:?}");
    };
    let told = "it is used by 7: VSphereCluster a/c0, VSphereCluster a/c1, VSphereCluster a/c2, \
                VSphereCluster a/c3, VSphereCluster a/c4 and others";
    assert!(status.message.contains(told), "{}", status.message);

    // Without the policy, the finalizer keeps it, and its users can still clean up.
    let forget = json!({"status": {"users": 0, "usedBy": []}});
    let parameters = PatchParams::default();
    let forget = Patch::Merge(forget);
    identities
        .patch_status("shared", &parameters, &forget)
        .await?;
    delete(&identities, "shared").await?;
    let identity = here.wait_for_identity_reason("shared", "Deleting").await?;
    let status = identity.status.unwrap();
    // It stays ready for its users.
    assert_eq!(status.ready, Some(true));
    assert_eq!(
        condition(&status.conditions, "Available").unwrap().message,
        "it is used by VSphereCluster a/c0, VSphereCluster a/c1, VSphereCluster a/c2, \
         VSphereCluster a/c3, VSphereCluster a/c4 and 2 more"
    );
    // Readers of events in that namespace do not learn the names of users in others.
    let event = here.event("default", "shared", "Deleting").await?;
    assert_eq!(event.note.as_deref(), Some("it is used by 7"));
    here.wait_for_reason("a", "c6", "Available").await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    for number in 0..6 {
        delete(&clusters, &format!("c{number}")).await?;
    }
    until(&identities, "shared", counted(1)).await?;
    let secrets: Api<Secret> = here.inside(HOME);
    assert!(secrets.get_opt("shared").await?.is_some());
    delete(&clusters, "c6").await?;
    gone(&identities, "shared").await?;
    gone(&secrets, "shared").await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await
}

#[tokio::test]
async fn cluster_waits_for_its_machines_and_deletes_its_secret() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    let machines: Api<VSphereMachine> = here.inside("a");
    let machine = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "VSphereMachine",
        "metadata": {
            "name": "m", "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
            "finalizers": ["example.com/held"],
        },
        "spec": {"template": "ubuntu", "network": {"devices": [{"networkName": "VM Network"}]}},
    });
    create(&machines, machine).await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    delete(&clusters, "prod").await?;
    let cluster = here.wait_for_reason("a", "prod", "Deleting").await?;
    assert_eq!(message(&cluster), "waits for 1 VSphereMachines");
    let secrets: Api<Secret> = here.inside("a");
    assert!(secrets.get_opt("own").await?.is_some());
    delete(&machines, "m").await?;
    let patch = json!({"metadata": {"finalizers": null}});
    patched(&machines, "m", patch).await?;
    gone(&clusters, "prod").await?;
    gone(&secrets, "own").await?;
    let left = |vcenter: &FakeVCenter| accounts(vcenter).is_empty();
    vcenter.wait_for("no session", left).await
}

#[tokio::test]
async fn x2_cluster_is_deleted_without_its_secret_and_vcenter() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let _running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    let secrets: Api<Secret> = here.inside("a");
    // Its Secret was deleted by force.
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    delete(&secrets, "own").await?;
    patched(&secrets, "own", json!({"metadata": {"finalizers": null}})).await?;
    here.wait_for_reason("a", "prod", "SecretNotAvailable")
        .await?;
    delete(&clusters, "prod").await?;
    gone(&clusters, "prod").await?;
    // Its vCenter does not answer.
    vcenter.set_connection_mode(ConnectionMode::Silent).await;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "late", by_secret(&vcenter, "own")).await?;
    here.wait_for_reason("a", "late", "VCenterUnreachable")
        .await?;
    delete(&clusters, "late").await?;
    gone(&clusters, "late").await?;
    gone(&secrets, "own").await
}

#[tokio::test]
async fn x9_secret_of_a_force_deleted_owner_is_released() -> anyhow::Result<()> {
    let world = World::new().await?;
    let vcenter = FakeVCenter::start(&[("own", "pw")]).await?;
    let running = world.start();
    let here = world.here();
    here.namespace("a", json!({})).await?;
    here.account("a", "own", ("own", "pw")).await?;
    here.owned("a", "prod", by_secret(&vcenter, "own")).await?;
    here.shared("shared", ("own", "pw"), allowed(&vcenter))
        .await?;
    here.wait_for_reason("a", "prod", "Available").await?;
    here.wait_for_identity_reason("shared", "Available").await?;
    // No operator is running.
    running.stop().await?;
    let clusters: Api<VSphereCluster> = here.inside("a");
    let identities: Api<VSphereClusterIdentity> = here.all();
    delete(&clusters, "prod").await?;
    delete(&identities, "shared").await?;
    let by_force = || json!({"metadata": {"finalizers": null}});
    patched(&clusters, "prod", by_force()).await?;
    patched(&identities, "shared", by_force()).await?;
    gone(&clusters, "prod").await?;
    gone(&identities, "shared").await?;
    let _running = world.start();
    // The garbage collector deletes it, and no finalizer of ours keeps it.
    gone(&here.inside::<Secret>("a"), "own").await?;
    gone(&here.inside::<Secret>(HOME), "shared").await
}
