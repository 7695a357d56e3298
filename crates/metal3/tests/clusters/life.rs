//! Clusters without an identity, their pauses and their deletion.

use insula_capi::Cluster;
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::kinds::machine::Metal3Machine;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::basics::{INFRASTRUCTURE, identity, problem, ready};
use crate::world::{World, condition, eventually};

#[tokio::test]
async fn s04_r10_cluster_without_identity_needs_no_hosts_and_no_secret() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    management.cluster("team-a", "prod", json!({})).await?;
    let cluster = ready(management, "team-a", "prod").await?;
    assert_eq!(condition(&cluster, "Ready"), Some(["True", "Ready", ""]));
    management
        .wait_until("team-a", "prod", Cluster::is_infrastructure_provisioned)
        .await?;
    assert!(world.hosts.users_of("baremetalhosts")?.is_empty());
    let requests = management.requests()?;
    let hosts = requests
        .iter()
        .filter(|one| one.resource == "baremetalhosts");
    assert_eq!(hosts.count(), 0);
    Ok(())
}

#[tokio::test]
async fn cluster_without_endpoint_is_not_ready() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    let spec = json!({"controlPlaneEndpoint": null});
    management.cluster("team-a", "prod", spec).await?;
    let message = problem(management, "team-a", "prod", "InvalidConfiguration").await?;
    assert_eq!(
        message,
        "spec.controlPlaneEndpoint has no host or no port: set both, because bare-metal clusters \
         bring their own load balancer or virtual address"
    );
    let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "192.0.2.9", "port": 6443}}});
    management
        .patch::<Metal3Cluster>("team-a", "prod", endpoint)
        .await?;
    ready(management, "team-a", "prod").await?;
    Ok(())
}

#[tokio::test]
async fn r40_reserved_name_of_a_secret_is_warned_of() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    world
        .identity("team-a", "prod-kubeconfig", ("user-a", "pool-a"))
        .await?;
    management
        .cluster("team-a", "prod", identity("prod-kubeconfig"))
        .await?;
    let warning = "identityRef names Secret prod-kubeconfig, which Cluster API reserves for the \
                   kubeconfig of cluster prod; use another name, such as prod-bmh-identity";
    let cluster = ready(management, "team-a", "prod").await?;
    let expected = Some(["True", "Ready", warning]);
    assert_eq!(condition(&cluster, INFRASTRUCTURE), expected);
    let event = management.event("team-a", "prod", "Ready").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.note.as_deref(), Some(warning));
    Ok(())
}

#[tokio::test]
async fn paused_cluster_is_left_alone() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    for name in ["by-cluster", "by-annotation"] {
        management
            .cluster("team-a", name, identity("hosts"))
            .await?;
        ready(management, "team-a", name).await?;
    }
    let paused = |value: Value| json!({"spec": {"paused": value}});
    management
        .patch::<Cluster>("team-a", "by-cluster", paused(json!(true)))
        .await?;
    let annotated =
        |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    management
        .patch::<Metal3Cluster>("team-a", "by-annotation", annotated(json!("")))
        .await?;
    let names = ["by-cluster", "by-annotation"];
    for name in names {
        management
            .wait_for_condition::<Metal3Cluster>("team-a", name, "Paused", ("True", "Paused"))
            .await?;
    }
    // A third cluster shows when the operator has seen that the Secret is gone.
    management
        .cluster("team-a", "running", identity("hosts"))
        .await?;
    ready(management, "team-a", "running").await?;
    management.delete::<Secret>("team-a", "hosts").await?;
    problem(management, "team-a", "running", "IdentitySecretNotFound").await?;
    for name in names {
        let cluster = management.api::<Metal3Cluster>("team-a").get(name).await?;
        let expected = Some(["True", "Ready", ""]);
        assert_eq!(condition(&cluster, INFRASTRUCTURE), expected, "{name}");
    }
    management
        .patch::<Cluster>("team-a", "by-cluster", paused(json!(false)))
        .await?;
    management
        .patch::<Metal3Cluster>("team-a", "by-annotation", annotated(Value::Null))
        .await?;
    for name in names {
        problem(management, "team-a", name, "IdentitySecretNotFound").await?;
    }
    Ok(())
}

#[tokio::test]
async fn deleted_cluster_waits_for_its_machines_and_needs_no_credential() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    management
        .cluster("team-a", "prod", identity("hosts"))
        .await?;
    ready(management, "team-a", "prod").await?;
    // A finalizer of the test keeps the machine. One of another cluster does not count.
    for (name, cluster) in [("m", "prod"), ("other", "staging")] {
        let machine = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
            "metadata": {
                "name": name, "namespace": "team-a", "finalizers": ["test.insula/keep"],
                "labels": {"cluster.x-k8s.io/cluster-name": cluster},
            },
            "spec": {"image": {"url": "http://i", "checksum": "c"}},
        });
        management.put(&machine).await?;
    }
    management.delete::<Secret>("team-a", "hosts").await?;
    problem(management, "team-a", "prod", "IdentitySecretNotFound").await?;
    management.delete::<Cluster>("team-a", "prod").await?;
    management
        .wait_until("team-a", "prod", |cluster: &Metal3Cluster| {
            cluster.metadata.deletion_timestamp.is_some()
        })
        .await?;
    // The operator has looked for machines after that.
    eventually(async || {
        let requests = management.requests()?;
        let deleted = requests.iter().position(|one| {
            one.verb == "delete" && one.resource == "metal3clusters" && one.name == "prod"
        });
        let later = requests.iter().skip(deleted.unwrap_or(requests.len()));
        let mut looked = later.filter(|one| {
            one.user == "system:serviceaccount:capm3-system:capm3-manager"
                && (one.verb.as_str(), one.resource.as_str()) == ("list", "metal3machines")
                && one.namespace == "team-a"
        });
        Ok(looked.next().cloned())
    })
    .await?;
    let cluster = management
        .api::<Metal3Cluster>("team-a")
        .get("prod")
        .await?;
    assert_eq!(cluster.finalizers().len(), 1);

    management.delete::<Metal3Machine>("team-a", "m").await?;
    let release = json!({"metadata": {"finalizers": null}});
    management
        .patch::<Metal3Machine>("team-a", "m", release)
        .await?;
    management
        .wait_until_gone::<Metal3Cluster>("team-a", "prod")
        .await?;
    management
        .wait_until_gone::<Cluster>("team-a", "prod")
        .await?;
    let other = management
        .api::<Metal3Machine>("team-a")
        .get("other")
        .await?;
    assert_eq!(other.metadata.deletion_timestamp, None);
    Ok(())
}

#[tokio::test]
async fn externally_managed_cluster_is_not_touched() -> anyhow::Result<()> {
    let world = World::new().await?;
    let management = &world.management;
    management.cluster("team-a", "foreign", json!({})).await?;
    let annotation = json!({"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "x"}}});
    management
        .patch::<Metal3Cluster>("team-a", "foreign", annotation)
        .await?;
    let _running = world.start();
    management.cluster("team-a", "own", json!({})).await?;
    ready(management, "team-a", "own").await?;
    let cluster = management
        .api::<Metal3Cluster>("team-a")
        .get("foreign")
        .await?;
    assert_eq!(cluster.status, None);
    assert!(cluster.finalizers().is_empty());
    Ok(())
}
