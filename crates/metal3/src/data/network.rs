//! Network data, in the format of OpenStack.

mod links;
mod netmask;
mod networks;

use serde_json::{Value, json};

use super::sources::{Addresses, RenderError, Sources, address_of, set};
use super::yaml;
use crate::kinds::data_template::{NetworkData, Services};

/// Renders network data as YAML.
///
/// # Errors
///
/// If a value is not available, or not valid.
pub fn render(
    template: &NetworkData,
    sources: &Sources<'_>,
    addresses: &Addresses,
) -> Result<String, RenderError> {
    let mut data = json!({"links": [], "networks": [], "services": []});
    if let Some(links) = &template.links {
        data["links"] = Value::Array(links::render(links, sources)?);
    }
    if let Some(networks) = &template.networks {
        data["networks"] = Value::Array(networks::render(networks, sources, addresses)?);
    }
    data["services"] = Value::Array(services(template.services.as_ref(), addresses)?);
    Ok(yaml::text(&data))
}

/// Renders DNS servers: those of the template, then those of a pool.
fn services(services: Option<&Services>, addresses: &Addresses) -> Result<Vec<Value>, RenderError> {
    let Some(services) = services else {
        return Ok(Vec::new());
    };
    let of_pool = match set(&services.dns_from_ip_pool) {
        Some(pool) => address_of(addresses, pool)?.dns_servers.as_slice(),
        None => &[],
    };
    let all = services.dns.iter().chain(of_pool);
    Ok(all
        .map(|address| json!({"type": "dns", "address": address}))
        .collect())
}
