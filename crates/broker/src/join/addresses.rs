//! The allocation of addresses to a joining cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

use super::JoinSettings;
use crate::cidr::Cidr;
use crate::error::Error;
use crate::globalnet::{
    CLUSTERSET_IP_INFO, ClustersetIp, GLOBALNET_INFO, Given, Globalnet, Ledger, Wish,
};
use crate::report::Report;

/// The maximum number of attempts on write conflicts. Each conflict means that another cluster
/// got its addresses, so that this is how many clusters may join at the same time.
const TRIES: usize = 200;

/// The ClusterSet IPs of a cluster.
pub(super) struct Clusterset {
    pub(super) cidr: String,
    /// Whether services get one by default.
    pub(super) enabled: bool,
}

/// The terms of an allocation, from a ConfigMap.
struct Terms {
    /// The range to allocate from.
    range: Cidr,
    /// The requested size or range.
    wish: Wish,
    /// Whether the addresses are used by default.
    enabled: bool,
}

/// Validates the settings before any request is sent.
pub(super) fn agree(settings: &JoinSettings) -> Result<(), Error> {
    match (
        &settings.globalnet_cluster_size,
        &settings.globalnet_cidr,
        settings.globalnet,
    ) {
        (Some(_), Some(_), true) => Err(Error::invalid(
            "only one of cluster size and global CIDR can be specified",
        )),
        _ => Ok(()),
    }
}

/// Allocates global addresses to a cluster, if its ClusterSet has them and it wants any.
pub(super) async fn global(
    broker: &Client,
    settings: &JoinSettings,
    report: &dyn Report,
) -> Result<Option<String>, Error> {
    if !settings.globalnet {
        return Ok(None);
    }
    let (size, wished) = (settings.globalnet_cluster_size, settings.globalnet_cidr);
    let terms = |found: &ConfigMap| {
        let globalnet = Globalnet::said(found)?;
        if !globalnet.enabled {
            return Ok(None);
        }
        let wish = match wished {
            Some(wished) => Wish::Range(wished),
            None => Wish::Size(globalnet.size_for(size)?),
        };
        Ok(Some(Terms {
            range: globalnet.range,
            wish,
            enabled: true,
        }))
    };
    let given = give(broker, settings, GLOBALNET_INFO, terms).await?;
    if given.is_none() && (size.is_some() || wished.is_some()) {
        report.warn(
            "Globalnet is not enabled on the Broker: the cluster size and global CIDR are ignored",
        );
    }
    Ok(given.map(|(given, _)| kept(given, wished, report)))
}

/// Allocates ClusterSet IPs to a cluster, if it joins for service discovery.
pub(super) async fn clusterset(
    broker: &Client,
    settings: &JoinSettings,
    report: &dyn Report,
) -> Result<Option<Clusterset>, Error> {
    if !settings.discovers() {
        return Ok(None);
    }
    let wished = settings.clusterset_ip_cidr;
    let terms = |found: &ConfigMap| {
        let clusterset = ClustersetIp::read(found)?;
        let wish = match wished {
            Some(wished) => Wish::Range(wished),
            None => Wish::Size(ClustersetIp::cluster_size(found)?),
        };
        Ok(Some(Terms {
            range: clusterset.range,
            wish,
            enabled: settings.clusterset_ip.unwrap_or(clusterset.enabled),
        }))
    };
    let given = give(broker, settings, CLUSTERSET_IP_INFO, terms).await?;
    Ok(given.map(|(given, terms)| Clusterset {
        cidr: kept(given, wished, report),
        enabled: terms.enabled,
    }))
}

/// Returns the allocated range; warns if another one was requested.
fn kept(given: Given, wished: Option<Cidr>, report: &dyn Report) -> String {
    let wished = wished.map(|wished| wished.to_string());
    if let Some(wished) = wished.filter(|wished| given.had && *wished != given.range) {
        let range = &given.range;
        report.warn(&format!(
            "The cluster has {range} already: {wished} is ignored"
        ));
    }
    given.range
}

/// Allocates addresses on the terms of a ConfigMap and records them there; starts over with
/// the current content on a write conflict.
async fn give(
    broker: &Client,
    settings: &JoinSettings,
    name: &str,
    terms: impl Fn(&ConfigMap) -> Result<Option<Terms>, Error>,
) -> Result<Option<(Given, Terms)>, Error> {
    let namespace = &settings.info.namespace;
    let maps: Api<ConfigMap> = Api::namespaced(broker.clone(), namespace);
    let attempted = |verb: &str| format!("{verb} ConfigMap {name} in namespace {namespace}");
    let mut tries = TRIES;
    loop {
        let found = maps.get_opt(name).await;
        let found = found.map_err(Error::when(attempted("read")))?;
        let Some(mut found) = found else {
            return Err(Error::NoBroker {
                namespace: namespace.clone(),
                missing: format!("ConfigMap {name}"),
            });
        };
        let Some(terms) = terms(&found)? else {
            return Ok(None);
        };
        let mut ledger = Ledger::read(&found)?;
        ledger.judge(settings.cluster_id.as_str(), name)?;
        let given = ledger.give(settings.cluster_id.as_str(), &terms.range, &terms.wish)?;
        if given.had {
            return Ok(Some((given, terms)));
        }
        ledger.write(&mut found);
        tries -= 1;
        match maps.replace(name, &PostParams::default(), &found).await {
            Ok(_) => return Ok(Some((given, terms))),
            Err(kube::Error::Api(status)) if status.is_conflict() && tries > 0 => {}
            Err(error) => return Err(Error::when(attempted("write"))(error)),
        }
    }
}
