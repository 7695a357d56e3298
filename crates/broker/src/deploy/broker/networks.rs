//! The settings of global addresses and ClusterSet IPs in the broker's namespace, which are
//! created once.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::BrokerSettings;
use crate::error::Error;
use crate::globalnet::{ClustersetIp, Globalnet};
use crate::report::Report;

/// The settings that joining clusters get their addresses by.
pub(super) struct InForce {
    pub(super) globalnet: Globalnet,
    pub(super) clusterset_ip: ClustersetIp,
}

/// Returns the requested settings of global addresses.
fn globalnet(settings: &BrokerSettings) -> Globalnet {
    settings
        .globalnet
        .clone()
        .unwrap_or_else(Globalnet::disabled)
}

/// Returns the requested settings of ClusterSet IPs.
fn clusterset_ip(settings: &BrokerSettings) -> ClustersetIp {
    let asked = settings.clusterset_ip.clone();
    asked.unwrap_or_else(ClustersetIp::disabled)
}

/// Validates existing ConfigMaps, creates missing ones, and returns the settings in force.
/// Existing ones stay unchanged: joined clusters have addresses from them.
pub(super) async fn ensure(
    client: &Client,
    namespace: &str,
    settings: &BrokerSettings,
    report: &dyn Report,
) -> Result<InForce, Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let asked = globalnet(settings);
    let globalnet = match find_or_create(&maps, &asked.config_map(namespace)).await? {
        None => asked,
        Some(found) => {
            let in_force = Globalnet::read(&found)?;
            if in_force != asked {
                let (kept, asked) = (describe(&in_force), describe(&asked));
                report.warn(&kept_settings(
                    "Globalnet",
                    &kept,
                    &asked,
                    &found,
                    namespace,
                ));
            }
            in_force
        }
    };
    let asked = clusterset_ip(settings);
    let clusterset_ip = match find_or_create(&maps, &asked.config_map(namespace)).await? {
        None => asked,
        Some(found) => {
            let in_force = ClustersetIp::read(&found)?;
            if in_force != asked {
                let (kept, asked) = (describe_ip(&in_force), describe_ip(&asked));
                report.warn(&kept_settings(
                    "ClustersetIP",
                    &kept,
                    &asked,
                    &found,
                    namespace,
                ));
            }
            in_force
        }
    };
    Ok(InForce {
        globalnet,
        clusterset_ip,
    })
}

/// Returns the existing ConfigMap; `None` if it was created.
async fn find_or_create(
    maps: &Api<ConfigMap>,
    wanted: &ConfigMap,
) -> Result<Option<ConfigMap>, Error> {
    let name = wanted.name_any();
    let read = async || {
        let found = maps.get_opt(&name).await;
        found.map_err(Error::when(format!("read ConfigMap {name}")))
    };
    if let Some(found) = read().await? {
        return Ok(Some(found));
    }
    match maps.create(&PostParams::default(), wanted).await {
        // Another client created it first.
        Err(kube::Error::Api(status)) if status.is_already_exists() => read().await,
        made => {
            made.map_err(Error::when(format!("create ConfigMap {name}")))?;
            Ok(None)
        }
    }
}

fn describe(globalnet: &Globalnet) -> String {
    match globalnet.enabled {
        true => format!(
            "on, {} with {} addresses a cluster",
            globalnet.range, globalnet.cluster_size
        ),
        false => "off".to_owned(),
    }
}

fn describe_ip(clusterset_ip: &ClustersetIp) -> String {
    let switch = match clusterset_ip.enabled {
        true => "on",
        false => "off",
    };
    format!("{switch}, {}", clusterset_ip.range)
}

fn kept_settings(
    what: &str,
    in_force: &str,
    asked: &str,
    found: &ConfigMap,
    namespace: &str,
) -> String {
    let name = found.name_any();
    format!(
        "{what} keeps its settings ({in_force}) instead of the requested ones ({asked}): clusters may have joined with them. To change them, remove all clusters, then `kubectl -n {namespace} delete configmap {name}` and deploy the broker again"
    )
}
