//! Networks, by how machines get their address, and their routes.

use serde_json::{Value, json};

use super::netmask::netmask;
use super::services;
use crate::data::pools::{pool_of_gateway, pool_of_network};
use crate::data::sources::{Addresses, RenderError, Sources, address_of, set};
use crate::ipam::range::Family;
use crate::kinds::data_template::{GatewaySource, Networks, Route};

pub(super) fn render(
    networks: &Networks,
    sources: &Sources<'_>,
    addresses: &Addresses,
) -> Result<Vec<Value>, RenderError> {
    let mut rendered = Vec::new();
    for (kind, family, list) in [
        ("ipv4", Family::Ipv4, &networks.ipv4),
        ("ipv6", Family::Ipv6, &networks.ipv6),
    ] {
        for network in list {
            let pool = pool_of_network(network, sources)?;
            let address = address_of(addresses, &pool.name)?;
            rendered.push(json!({
                "type": kind,
                "id": network.id,
                "link": network.link,
                "netmask": netmask(family, address.prefix)?,
                "ip_address": address.address,
                "routes": routes(family, &network.routes, sources, addresses)?,
            }));
        }
    }
    for (kind, family, list) in [
        ("ipv4_dhcp", Family::Ipv4, &networks.ipv4_dhcp),
        ("ipv6_dhcp", Family::Ipv6, &networks.ipv6_dhcp),
        ("ipv6_slaac", Family::Ipv6, &networks.ipv6_slaac),
    ] {
        for network in list {
            rendered.push(json!({
                "type": kind,
                "id": network.id,
                "link": network.link,
                "routes": routes(family, &network.routes, sources, addresses)?,
            }));
        }
    }
    Ok(rendered)
}

fn routes(
    family: Family,
    routes: &[Route],
    sources: &Sources<'_>,
    addresses: &Addresses,
) -> Result<Vec<Value>, RenderError> {
    let routes = routes.iter().map(|route| {
        Ok(json!({
            "network": route.network,
            "netmask": netmask(family, Some(route.prefix.unwrap_or(0)))?,
            "gateway": gateway(&route.gateway, sources, addresses)?,
            "services": services(route.services.as_ref(), addresses)?,
        }))
    });
    routes.collect()
}

/// Returns a gateway; an empty text if there is none.
fn gateway(
    source: &GatewaySource,
    sources: &Sources<'_>,
    addresses: &Addresses,
) -> Result<String, RenderError> {
    if let Some(text) = set(&source.string) {
        return Ok(text.to_owned());
    }
    let Some(pool) = pool_of_gateway(source, sources)? else {
        return Ok(String::new());
    };
    let gateway = &address_of(addresses, &pool.name)?.gateway;
    Ok(gateway.clone().unwrap_or_default())
}
