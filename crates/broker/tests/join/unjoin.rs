//! Tests of `unjoin`.

use std::time::Duration;

use insula_broker::Error;
use insula_broker::cluster_id::ClusterId;
use insula_broker::globalnet::{Allocations, CLUSTERSET_IP_INFO, GLOBALNET_INFO};
use insula_broker::info::BrokerInfo;
use insula_broker::join::{JoinClients, join};
use insula_broker::names::{self, OPERATOR_NAMESPACE};
use insula_broker::report::Silent;
use insula_broker::unjoin::{Removal, UnjoinClients, UnjoinSettings, check, unjoin};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::stage::*;

const CLUSTER: (&str, &str, &str) = ("v1", "Cluster", "clusters");
const ENDPOINT: (&str, &str, &str) = ("v1", "Endpoint", "endpoints");

fn leaving(info: &BrokerInfo, id: Option<&str>) -> UnjoinSettings {
    UnjoinSettings {
        url: info.url.clone(),
        namespace: info.namespace.clone().unwrap(),
        cluster_id: id.map(|id| id.parse().unwrap()),
        timeout: Duration::from_secs(10),
    }
}

fn of_join(clients: &JoinClients) -> UnjoinClients {
    UnjoinClients {
        broker: clients.broker.clone(),
        member: Some(clients.joining.clone()),
    }
}

async fn leave(clients: &UnjoinClients, settings: &UnjoinSettings) -> Result<Removal, Error> {
    let removal = check(clients, settings).await?;
    unjoin(clients, settings, &removal, &Silent).await?;
    Ok(removal)
}

fn id(text: &str) -> Option<ClusterId> {
    Some(text.parse().unwrap())
}

/// Publishes an object of a cluster as its pods do.
async fn publish(
    client: &Client,
    (version, kind, plural): (&str, &str, &str),
    name: &str,
    cluster: &str,
) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk("submariner.io", version, kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "n", &kind);
    let data = json!({"spec": {"cluster_id": cluster}});
    let object = DynamicObject::new(name, &kind).data(data);
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn publish_slice(client: &Client, cluster: &str) -> anyhow::Result<()> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "n");
    let slice = serde_json::from_value(json!({
        "metadata": {
            "name": format!("s-{cluster}"),
            "labels": {"multicluster.kubernetes.io/source-cluster": cluster},
        },
        "addressType": "IPv4", "endpoints": [],
    }))?;
    slices.create(&PostParams::default(), &slice).await?;
    Ok(())
}

/// The clusters with addresses, of both ConfigMaps.
async fn addresses(system: &Client) -> anyhow::Result<[Vec<String>; 2]> {
    let maps: Api<ConfigMap> = Api::namespaced(system.clone(), "n");
    let mut found = [Vec::new(), Vec::new()];
    for (name, clusters) in [GLOBALNET_INFO, CLUSTERSET_IP_INFO].iter().zip(&mut found) {
        let allocations = Allocations::read(&maps.get(name).await?)?;
        let ids = allocations.clusters.into_iter();
        *clusters = ids.map(|cluster| cluster.cluster_id).collect();
    }
    Ok(found)
}

/// The names of the members' objects at the broker.
async fn at_broker(system: &Client) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let all = ListParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(system.clone(), "n");
    names.extend(accounts.list(&all).await?.iter().map(ResourceExt::name_any));
    let bindings: Api<RoleBinding> = Api::namespaced(system.clone(), "n");
    names.extend(bindings.list(&all).await?.iter().map(ResourceExt::name_any));
    let secrets: Api<Secret> = Api::namespaced(system.clone(), "n");
    let secrets = secrets.list(&all).await?;
    let of = secrets
        .iter()
        .map(|secret| &secret.annotations()["kubernetes.io/service-account.name"]);
    names.extend(of.map(|account| format!("token of {account}")));
    let slices: Api<EndpointSlice> = Api::namespaced(system.clone(), "n");
    names.extend(slices.list(&all).await?.iter().map(ResourceExt::name_any));
    names.retain(|name| name.contains("east") || name.contains("west"));
    names.sort();
    Ok(names)
}

#[tokio::test(flavor = "multi_thread")]
async fn unjoin_removes_what_join_created_and_may_be_repeated() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let system = stage.system()?;
    stage.define(&system, "v1", "endpoints", "Endpoint").await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let east = stage.both(&info, "c0").await?;
    let west = stage.both(&info, "c1").await?;
    join(&east, &settings(&info, "east"), &Silent).await?;
    join(&west, &settings(&info, "west"), &Silent).await?;
    for cluster in ["east", "west"] {
        publish(&system, CLUSTER, cluster, cluster).await?;
        publish(&system, ENDPOINT, &format!("{cluster}-cable"), cluster).await?;
        publish_slice(&system, cluster).await?;
    }

    let removal = leave(&of_join(&east), &leaving(&info, None)).await?;
    assert_eq!(
        (removal.cluster_id, removal.namespace.as_str()),
        (id("east"), "n")
    );
    assert_eq!(
        at_broker(&system).await?,
        [
            "cluster-west",
            "cluster-west-submariner-k8s-broker-cluster",
            "s-west",
            "token of cluster-west",
        ]
    );
    for (kind, name, there) in [
        (CLUSTER, "east", false),
        (ENDPOINT, "east-cable", false),
        (CLUSTER, "west", true),
        (ENDPOINT, "west-cable", true),
    ] {
        assert_eq!(
            object(&system, kind, "n", name).await?.is_some(),
            there,
            "{name}"
        );
    }
    assert_eq!(addresses(&system).await?, [["west"], ["west"]]);
    let namespaces: Api<Namespace> = Api::all(east.joining.clone());
    assert_eq!(namespaces.get_opt(OPERATOR_NAMESPACE).await?, None);
    let other: Option<Value> =
        object(&west.joining, SUBMARINER, OPERATOR_NAMESPACE, "submariner").await?;
    assert!(other.is_some(), "the other cluster stays a member");

    let removal = leave(&of_join(&east), &leaving(&info, None)).await?;
    assert_eq!(removal.cluster_id, None, "nothing is left to remove");
    let joined = join(&east, &settings(&info, "east"), &Silent).await?;
    assert_eq!(
        joined.global_cidr.as_deref(),
        Some("242.0.0.0/16"),
        "released before"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_unjoin_is_completed_by_the_next() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let clients = stage.both(&info, "c0").await?;
    join(&clients, &settings(&info, "east"), &Silent).await?;
    // The cluster no longer says which ID it had; the broker does.
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", "Submariner");
    let kind = ApiResource::from_gvk_with_plural(&kind, "submariners");
    let objects: Api<DynamicObject> =
        Api::namespaced_with(clients.joining.clone(), OPERATOR_NAMESPACE, &kind);
    objects
        .delete("submariner", &DeleteParams::default())
        .await?;
    let removal = leave(&of_join(&clients), &leaving(&info, None)).await?;
    assert_eq!(removal.cluster_id, id("east"));
    assert_eq!(at_broker(&stage.system()?).await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_of_others_stays_without_the_credentials() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let clients = stage.both(&info, "c0").await?;
    let namespaces: Api<Namespace> = Api::all(clients.joining.clone());
    let own = Namespace {
        metadata: named(OPERATOR_NAMESPACE),
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &own).await?;
    join(&clients, &settings(&info, "east"), &Silent).await?;
    leave(&of_join(&clients), &leaving(&info, Some("east"))).await?;
    namespaces.get(OPERATOR_NAMESPACE).await?;
    let secrets: Api<Secret> = Api::namespaced(clients.joining, OPERATOR_NAMESPACE);
    for name in ["submariner-broker-secret", names::PSK] {
        assert_eq!(secrets.get_opt(name).await?, None);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_members_and_other_clustersets_are_not_touched() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let foreign = stage.deploy("m", Wanted::default()).await?;
    let east = stage.both(&info, "c0").await?;
    join(&east, &settings(&info, "east"), &Silent).await?;
    let before = at_broker(&stage.system()?).await?;

    // The file of another ClusterSet, or another ID.
    let clients = UnjoinClients {
        broker: stage.broker(&foreign)?,
        member: Some(east.joining.clone()),
    };
    let (refused, hint) = error_and_hint(leave(&clients, &leaving(&foreign, None)).await);
    assert_eq!(
        refused,
        "this cluster is a member of another ClusterSet: as east, through namespace n"
    );
    assert_eq!(
        hint,
        "use the broker-info file of that ClusterSet, and its --clusterid or none"
    );
    let (refused, _) = error_and_hint(leave(&of_join(&east), &leaving(&info, Some("west"))).await);
    assert!(
        refused.contains("as east, through namespace n"),
        "{refused}"
    );

    // Another cluster cannot remove it by its ID.
    let other = UnjoinClients {
        broker: stage.broker(&info)?,
        member: Some(stage.cluster("c1").await?),
    };
    let (refused, hint) = error_and_hint(leave(&other, &leaving(&info, Some("east"))).await);
    assert_eq!(
        refused,
        "this cluster is not a member, and is not known to be east"
    );
    assert_eq!(
        hint,
        "if cluster ID and file are right, --broker-only removes the cluster from the broker"
    );
    assert_eq!(at_broker(&stage.system()?).await?, before);

    // A cluster that is gone is removed by its ID alone.
    let gone = UnjoinClients {
        broker: stage.broker(&info)?,
        member: None,
    };
    leave(&gone, &leaving(&info, Some("east"))).await?;
    assert_eq!(at_broker(&stage.system()?).await?, [""; 0]);
    let (refused, _) = error_and_hint(leave(&gone, &leaving(&info, None)).await);
    assert_eq!(refused, "a cluster that is gone needs --clusterid");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn object_that_is_held_is_named_and_the_broker_keeps_the_cluster() -> anyhow::Result<()> {
    let stage = Stage::start().await?;
    let info = stage.deploy("n", Wanted::default()).await?;
    let clients = stage.both(&info, "c0").await?;
    join(&clients, &settings(&info, "east"), &Silent).await?;
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", "Submariner");
    let kind = ApiResource::from_gvk_with_plural(&kind, "submariners");
    let objects: Api<DynamicObject> =
        Api::namespaced_with(clients.joining.clone(), OPERATOR_NAMESPACE, &kind);
    let mut held = objects.get("submariner").await?;
    held.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    objects
        .replace("submariner", &PostParams::default(), &held)
        .await?;
    let impatient = UnjoinSettings {
        timeout: Duration::from_secs(1),
        ..leaving(&info, None)
    };
    let (refused, _) = error_and_hint(leave(&of_join(&clients), &impatient).await);
    assert_eq!(
        refused,
        "deleting Submariner submariner takes longer than 1s: its finalizers are example.com/held"
    );
    assert_eq!(at_broker(&stage.system()?).await?.len(), 3);
    Ok(())
}
