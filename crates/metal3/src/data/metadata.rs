//! Metadata.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::sources::{Addresses, RenderError, Sources, address_of};
use super::yaml;
use crate::hosts::node::provider_path;
use crate::kinds::data_template::MetaData;

/// The key that the cluster's own programs read.
const PROVIDER_ID: &str = "providerid";

/// Renders metadata as YAML: a map of texts, sorted by key. Of equal keys, the later one in the
/// order of this function counts.
///
/// # Errors
///
/// If a value is not available.
pub fn render(
    template: &MetaData,
    sources: &Sources<'_>,
    addresses: &Addresses,
) -> Result<String, RenderError> {
    let mut values = BTreeMap::new();
    let mut put = |key: &str, value: String| {
        values.insert(key.to_owned(), value);
    };
    for item in &template.from_host_interfaces {
        let mac = match item.from_boot_mac {
            Some(true) => {
                let mac = sources.host.spec.boot_mac_address.as_deref();
                let mac = mac.filter(|mac| !mac.is_empty());
                mac.ok_or_else(|| RenderError::NoBootMac(item.key.clone()))?
            }
            Some(false) | None => sources.interface(item.interface.as_deref().unwrap_or(""))?,
        };
        put(&item.key, mac.to_owned());
    }
    for item in &template.ip_addresses_from_pool {
        put(
            &item.key,
            address_of(addresses, &item.name)?.address.clone(),
        );
    }
    for item in &template.prefixes_from_pool {
        let prefix = address_of(addresses, &item.name)?.prefix;
        let prefix = prefix.ok_or_else(|| RenderError::NoPrefix(item.name.clone()))?;
        put(&item.key, prefix.to_string());
    }
    for item in &template.gateways_from_pool {
        let gateway = &address_of(addresses, &item.name)?.gateway;
        put(&item.key, gateway.clone().unwrap_or_default());
    }
    // The original operator claims an address for these and renders nothing, so that the user gets
    // none of the servers. A list with commas is what cloud-init templates can split.
    for item in &template.dns_servers_from_pool {
        let servers = &address_of(addresses, &item.name)?.dns_servers;
        put(&item.key, servers.join(","));
    }
    for item in &template.indexes {
        let step = item.step.filter(|step| *step != 0).unwrap_or(1);
        let number = i64::from(sources.index) * i64::from(step);
        let number = number + i64::from(item.offset.unwrap_or(0));
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (prefix, suffix) = (text(&item.prefix), text(&item.suffix));
        put(&item.key, format!("{prefix}{number}{suffix}"));
    }
    for item in &template.namespaces {
        put(&item.key, sources.namespace.to_owned());
    }
    for item in &template.object_names {
        let name = sources.object(&item.object)?.name.clone();
        put(&item.key, name.unwrap_or_default());
    }
    for item in &template.from_labels {
        put(
            &item.key,
            sources.label(&item.object, &item.label)?.to_owned(),
        );
    }
    for item in &template.from_annotations {
        let value = sources.annotation(&item.object, &item.annotation)?;
        put(&item.key, value.to_owned());
    }
    for item in &template.strings {
        put(&item.key, item.value.clone());
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let machine = sources.metal3_machine;
    let host = text(&sources.host.metadata.name);
    let path = provider_path(&text(&machine.namespace), &host, &text(&machine.name));
    put(PROVIDER_ID, path);
    let values: Value = json!(values);
    Ok(yaml::text(&values))
}
