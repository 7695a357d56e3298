//! Machines of tenants that share the hosts of another tenant's space.

use insula_metal3::kinds::machine::Metal3Machine;
use serde_json::json;

use crate::scene::{HOST, META_DATA, annotation, identity};
use crate::world::{Running, Tenants, log_to_test, settings};

#[tokio::test]
async fn s02_machines_of_one_name_in_two_spaces_do_not_share_a_host() -> anyhow::Result<()> {
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
    hosts.sort();
    assert_eq!(hosts, ["shared/h0", "shared/h1"]);
    // The Secret of the first is neither used nor changed.
    let conflict = ("False", "SecretConflict");
    let space = world.space("t3");
    space
        .wait_for_condition::<Metal3Machine>("team", "m0", META_DATA, conflict)
        .await?;
    // The deletion of the second leaves the first its host and its Secret.
    space.delete::<insula_capi::Machine>("team", "m0").await?;
    space.wait_until_gone::<Metal3Machine>("team", "m0").await?;
    let consumers = owner.consumers("shared").await?;
    let used: Vec<_> = consumers.values().filter(|user| !user.is_empty()).collect();
    assert_eq!(used, ["Metal3Machine team/m0"]);
    let secrets = crate::scene::secrets(&owner, "shared").await?;
    assert!(secrets.contains(&"m0-userdata".to_owned()), "{secrets:?}");
    Ok(())
}
