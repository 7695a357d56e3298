//! The system's space and those of two tenants, with the same names in all of them.

use insula_testkit::vcenter::FakeVCenter;
use insula_vsphere::kinds::{VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use serde_json::json;

use crate::basics::{accounts, allowed, by_identity, by_secret};
use crate::world::{HOME, World, delete, gone, patched, until};

const SPACES: [Option<&str>; 3] = [None, Some("t1"), Some("t2")];

fn name(space: Option<&str>) -> &str {
    space.unwrap_or("system")
}

#[tokio::test]
async fn g1_o04_spaces_with_equal_names_keep_their_own_accounts() -> anyhow::Result<()> {
    let world = World::new().await?;
    let people = [("system", "p-system"), ("t1", "p-t1"), ("t2", "p-t2")];
    let vcenter = FakeVCenter::start(&people).await?;
    let running = world.start();
    for space in SPACES {
        let (here, password) = (world.space(space), format!("p-{}", name(space)));
        here.namespace("a", json!({"team": "red"})).await?;
        here.shared("shared", (name(space), &password), allowed(&vcenter))
            .await?;
        here.owned("a", "prod", by_identity(&vcenter, "shared"))
            .await?;
        here.account("a", "own", (name(space), &password)).await?;
        here.owned("a", "own", by_secret(&vcenter, "own")).await?;
        here.domain("east", json!({"datacenter": "DC0"})).await?;
        let identity = json!({"kind": "VSphereClusterIdentity", "name": "shared"});
        let zone = json!({
            "server": vcenter.address(), "failureDomain": "east", "identityRef": identity,
        });
        here.zone("east", zone).await?;
        let selector = json!({"spec": {"failureDomainSelector": {}}});
        here.change("a", "prod", selector).await?;
    }
    for space in SPACES {
        let here = world.space(space);
        for cluster in ["prod", "own"] {
            here.wait_for_reason("a", cluster, "Available").await?;
        }
        here.wait_for_cluster("a", "prod", |cluster: &VSphereCluster| {
            let status = cluster.status.as_ref();
            status.is_some_and(|status| status.failure_domains.len() == 1)
        })
        .await?;
        until(
            &here.all(),
            "shared",
            |identity: &VSphereClusterIdentity| {
                identity
                    .status
                    .as_ref()
                    .is_some_and(|status| status.users == Some(2))
            },
        )
        .await?;
    }
    // Two sessions for each space: of the identity, and of the Secret.
    let expected = ["system", "system", "t1", "t1", "t2", "t2"];
    assert_eq!(accounts(&vcenter), expected);
    assert!(vcenter.logins().iter().all(|login| login.ok));
    assert_eq!(vcenter.logins().len(), 6);

    // A change in one space does not affect the others.
    let one = world.space(Some("t1"));
    let allowed =
        json!({"spec": {"allowedNamespaces": {"selector": {"matchLabels": {"team": "x"}}}}});
    one.change_identity("shared", allowed).await?;
    one.wait_for_reason("a", "prod", "NamespaceNotAllowed")
        .await?;
    let labels = json!({"metadata": {"labels": {"team": "x"}}});
    patched(&world.here().all::<Namespace>(), "a", labels.clone()).await?;
    for space in [None, Some("t2")] {
        world
            .space(space)
            .wait_for_reason("a", "prod", "Available")
            .await?;
    }
    one.wait_for_reason("a", "prod", "NamespaceNotAllowed")
        .await?;
    patched(&one.all::<Namespace>(), "a", labels).await?;
    one.wait_for_reason("a", "prod", "Available").await?;

    // A deleted tenant leaves no session.
    let two = world.space(Some("t2"));
    for cluster in ["prod", "own"] {
        delete(&two.inside::<VSphereCluster>("a"), cluster).await?;
        gone(&two.inside::<VSphereCluster>("a"), cluster).await?;
    }
    delete(&two.all::<VSphereDeploymentZone>(), "east").await?;
    until(&two.all(), "shared", |identity: &VSphereClusterIdentity| {
        identity
            .status
            .as_ref()
            .is_some_and(|status| status.users == Some(0))
    })
    .await?;
    delete(&two.all::<VSphereClusterIdentity>(), "shared").await?;
    gone(&two.inside::<Secret>(HOME), "shared").await?;
    vcenter
        .wait_for("the sessions of the others", |vcenter| {
            accounts(vcenter) == ["system", "system", "t1", "t1"]
        })
        .await?;
    let secrets: Api<Secret> = world.here().inside(HOME);
    assert!(secrets.get_opt("shared").await?.is_some());
    running.stop().await?;
    assert_eq!(accounts(&vcenter), Vec::<String>::new());
    Ok(())
}
