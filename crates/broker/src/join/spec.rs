//! The spec of the objects that Submariner's operator reads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value, json};

use super::addresses::Addresses;
use super::settings::JoinSettings;
use crate::names::{self, BROKER_SECRET, OPERATOR_NAMESPACE};
use crate::token;

/// The fields that must be present even if empty.
const REQUIRED: [&str; 5] = [
    "ceIPSecDebug",
    "clusterCIDR",
    "debug",
    "natEnabled",
    "serviceCIDR",
];

/// Sets the fields of a `Submariner`, or of a `ServiceDiscovery` where clusters are not
/// connected, that describe how the cluster joins. All other fields are kept.
pub(super) fn apply(
    spec: &mut Map<String, Value>,
    settings: &JoinSettings,
    account: &Secret,
    addresses: &Addresses,
) {
    let mut fields_to_set = common_fields(settings, account, addresses);
    match settings.has_connectivity() {
        true => fields_to_set.extend(connectivity_fields(settings, addresses)),
        false => fields_to_set.extend(discovery_fields(addresses)),
    }
    for (field, value) in fields_to_set {
        match value {
            // The setting was not given: keep the existing value.
            Value::Null if REQUIRED.contains(&field.as_str()) => {
                spec.entry(field).or_insert_with(|| json!(""));
            }
            Value::Null => {}
            value if is_empty_value(&value) && !REQUIRED.contains(&field.as_str()) => {
                spec.remove(&field);
            }
            value => {
                spec.insert(field, value);
            }
        }
    }
}

fn common_fields(
    settings: &JoinSettings,
    account: &Secret,
    addresses: &Addresses,
) -> Map<String, Value> {
    let info = &settings.info;
    let token = token::of(account).map(String::from_utf8_lossy);
    let ca = account.data.as_ref().and_then(|data| data.get("ca.crt"));
    let ca = ca.map(|ca| &ca.0).or(info.ca.as_ref());
    let domains = match settings.custom_domains.as_slice() {
        [] => &info.custom_domains,
        _ => &settings.custom_domains,
    };
    let clusterset = addresses.clusterset.as_ref();
    object_fields(json!({
        "brokerK8sApiServer": without_scheme(&info.url),
        "brokerK8sApiServerToken": token,
        "brokerK8sCA": ca.map_or_else(String::new, |ca| STANDARD.encode(ca)),
        "brokerK8sInsecure": !settings.check_broker_certificate,
        "brokerK8sRemoteNamespace": info.namespace,
        "brokerK8sSecret": BROKER_SECRET,
        "clusterID": settings.cluster_id.as_str(),
        "clustersetIPCIDR": clusterset.map_or("", |given| &given.cidr),
        "clustersetIPEnabled": clusterset.is_some_and(|given| given.enabled),
        "customDomains": domains,
        "debug": false,
        "namespace": OPERATOR_NAMESPACE,
    }))
}

fn connectivity_fields(settings: &JoinSettings, addresses: &Addresses) -> Map<String, Value> {
    let psk = settings.info.psk();
    object_fields(json!({
        "broker": "k8s",
        "cableDriver": settings.cable_driver,
        "ceIPSecDebug": false,
        "ceIPSecPSK": psk.map_or_else(String::new, |psk| STANDARD.encode(psk)),
        "ceIPSecPSKSecret": psk.map_or("", |_| names::PSK),
        "clusterCIDR": settings.cluster_cidr,
        "globalCIDR": addresses.global.as_deref().unwrap_or_default(),
        "natEnabled": settings.nat,
        "serviceCIDR": settings.service_cidr,
        "serviceDiscoveryEnabled": settings.has_service_discovery(),
    }))
}

fn discovery_fields(addresses: &Addresses) -> Map<String, Value> {
    object_fields(json!({"globalnetEnabled": addresses.global.is_some()}))
}

/// Strips the scheme: Submariner always uses HTTPS for its broker and expects none.
pub(super) fn without_scheme(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.trim_end_matches('/')
}

fn object_fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object_fields) => object_fields,
        _ => Map::new(),
    }
}

fn is_empty_value(value: &Value) -> bool {
    match value {
        Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
