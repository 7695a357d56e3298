//! The pools that a template needs an address of.

use std::collections::BTreeMap;

use super::sources::{RenderError, Sources, set};
use crate::ipam::contract::PoolReference;
use crate::kinds::data_template::{
    AnnotationSource, GatewaySource, Metal3DataTemplateSpec, PoolNetwork, PoolSource, Route,
    Services,
};
use crate::names::IPAM_GROUP;

/// The kind of Metal3's pools.
const POOL_KIND: &str = "IPPool";

/// The kind of claim that a pool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// `IPClaim` of Metal3.
    Metal3,
    /// `IPAddressClaim` of Cluster API.
    Other,
}

impl PoolKind {
    /// Returns the kind of claim for a pool.
    pub fn of(pool: &PoolReference) -> Self {
        let is_metal3 = pool.api_group.as_deref() == Some(IPAM_GROUP) && pool.kind == POOL_KIND;
        if is_metal3 { Self::Metal3 } else { Self::Other }
    }
}

/// Returns the name of the claim on a pool for an object with data.
pub fn claim_name(data: &str, pool: &str) -> String {
    format!("{data}-{pool}")
}

/// Returns the pools that a template refers to, by name. Each needs one claim, whatever is
/// rendered of its address.
///
/// # Errors
///
/// If an annotation with the name of a pool is missing, or two kinds of pools have one name.
pub fn pools(
    template: &Metal3DataTemplateSpec,
    sources: &Sources<'_>,
) -> Result<BTreeMap<String, PoolReference>, RenderError> {
    let mut pools = Pools::default();
    if let Some(metadata) = &template.meta_data {
        let lists = [
            &metadata.ip_addresses_from_pool,
            &metadata.prefixes_from_pool,
            &metadata.gateways_from_pool,
            &metadata.dns_servers_from_pool,
        ];
        for item in lists.into_iter().flatten() {
            pools.add(reference(&item.name, &item.api_group, &item.kind))?;
        }
    }
    let network = template.network_data.as_ref();
    if let Some(networks) = network.and_then(|network| network.networks.as_ref()) {
        for network in networks.ipv4.iter().chain(&networks.ipv6) {
            pools.add(pool_of_network(network, sources)?)?;
            pools.add_routes(&network.routes, sources)?;
        }
        let dynamic = [
            &networks.ipv4_dhcp,
            &networks.ipv6_dhcp,
            &networks.ipv6_slaac,
        ];
        for network in dynamic.into_iter().flatten() {
            pools.add_routes(&network.routes, sources)?;
        }
    }
    let services = network.and_then(|network| network.services.as_ref());
    pools.add_services(services)?;
    Ok(pools.0)
}

/// Returns the pool of a network: that of the annotation, otherwise that of the reference,
/// otherwise that with the name.
pub(super) fn pool_of_network(
    network: &PoolNetwork,
    sources: &Sources<'_>,
) -> Result<PoolReference, RenderError> {
    let pool = first(
        &network.from_pool_annotation,
        &network.from_pool_ref,
        &network.ip_address_from_ip_pool,
        sources,
    )?;
    pool.ok_or_else(|| RenderError::NoPool(network.id.clone()))
}

/// Returns the pool of a gateway; none if it is a text or missing.
pub(super) fn pool_of_gateway(
    gateway: &GatewaySource,
    sources: &Sources<'_>,
) -> Result<Option<PoolReference>, RenderError> {
    if set(&gateway.string).is_some() {
        return Ok(None);
    }
    first(
        &gateway.from_pool_annotation,
        &gateway.from_pool_ref,
        &gateway.from_ip_pool,
        sources,
    )
}

fn first(
    annotation: &Option<AnnotationSource>,
    by_reference: &Option<PoolSource>,
    name: &Option<String>,
    sources: &Sources<'_>,
) -> Result<Option<PoolReference>, RenderError> {
    let annotation = annotation.as_ref();
    let annotation = annotation.filter(|one| !one.object.is_empty() || !one.annotation.is_empty());
    if let Some(AnnotationSource { object, annotation }) = annotation {
        let name = sources.annotation(object, annotation)?;
        if name.is_empty() {
            return Err(RenderError::NoPoolAnnotation {
                object: object.clone(),
                annotation: annotation.clone(),
            });
        }
        return Ok(Some(reference(name, &None, &None)));
    }
    let by_reference = by_reference.as_ref().filter(|one| !one.name.is_empty());
    if let Some(pool) = by_reference {
        return Ok(Some(reference(&pool.name, &pool.api_group, &pool.kind)));
    }
    Ok(set(name).map(|name| reference(name, &None, &None)))
}

/// Returns a reference, with the kind of Metal3's pools where nothing else is said.
fn reference(name: &str, group: &Option<String>, kind: &Option<String>) -> PoolReference {
    PoolReference {
        api_group: Some(set(group).unwrap_or(IPAM_GROUP).to_owned()),
        kind: set(kind).unwrap_or(POOL_KIND).to_owned(),
        name: name.to_owned(),
    }
}

#[derive(Default)]
struct Pools(BTreeMap<String, PoolReference>);

impl Pools {
    fn add(&mut self, pool: PoolReference) -> Result<(), RenderError> {
        let known = self.0.entry(pool.name.clone()).or_insert(pool.clone());
        match *known == pool {
            true => Ok(()),
            false => Err(RenderError::TwoKinds(pool.name)),
        }
    }

    fn add_routes(&mut self, routes: &[Route], sources: &Sources<'_>) -> Result<(), RenderError> {
        for route in routes {
            if let Some(pool) = pool_of_gateway(&route.gateway, sources)? {
                self.add(pool)?;
            }
            self.add_services(route.services.as_ref())?;
        }
        Ok(())
    }

    fn add_services(&mut self, services: Option<&Services>) -> Result<(), RenderError> {
        match services.and_then(|services| set(&services.dns_from_ip_pool)) {
            Some(name) => self.add(reference(name, &None, &None)),
            None => Ok(()),
        }
    }
}
