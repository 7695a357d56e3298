//! Moves between the spaces of two tenants. The hosts are in the space of a third one.

use insula_capi::Machine;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::beside::provisionings;
use crate::scene::{Identity, adopt, create_data, host_of, move_settings, ready, relocate_between};
use crate::world::{Running, Space, Tenants, Workload, condition, log_to_test, settings};

const TENANT: &str = "infrastructure.cluster.x-k8s.io/tenant";
const CLAIM: &str = "infrastructure.cluster.x-k8s.io/claim";
const CLAIM_DIGEST: &str = "infrastructure.cluster.x-k8s.io/claim-digest";

/// Creates a cluster `c` with a machine `m0` on a host of the tenant `t2`.
async fn cluster(world: &Tenants, space: &Space, workload: &Workload) -> anyhow::Result<()> {
    let kubeconfig = world.user("user-1").await?;
    space.identity("team", "hosts", &kubeconfig).await?;
    let text = workload.kubeconfig().to_string();
    let texts = [("value", text.as_str())];
    space.secret("team", "c-kubeconfig", &texts).await?;
    create_data(space, "team").await?;
    let identity = json!({"identityRef": {"name": "hosts"}});
    space.cluster("team", "c", identity).await?;
    space.machine("team", "c", "m0", "nodes").await?;
    let machine: Metal3Machine = space
        .wait_until("team", "m0", |machine: &Metal3Machine| {
            host_of(machine).is_some()
        })
        .await?;
    let host: BareMetalHost = world
        .space("t2")
        .api("shared")
        .get(&host_of(&machine).unwrap())
        .await?;
    let label = json!({"metal3.io/uuid": host.uid()});
    workload.node("n0", label).await?;
    ready(space, "team", "m0").await?;
    let status = Patch::Merge(json!({"status": {"nodeRef": {"name": "n0"}}}));
    let machines = space.api::<Machine>("team");
    let parameters = PatchParams::default();
    machines.patch_status("m0", &parameters, &status).await?;
    adopt(space, "team", "c").await
}

#[tokio::test]
async fn x08_machine_moved_to_another_tenant_keeps_its_host() -> anyhow::Result<()> {
    log_to_test();
    let world = Tenants::start().await?;
    let workload = Workload::start().await?;
    let hosts = world.space("t2");
    hosts.hosts("shared", &["h0"]).await?;
    let _running = Running::new(world.management.operator.clone(), settings());
    let (source, target) = (world.space("t1"), world.space("t3"));
    cluster(&world, &source, &workload).await?;
    let before = Identity::of(&source, "team").await?;
    let host: BareMetalHost = hosts.api("shared").get("h0").await?;
    assert_eq!(host.annotations()[TENANT], "t1");
    let secrets = hosts.api::<Secret>("shared");
    let metadata = secrets.get("m0-metadata").await?;

    let clients = (&source.client, &target.client);
    relocate_between(clients, &move_settings("team")).await?;
    let machine = ready(&target, "team", "m0").await?;
    assert_eq!(Identity::of(&target, "team").await?, before);
    // The proof has moved with the machine, and the host names the new tenant.
    let moved: BareMetalHost = hosts.api("shared").get("h0").await?;
    assert_eq!(moved.annotations()[TENANT], "t3");
    let digest = |host: &BareMetalHost| host.annotations()[CLAIM_DIGEST].clone();
    assert_eq!(digest(&moved), digest(&host));
    assert_ne!(Some(&machine.annotations()[CLAIM]), machine.uid().as_ref());
    assert_eq!(provisionings(&world.bare_metal, "shared/h0"), 1);
    let kept = secrets.get("m0-metadata").await?;
    assert_eq!(kept.resource_version(), metadata.resource_version());
    // Host and Secrets are released by the new tenant.
    target.delete::<Machine>("team", "m0").await?;
    target
        .wait_until_gone::<Metal3Machine>("team", "m0")
        .await?;
    let host = hosts.wait_for_host("shared", "h0", "available").await?;
    assert_eq!(host.spec.consumer_ref, None);
    for name in [TENANT, CLAIM_DIGEST] {
        assert!(!host.annotations().contains_key(name), "{name}");
    }
    for name in ["m0-metadata", "m0-userdata"] {
        hosts.wait_until_gone::<Secret>("shared", name).await?;
    }
    Ok(())
}

#[tokio::test]
async fn x08_tenant_cannot_take_a_host_by_names_alone() -> anyhow::Result<()> {
    log_to_test();
    let world = Tenants::start().await?;
    let hosts = world.space("t2");
    hosts.hosts("shared", &["h0"]).await?;
    let _running = Running::new(world.management.operator.clone(), settings());
    let claim = |space: Space, user: &'static str| {
        let world = &world;
        async move {
            let kubeconfig = world.user(user).await?;
            space.identity("team", "hosts", &kubeconfig).await?;
            space.template("team", "nodes", json!({})).await?;
            let identity = json!({"identityRef": {"name": "hosts"}});
            space.cluster("team", "c", identity).await?;
            space.machine("team", "c", "m0", "nodes").await
        }
    };
    let space = world.space("t1");
    claim(space.clone(), "user-1").await?;
    hosts.wait_for_host("shared", "h0", "provisioned").await?;
    let owner: Metal3Machine = space.api("team").get("m0").await?;
    let host: BareMetalHost = hosts.api("shared").get("h0").await?;
    let digest = host.annotations()[CLAIM_DIGEST].clone();

    // The stranger has the same names, says that the host is its own, and knows what is to be seen
    // next to the host.
    let stranger = world.space("t3");
    claim(stranger.clone(), "user-3").await?;
    let pretend = |claim: Value| {
        json!({"metadata": {"annotations": {
            "metal3.io/BareMetalHost": "shared/h0", CLAIM: claim,
        }}})
    };
    for forged in [Value::Null, json!(digest), json!("")] {
        stranger
            .patch::<Metal3Machine>("team", "m0", pretend(forged))
            .await?;
        let refused = ("False", "BareMetalHostInUse");
        let condition = "AssociateBareMetalHost";
        stranger
            .wait_for_condition::<Metal3Machine>("team", "m0", condition, refused)
            .await?;
    }
    // Nor does its deletion release the host. It waits until the stranger no longer names it.
    stranger.delete::<Machine>("team", "m0").await?;
    stranger
        .wait_until("team", "m0", |machine: &Metal3Machine| {
            let condition = condition(machine, "AssociateBareMetalHost");
            machine.metadata.deletion_timestamp.is_some()
                && condition.is_some_and(|[_, reason, message]| {
                    reason == "BareMetalHostInUse" && message.contains("but not this one")
                })
        })
        .await?;
    let named = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": null}}});
    stranger.patch::<Metal3Machine>("team", "m0", named).await?;
    stranger
        .wait_until_gone::<Metal3Machine>("team", "m0")
        .await?;
    let after: BareMetalHost = hosts.api("shared").get("h0").await?;
    assert_eq!(after.spec, host.spec);
    assert_eq!(after.annotations()[TENANT], "t1");
    assert!(host_of(&owner).is_some());
    Ok(())
}
