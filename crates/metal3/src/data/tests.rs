//! Rendered data.

mod errors;
mod needed_pools;
mod rendered;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::sources::{Addresses, PoolAddress, RenderError, Sources};
use super::{metadata, network, pools};
use crate::kinds::data_template::Metal3DataTemplateSpec;
use crate::kinds::host::BareMetalHost;

fn meta(name: &str) -> ObjectMeta {
    let meta = json!({
        "name": name, "namespace": "team-a",
        "labels": {"role": format!("{name}-role")},
        "annotations": {
            "note": format!("{name} note"), "mac": "52:54:00:aa:bb:cc", "pool": "annotated",
        },
    });
    serde_json::from_value(meta).unwrap()
}

fn host() -> BareMetalHost {
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {
            "name": "h-1", "namespace": "pool-a", "labels": {"role": "host-role"},
            "annotations": {"note": "host note"},
        },
        "spec": {"online": true, "bootMACAddress": "52:54:00:11:22:33"},
        "status": {"hardware": {"nics": [
            {"name": "eth0", "mac": "52:54:00:11:22:33", "ip": "10.0.0.1"},
            {"name": "eth1", "mac": "52:54:00:ab:cd:ef"},
            {"name": "eth2", "mac": "none"},
        ]}},
    });
    serde_json::from_value(host).unwrap()
}

fn address(address: &str, prefix: i32, gateway: &str, dns: &[&str]) -> PoolAddress {
    PoolAddress {
        address: address.to_owned(),
        prefix: Some(prefix),
        gateway: (!gateway.is_empty()).then(|| gateway.to_owned()),
        dns_servers: dns.iter().map(|server| (*server).to_owned()).collect(),
    }
}

fn addresses() -> Addresses {
    [
        (
            "four",
            address("192.168.0.14", 24, "192.168.0.1", &["8.8.8.8", "8.8.4.4"]),
        ),
        (
            "six",
            address("2001:db8::14", 64, "2001:db8::1", &["2001:4860:4860::8888"]),
        ),
        ("annotated", address("172.16.0.9", 20, "172.16.0.1", &[])),
        ("other", address("10.9.0.5", 16, "", &[])),
        (
            "bare",
            PoolAddress {
                prefix: None,
                ..address("10.8.0.5", 0, "", &[])
            },
        ),
    ]
    .map(|(name, address)| (name.to_owned(), address))
    .into()
}

fn template(spec: Value) -> Metal3DataTemplateSpec {
    serde_json::from_value(spec).unwrap()
}

/// Calls a function with the objects that values come from.
fn with_sources<T>(call: impl FnOnce(&Sources<'_>) -> T) -> T {
    let (machine, metal3_machine, host) = (meta("machine-1"), meta("m-1"), host());
    call(&Sources {
        machine: &machine,
        metal3_machine: &metal3_machine,
        host: &host,
        namespace: "team-a",
        index: 3,
    })
}

fn render_metadata(spec: Value) -> Result<String, RenderError> {
    let template = template(json!({"metaData": spec})).meta_data.unwrap();
    with_sources(|sources| metadata::render(&template, sources, &addresses()))
}

fn render_network(spec: Value) -> Result<String, RenderError> {
    let template = template(json!({"networkData": spec})).network_data.unwrap();
    with_sources(|sources| network::render(&template, sources, &addresses()))
}
