//! Encoding of a broker info, byte for byte as Go's `encoding/json` writes it.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::BrokerInfo;
use crate::component::SERVICE_DISCOVERY;
use crate::go_json::escape_html;

pub(super) fn encode(info: &BrokerInfo) -> String {
    let file = File {
        url: &info.url,
        client_token: info.client_token.as_ref().map(SecretJson::of),
        ipsec_psk: info.ipsec_psk.as_ref().map(SecretJson::of),
        service_discovery: info.components.contains(SERVICE_DISCOVERY),
        components: &info.components,
        custom_domains: Some(&info.custom_domains).filter(|domains| !domains.is_empty()),
        namespace: info.namespace.as_deref().filter(|name| !name.is_empty()),
    };
    let json = serde_json::to_string(&file).expect("strings under strings are always JSON");
    URL_SAFE.encode(escape_html(&json))
}

/// The fields of the file in their order. The mixed spelling is what every existing reader
/// expects.
#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "brokerURL")]
    url: &'a str,
    #[serde(rename = "ClientToken")]
    client_token: Option<SecretJson<'a>>,
    #[serde(rename = "IPSecPSK")]
    ipsec_psk: Option<SecretJson<'a>>,
    #[serde(rename = "ServiceDiscovery")]
    service_discovery: bool,
    #[serde(rename = "Components", skip_serializing_if = "BTreeSet::is_empty")]
    components: &'a BTreeSet<String>,
    #[serde(rename = "CustomDomains")]
    custom_domains: Option<&'a Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}

/// The parts of a Secret that are written.
#[derive(Serialize)]
struct SecretJson<'a> {
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "is_empty")]
    data: Option<&'a BTreeMap<String, ByteString>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    creation_timestamp: Option<&'a Time>,
    #[serde(skip_serializing_if = "is_empty")]
    labels: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "is_empty")]
    annotations: Option<&'a BTreeMap<String, String>>,
}

impl<'a> SecretJson<'a> {
    fn of(secret: &'a Secret) -> Self {
        let metadata = &secret.metadata;
        Self {
            metadata: Metadata {
                name: non_empty(&metadata.name),
                namespace: non_empty(&metadata.namespace),
                uid: non_empty(&metadata.uid),
                creation_timestamp: metadata.creation_timestamp.as_ref(),
                labels: metadata.labels.as_ref(),
                annotations: metadata.annotations.as_ref(),
            },
            data: secret.data.as_ref(),
            type_: non_empty(&secret.type_),
        }
    }
}

fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

fn is_empty<T>(map: &Option<&BTreeMap<String, T>>) -> bool {
    map.is_none_or(BTreeMap::is_empty)
}
