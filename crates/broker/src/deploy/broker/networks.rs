//! How addresses are given to clusters: kept in the broker's namespace, and made once.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use super::BrokerSettings;
use crate::error::Error;
use crate::globalnet::{ClustersetIp, Globalnet};
use crate::report::Report;

/// Global addresses as they were asked for.
pub(super) fn globalnet(settings: &BrokerSettings) -> Globalnet {
    settings.globalnet.clone().unwrap_or_else(Globalnet::off)
}

/// Addresses of services of the whole set as they were asked for.
pub(super) fn clusterset_ip(settings: &BrokerSettings) -> ClustersetIp {
    let asked = settings.clusterset_ip.clone();
    asked.unwrap_or_else(ClustersetIp::off)
}

/// Judges what is there, and makes what is not. What is there stays: clusters that have
/// joined have addresses of it.
pub(super) async fn ensure(
    client: &Client,
    namespace: &str,
    settings: &BrokerSettings,
    report: &dyn Report,
) -> Result<(), Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let asked = globalnet(settings);
    if let Some(found) = find_or_make(&maps, &asked.config_map(namespace)).await? {
        let in_force = Globalnet::read(&found)?;
        if in_force != asked {
            let (in_force, asked) = (describe(&in_force), describe(&asked));
            report.warn(&stays("Globalnet", &in_force, &asked, &found, namespace));
        }
    }
    let asked = clusterset_ip(settings);
    if let Some(found) = find_or_make(&maps, &asked.config_map(namespace)).await? {
        let in_force = ClustersetIp::read(&found)?;
        if in_force != asked {
            let (in_force, asked) = (describe_ip(&in_force), describe_ip(&asked));
            report.warn(&stays("ClustersetIP", &in_force, &asked, &found, namespace));
        }
    }
    Ok(())
}

/// The ConfigMap that is there; nothing if it was made.
async fn find_or_make(
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
        // Somebody else was faster.
        Err(kube::Error::Api(status)) if status.is_already_exists() => read().await,
        made => {
            made.map_err(Error::when(format!("make ConfigMap {name}")))?;
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

fn stays(what: &str, in_force: &str, asked: &str, found: &ConfigMap, namespace: &str) -> String {
    let name = found.name_any();
    format!(
        "{what} stays as it is ({in_force}), not as asked ({asked}): clusters have joined with it, or may have. To change it, let no cluster be joined, then `kubectl -n {namespace} delete configmap {name}` and deploy the broker again"
    )
}
