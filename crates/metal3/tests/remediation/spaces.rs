//! Remediations of tenants that share the hosts of another tenant's space.

use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::kinds::remediation::Metal3Remediation;
use insula_metal3::names::HOST_ANNOTATION;
use kube::ResourceExt;
use serde_json::json;

use crate::case::{has_request, phase_of, remediate};
use crate::scene::{HOST, annotation, identity};
use crate::world::{Running, Tenants, log_to_test, settings};

#[tokio::test]
async fn m06_tenant_restarts_no_host_of_a_machine_of_the_same_name() -> anyhow::Result<()> {
    log_to_test();
    let world = Tenants::start().await?;
    let owner = world.space("t2");
    owner.hosts("shared", &["h0", "h1"]).await?;
    let _running = Running::new(world.management.operator.clone(), settings());
    let mut hosts = Vec::new();
    for (tenant, user) in [("t1", "user-1"), ("t3", "user-3")] {
        let space = world.space(tenant);
        let kubeconfig = world.user(user).await?;
        space.identity("team", "hosts", &kubeconfig).await?;
        space.cluster("team", "c", identity("hosts")).await?;
        space.template("team", "workers", json!({})).await?;
        space.machine("team", "c", "m0", "workers").await?;
        let associated = ("True", "AssociateBareMetalHostSuccess");
        let machine: Metal3Machine = space
            .wait_for_condition("team", "m0", HOST, associated)
            .await?;
        hosts.push(annotation(&machine).unwrap_or_default());
    }
    let name = hosts[0].strip_prefix("shared/").unwrap_or_default();
    let host = owner.wait_for_host("shared", name, "provisioned").await?;
    // The second tenant names the host of the first.
    let second = world.space("t3");
    let stolen = json!({"metadata": {"annotations": { HOST_ANNOTATION: hosts[0] }}});
    second.patch::<Metal3Machine>("team", "m0", stolen).await?;
    remediate(&second, "team", "m0").await?;
    second.event("team", "m0", "BareMetalHostInUse").await?;
    let after = owner.wait_for_host("shared", name, "provisioned").await?;
    assert_eq!(after.resource_version(), host.resource_version());
    assert_eq!(world.bare_metal.power(&hosts[0]), [true]);
    // The first restarts it.
    let first = world.space("t1");
    remediate(&first, "team", "m0").await?;
    let done = |one: &Metal3Remediation| phase_of(one) == "Waiting" && one.finalizers().is_empty();
    first.wait_until("team", "m0", done).await?;
    assert_eq!(world.bare_metal.power(&hosts[0]), [true, false, true]);
    assert!(!has_request(
        &owner.wait_for_host("shared", name, "provisioned").await?
    ));
    Ok(())
}
