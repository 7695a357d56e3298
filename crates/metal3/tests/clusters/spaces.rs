//! Hosts in one tenant's space, and clusters in the spaces of others.

use insula_metal3::kinds::cluster::Metal3Cluster;
use serde_json::json;

use crate::basics::{INFRASTRUCTURE, identity};
use crate::world::{Running, Tenants, log_to_test, settings};

#[tokio::test]
async fn s02_pool_of_a_space_is_shared_by_teams_of_two_other_spaces() -> anyhow::Result<()> {
    log_to_test();
    let world = Tenants::start().await?;
    let _running = Running::new(world.management.operator.clone(), settings());
    for (tenant, user) in [("t1", "user-1"), ("t3", "user-3")] {
        let space = world.space(tenant);
        let kubeconfig = world.user(user).await?;
        space.identity("team", "hosts", &kubeconfig).await?;
        space.cluster("team", "prod", identity("hosts")).await?;
    }
    for tenant in ["t1", "t3"] {
        let space = world.space(tenant);
        let expected = ("True", "Ready");
        space
            .wait_for_condition::<Metal3Cluster>("team", "prod", INFRASTRUCTURE, expected)
            .await?;
    }
    let requests = world.management.requests()?;
    let hosts = requests
        .iter()
        .filter(|request| request.resource == "baremetalhosts" && request.namespace == "shared");
    let mut users: Vec<_> = hosts.map(|request| request.user.as_str()).collect();
    users.sort_unstable();
    users.dedup();
    let expected = [
        "system:serviceaccount:shared:user-1",
        "system:serviceaccount:shared:user-3",
    ];
    assert_eq!(users, expected);

    // The Secret of one tenant is not available to another one, nor to the system.
    world
        .management
        .cluster("team-a", "prod", json!({"identityRef": {"name": "hosts"}}))
        .await?;
    let expected = ("False", "IdentitySecretNotFound");
    world
        .management
        .wait_for_condition::<Metal3Cluster>("team-a", "prod", INFRASTRUCTURE, expected)
        .await?;
    Ok(())
}
