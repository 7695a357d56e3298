//! Machines without an identity, on hosts of their own namespace.

use insula_capi::{Cluster, Machine};
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{Scene, annotation, host_secrets, hosts_in_management, secrets};
use crate::world::condition;

const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const STATUS: &str = "baremetalhost.metal3.io/status";
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

#[tokio::test]
async fn s04_r39_machine_uses_a_host_of_its_own_namespace() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let management = scene.management();
    let bare_metal = hosts_in_management(management).await?;
    management.hosts("team-a", &["h0"]).await?;
    scene.cluster("team-a", "c", json!({}), json!({})).await?;
    scene.machines("team-a", &["m0"]).await?;
    let machine = scene.provisioned("team-a", "m0").await?;
    assert_eq!(annotation(&machine).as_deref(), Some("team-a/h0"));
    assert_eq!(machine.spec.identity_ref, None);
    let user_data = machine.status.unwrap().user_data.unwrap();
    assert_eq!(user_data.name.as_deref(), Some("m0-bootstrap"));
    assert_eq!(user_data.namespace.as_deref(), Some("team-a"));
    let host = management
        .wait_for_host("team-a", "h0", "provisioned")
        .await?;
    let user_data = Some(("team-a".to_owned(), "m0-bootstrap".to_owned()));
    assert_eq!(host_secrets(&host), [user_data, None, None]);
    assert_eq!(host.annotations()[BLOCK_MOVE], "");
    assert!(!host.annotations().contains_key(PAUSED));
    let bmc: Secret = management.api("team-a").get("h0-bmc").await?;
    assert_eq!(bmc.labels()[CLUSTER_LABEL], "c");
    assert_eq!(
        secrets(management, "team-a").await?,
        ["c-kubeconfig", "m0-bootstrap"]
    );
    let data = bare_metal.data("team-a/h0").unwrap();
    let bootstrap = "#cloud-config\n# team-a/m0\n";
    assert_eq!(data.user_data.as_deref(), Some(bootstrap));
    // r10: the operator uses its own account.
    let requests = management.requests()?.into_iter();
    let patches = requests.filter(|request| {
        request.resource == "baremetalhosts" && request.verb == "patch" && request.name == "h0"
    });
    let mut users: Vec<_> = patches.map(|request| request.user).collect();
    users.retain(|user| user != "cluster-api");
    users.dedup();
    let own = "system:serviceaccount:capm3-system:capm3-manager";
    assert_eq!(users, [own]);

    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let host = management
        .wait_for_host("team-a", "h0", "available")
        .await?;
    assert_eq!(host.spec.consumer_ref, None);
    assert!(!host.annotations().contains_key(BLOCK_MOVE));
    let bmc: Secret = management.api("team-a").get("h0-bmc").await?;
    assert!(!bmc.labels().contains_key(CLUSTER_LABEL));
    assert_eq!(
        secrets(management, "team-a").await?,
        ["c-kubeconfig", "m0-bootstrap"]
    );
    Ok(())
}

#[tokio::test]
async fn s04_r35_host_is_paused_with_its_cluster() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let management = scene.management();
    let _bare_metal = hosts_in_management(management).await?;
    management.hosts("team-a", &["h0"]).await?;
    scene.cluster("team-a", "c", json!({}), json!({})).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    management
        .patch::<Cluster>("team-a", "c", pause(true))
        .await?;
    let host: BareMetalHost = management
        .wait_until("team-a", "h0", |host: &BareMetalHost| {
            let annotations = host.annotations();
            annotations.contains_key(PAUSED) && !annotations.contains_key(BLOCK_MOVE)
        })
        .await?;
    assert_eq!(host.annotations()[PAUSED], "metal3.io/capm3");
    let status: serde_json::Value = serde_json::from_str(&host.annotations()[STATUS])?;
    assert_eq!(status["provisioning"]["state"], "provisioned");
    assert_eq!(status["hardware"], json!(null));
    let machine: Metal3Machine = management
        .wait_for_condition("team-a", "m0", "Paused", ("True", "Paused"))
        .await?;
    let message = "Cluster spec.paused is set to true";
    assert_eq!(condition(&machine, "Paused").unwrap()[2], message);

    management
        .patch::<Cluster>("team-a", "c", pause(false))
        .await?;
    management
        .wait_until("team-a", "h0", |host: &BareMetalHost| {
            let annotations = host.annotations();
            annotations.contains_key(BLOCK_MOVE) && !annotations.contains_key(PAUSED)
        })
        .await?;
    management
        .wait_for_condition::<Metal3Machine>("team-a", "m0", "Paused", ("False", "NotPaused"))
        .await?;
    Ok(())
}
