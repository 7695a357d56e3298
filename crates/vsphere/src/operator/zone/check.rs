//! Checks the inventory for a zone.

use super::conclude::Missing;
use crate::kinds::{VSphereDeploymentZone, VSphereFailureDomain};
use crate::vcenter::{Error, NotLocated, Object, Place, Session};

/// Returns what a zone and its failure domain name and the inventory lacks. Tags are not checked:
/// they are not available over the SOAP API.
pub(super) async fn check(
    session: &Session,
    zone: &VSphereDeploymentZone,
    domain: Option<&VSphereFailureDomain>,
) -> Result<Missing, Error> {
    let mut found = Missing::default();
    let Some(domain) = domain else {
        let name = &zone.spec.failure_domain;
        found.domain = Some(format!("there is no VSphereFailureDomain {name}"));
        found.constraint = Some("its datacenter is not known".to_owned());
        return Ok(found);
    };
    let topology = &domain.spec.topology;
    let datacenter = match session.datacenter(text(&topology.datacenter)).await {
        Ok(datacenter) => datacenter,
        Err(NotLocated::Error(error)) => return Err(error),
        Err(missing) => {
            found.domain = Some(missing.to_string());
            found.constraint = Some("its datacenter is not known".to_owned());
            return Ok(found);
        }
    };
    let constraint = &zone.spec.placement_constraint;
    let named = [
        (Place::ResourcePool, constraint.resource_pool.as_deref()),
        (Place::Folder, constraint.folder.as_deref()),
    ];
    found.constraint = missing(session, &datacenter, &named).await?;
    let mut named = vec![
        (Place::ComputeCluster, topology.compute_cluster.as_deref()),
        (Place::Datastore, topology.datastore.as_deref()),
    ];
    for network in &topology.networks {
        named.push((Place::Network, Some(network)));
    }
    found.domain = missing(session, &datacenter, &named).await?;
    Ok(found)
}

/// Returns the first of these that is named and does not exist.
async fn missing(
    session: &Session,
    datacenter: &Object,
    named: &[(Place, Option<&str>)],
) -> Result<Option<String>, Error> {
    for (what, name) in named {
        let Some(name) = name.and_then(text) else {
            continue;
        };
        match session.locate(*what, datacenter, Some(name)).await {
            Ok(_) => {}
            Err(NotLocated::Error(error)) => return Err(error),
            Err(missing) => return Ok(Some(missing.to_string())),
        }
    }
    Ok(None)
}

fn text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
