//! The allocation of addresses to a joining cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};

use super::settings::JoinSettings;
use crate::cidr::Cidr;
use crate::error::Error;
use crate::globalnet::{
    Allocated, AllocationRequest, Allocations, CLUSTERSET_IP_INFO, ClustersetIp, GLOBALNET_INFO,
    Globalnet,
};
use crate::report::Report;

/// The maximum number of attempts on write conflicts. Each conflict means that another cluster
/// got its addresses, so that this is how many clusters may join at the same time.
const MAX_ATTEMPTS: usize = 200;

/// The addresses that a cluster was allocated.
#[derive(Default)]
pub(super) struct Addresses {
    pub(super) global: Option<String>,
    pub(super) clusterset: Option<Clusterset>,
}

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
    request: AllocationRequest,
    /// Whether the addresses are used by default.
    enabled: bool,
}

/// Validates the settings before any request is sent.
pub(super) fn validate(settings: &JoinSettings) -> Result<(), Error> {
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
    let (size, requested) = (settings.globalnet_cluster_size, settings.globalnet_cidr);
    let terms = |found: &ConfigMap| {
        let globalnet = Globalnet::read_unvalidated(found)?;
        if !globalnet.enabled {
            return Ok(None);
        }
        let request = match requested {
            Some(requested) => AllocationRequest::Range(requested),
            None => AllocationRequest::Size(globalnet.size_for(size)?),
        };
        Ok(Some(Terms {
            range: globalnet.range,
            request,
            enabled: true,
        }))
    };
    let allocated = allocate(broker, settings, GLOBALNET_INFO, terms).await?;
    if allocated.is_none() && (size.is_some() || requested.is_some()) {
        report.warn(
            "Globalnet is not enabled on the Broker: the cluster size and global CIDR are ignored",
        );
    }
    Ok(allocated.map(|(allocated, _)| allocated_range(allocated, requested, report)))
}

/// Allocates ClusterSet IPs to a cluster, if it joins for service discovery.
pub(super) async fn clusterset(
    broker: &Client,
    settings: &JoinSettings,
    report: &dyn Report,
) -> Result<Option<Clusterset>, Error> {
    if !settings.has_service_discovery() {
        return Ok(None);
    }
    let requested = settings.clusterset_ip_cidr;
    let terms = |found: &ConfigMap| {
        let clusterset = ClustersetIp::read(found)?;
        let request = match requested {
            Some(requested) => AllocationRequest::Range(requested),
            None => AllocationRequest::Size(ClustersetIp::cluster_size(found)?),
        };
        Ok(Some(Terms {
            range: clusterset.range,
            request,
            enabled: settings.clusterset_ip.unwrap_or(clusterset.enabled),
        }))
    };
    let allocated = allocate(broker, settings, CLUSTERSET_IP_INFO, terms).await?;
    Ok(allocated.map(|(allocated, terms)| Clusterset {
        cidr: allocated_range(allocated, requested, report),
        enabled: terms.enabled,
    }))
}

/// Returns the allocated range; warns if another one was requested.
fn allocated_range(allocated: Allocated, requested: Option<Cidr>, report: &dyn Report) -> String {
    let requested = requested.map(|requested| requested.to_string());
    if let Some(requested) =
        requested.filter(|requested| allocated.existing && *requested != allocated.range)
    {
        let range = &allocated.range;
        report.warn(&format!(
            "The cluster has {range} already: {requested} is ignored"
        ));
    }
    allocated.range
}

/// Allocates addresses on the terms of a ConfigMap and records them there; starts over with
/// the current content on a write conflict.
async fn allocate(
    broker: &Client,
    settings: &JoinSettings,
    name: &str,
    terms: impl Fn(&ConfigMap) -> Result<Option<Terms>, Error>,
) -> Result<Option<(Allocated, Terms)>, Error> {
    let namespace = &settings.info.namespace;
    let maps: Api<ConfigMap> = Api::namespaced(broker.clone(), namespace);
    let attempted = |verb: &str| format!("{verb} ConfigMap {name} in namespace {namespace}");
    let mut attempts = MAX_ATTEMPTS;
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
        let mut allocations = Allocations::read(&found)?;
        allocations.validate(settings.cluster_id.as_str(), name)?;
        let allocated =
            allocations.allocate(settings.cluster_id.as_str(), &terms.range, &terms.request)?;
        if allocated.existing {
            return Ok(Some((allocated, terms)));
        }
        allocations.write(&mut found);
        attempts -= 1;
        match maps.replace(name, &PostParams::default(), &found).await {
            Ok(_) => return Ok(Some((allocated, terms))),
            Err(kube::Error::Api(status)) if status.is_conflict() && attempts > 0 => {}
            Err(error) => return Err(Error::when(attempted("write"))(error)),
        }
    }
}
