//! The ConfigMaps of addresses.

use insula_broker::deploy::broker::BrokerSettings;
use insula_broker::globalnet::{ClustersetIp, Globalnet};
use insula_broker::report::Silent;
use serde_json::json;

use super::fixture::Scene;
use crate::scene::Told;

const NAMESPACE: &str = "submariner-k8s-broker";
const GLOBALNET: &str = "submariner-globalnet-info";
const CLUSTERSET_IP: &str = "submariner-clustersetip-info";

fn globalnet(range: &str, size: u32) -> Option<Globalnet> {
    Some(Globalnet::validate(true, range, size).expect("it can be"))
}

#[tokio::test]
async fn r73_r74_both_config_maps_are_created_as_requested() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let settings = BrokerSettings {
        globalnet: globalnet("242.0.0.0/16", 1000),
        clusterset_ip: Some(ClustersetIp::validate(true, "243.1.0.0/16")?),
        ..scene.settings()
    };
    scene.deploy(&settings, &Silent).await?;
    let map = scene.get("configmaps", NAMESPACE, GLOBALNET).await?;
    let data = json!({"globalnetEnabled": "true", "globalnetCidrRange": "\"242.0.0.0/16\"", "globalnetClusterSize": "1024"});
    assert_eq!(map["data"], data);
    assert_eq!(
        map["metadata"]["labels"],
        json!({"component": "submariner-globalnet"})
    );
    let map = scene.get("configmaps", NAMESPACE, CLUSTERSET_IP).await?;
    let data = json!({"clustersetIPEnabled": "true", "clustersetIPCidrRange": "\"243.1.0.0/16\"", "clustersetIPClusterSize": "0"});
    assert_eq!(map["data"], data);
    let broker = scene.get("brokers", NAMESPACE, "submariner-broker").await?;
    let spec = json!({
        "components": ["connectivity", "service-discovery"],
        "globalnetEnabled": true, "globalnetCIDRRange": "242.0.0.0/16", "defaultGlobalnetClusterSize": 1024,
        "clustersetIPEnabled": true, "clustersetIPCIDRRange": "243.1.0.0/16",
    });
    assert_eq!(broker["spec"], spec);
    Ok(())
}

#[tokio::test]
async fn r73_existing_settings_are_kept_with_a_warning() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let settings = BrokerSettings {
        globalnet: globalnet("242.0.0.0/16", 1024),
        ..scene.settings()
    };
    scene.deploy(&settings, &Silent).await?;
    // A cluster has joined.
    scene
        .edit(("configmaps", NAMESPACE, GLOBALNET), |map| {
            map["data"]["clusterinfo"] =
                json!("[\n\t{\"cluster_id\":\"east\",\"global_cidr\":[\"242.0.0.0/22\"]}\n]");
        })
        .await?;
    let joined = scene.get("configmaps", NAMESPACE, GLOBALNET).await?;
    let told = Told::default();
    scene.deploy(&settings, &told).await?;
    assert_eq!(told.warnings().len(), 1, "{:?}", told.warnings());
    let told = Told::default();
    let other = BrokerSettings {
        globalnet: globalnet("242.0.0.0/8", 65536),
        clusterset_ip: Some(ClustersetIp::validate(true, "243.0.0.0/8")?),
        ..scene.settings()
    };
    scene.deploy(&other, &told).await?;
    assert_eq!(scene.get("configmaps", NAMESPACE, GLOBALNET).await?, joined);
    let warnings = told.warnings();
    let expected = [
        "Globalnet keeps its settings (on, 242.0.0.0/16 with 1024 addresses a cluster) instead of the requested ones (on, 242.0.0.0/8 with 65536 addresses a cluster): clusters may have joined with them. To change them, remove all clusters, then `kubectl -n submariner-k8s-broker delete configmap submariner-globalnet-info` and deploy the broker again",
        "ClustersetIP keeps its settings (off, 243.0.0.0/8) instead of the requested ones (on, 243.0.0.0/8): clusters may have joined with them. To change them, remove all clusters, then `kubectl -n submariner-k8s-broker delete configmap submariner-clustersetip-info` and deploy the broker again",
    ];
    // The first warning is about the key.
    assert_eq!(warnings[1..], expected);
    Ok(())
}

#[tokio::test]
async fn broker_shows_the_settings_in_force_after_a_second_deployment() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let first = BrokerSettings {
        globalnet: globalnet("242.0.0.0/16", 1024),
        clusterset_ip: Some(ClustersetIp::validate(true, "243.1.0.0/16")?),
        ..scene.settings()
    };
    scene.deploy(&first, &Silent).await?;
    let deployed = scene.get("brokers", NAMESPACE, "submariner-broker").await?;
    // Without the flags of the first deployment, which asks for other settings.
    scene.deploy(&scene.settings(), &Silent).await?;
    let again = scene.get("brokers", NAMESPACE, "submariner-broker").await?;
    assert_eq!(again["spec"], deployed["spec"]);
    let rows = insula_broker::show::brokers(&scene.admin, Some(NAMESPACE), &Silent).await?;
    assert_eq!(
        rows[0].cells[3..6],
        ["yes", "242.0.0.0/16", "1024"],
        "as the ConfigMap, which joins use"
    );
    Ok(())
}

#[tokio::test]
async fn r73_invalid_config_map_is_an_error_only_if_enabled() -> anyhow::Result<()> {
    for (data, problem) in [
        (
            json!({"globalnetEnabled": "true", "globalnetCidrRange": "\"127.0.0.0/8\"", "globalnetClusterSize": "8"}),
            Some("invalid GlobalnetCidrRange"),
        ),
        (
            json!({"globalnetEnabled": "true"}),
            Some("invalid GlobalnetCidrRange"),
        ),
        (
            json!({"globalnetEnabled": "false", "globalnetCidrRange": "nonsense"}),
            None,
        ),
    ] {
        let scene = Scene::empty().await?;
        scene
            .put(
                "namespaces",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            )
            .await?;
        scene.put("configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": GLOBALNET, "namespace": NAMESPACE}, "data": data})).await?;
        let deployed = scene.deploy(&scene.settings(), &Silent).await;
        match (deployed, problem) {
            (Ok(_), None) => {}
            (Err(error), Some(problem)) => {
                assert!(error.to_string().contains(problem), "{error}");
                assert!(!scene.settings().output.exists());
            }
            (deployed, problem) => panic!("{deployed:?} {problem:?}"),
        }
    }
    Ok(())
}
