//! The addresses that a cluster gets when it joins.

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

/// How often others may be faster. Each time one of them has got its addresses, so that this
/// is how many clusters may join at the same moment.
const TRIES: usize = 200;

/// Where addresses of a cluster's services are from.
pub(super) struct Clusterset {
    pub(super) cidr: String,
    /// Whether services get one by themselves.
    pub(super) enabled: bool,
}

/// What a ConfigMap says of a cluster that joins.
struct Terms {
    /// Where its addresses are from.
    range: Cidr,
    /// How many it gets, or which.
    wish: Wish,
    /// Whether they are in use by themselves.
    enabled: bool,
}

/// Whether what was asked for can be, before anything is done.
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

/// Global addresses for a cluster, if its ClusterSet has them and it wants any.
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

/// Where addresses of a cluster's services are from, if services are what it joins for.
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

/// What was given, with a word about what was wished for instead.
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

/// Gives the cluster addresses on the terms that a ConfigMap sets, and writes them down
/// there, unless somebody else wrote first: then again, on what stands there now.
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
