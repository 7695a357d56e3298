//! Clusters with and without an identity.

use insula_capi::Cluster;
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::names::CLUSTER_FINALIZER;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{Management, World, condition};

/// The condition about hosts and endpoint.
pub const INFRASTRUCTURE: &str = "BaremetalInfrastructureReady";

/// Returns the spec of a cluster with this identity.
pub fn identity(name: &str) -> Value {
    json!({"identityRef": {"name": name}})
}

/// Waits until a cluster is ready.
pub async fn ready(
    management: &Management,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Metal3Cluster> {
    let expected = ("True", "Ready");
    management
        .wait_for_condition(namespace, name, INFRASTRUCTURE, expected)
        .await
}

/// Waits until a cluster has a problem, and returns the message of that.
pub async fn problem(
    management: &Management,
    namespace: &str,
    name: &str,
    reason: &str,
) -> anyhow::Result<String> {
    let expected = ("False", reason);
    let cluster: Metal3Cluster = management
        .wait_for_condition(namespace, name, INFRASTRUCTURE, expected)
        .await?;
    let [status, summary, message] = condition(&cluster, "Ready").unwrap();
    assert_eq!((status, summary), ("False", "NotReady"));
    let [_, _, own] = condition(&cluster, INFRASTRUCTURE).unwrap();
    assert!(message.contains(own), "{message}");
    Ok(own.to_owned())
}

#[tokio::test]
async fn s03_cluster_is_ready_after_its_credential_is_verified() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    management
        .cluster("team-a", "prod", identity("hosts"))
        .await?;
    let cluster = ready(management, "team-a", "prod").await?;
    assert_eq!(cluster.finalizers(), [CLUSTER_FINALIZER]);
    assert_eq!(condition(&cluster, "Ready"), Some(["True", "Ready", ""]));
    assert_eq!(
        condition(&cluster, "Paused").unwrap()[..2],
        ["False", "NotPaused"]
    );
    management
        .wait_until("team-a", "prod", Cluster::is_infrastructure_provisioned)
        .await?;
    management.event("team-a", "prod", "Ready").await?;

    // Hosts are accessed by the kubeconfig's user alone, in its namespace, without any write.
    let requests = world.hosts.requests_by("user-a")?;
    let requests: Vec<_> = requests.iter().map(String::as_str).collect();
    let expected = [
        "create selfsubjectaccessreviews ",
        "list baremetalhosts pool-a",
        "watch baremetalhosts pool-a",
    ];
    assert_eq!(requests, expected);
    let user = world.hosts.user_name("user-a");
    let users: Vec<_> = world
        .hosts
        .users_of("baremetalhosts")?
        .into_iter()
        .collect();
    assert_eq!(users, [user]);
    assert!(world.hosts.users_of("secrets")?.is_empty());
    Ok(())
}

#[tokio::test]
async fn r04_secret_of_another_namespace_is_not_used() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    world
        .identity("team-b", "hosts", ("user-b", "pool-b"))
        .await?;
    management
        .cluster("team-a", "prod", identity("hosts"))
        .await?;
    let message = problem(management, "team-a", "prod", "IdentitySecretNotFound").await?;
    let expected = "the Secret hosts does not exist in namespace team-a: create it there, with a \
                    kubeconfig under the key kubeconfig; Secrets of other namespaces are never used";
    assert_eq!(message, expected);
    assert!(world.hosts.users_of("baremetalhosts")?.is_empty());
    Ok(())
}
