//! The kinds. Their definitions are in `data`.

use insula_operator::condition::valid_conditions;
use insula_operator::provider::IdentityStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A record of a DNS zone.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "dns.example.com",
    version = "v1",
    kind = "DnsRecord",
    plural = "dnsrecords",
    namespaced,
    status = "DnsRecordStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct DnsRecordSpec {
    /// The DNS service: host and port.
    pub server: String,
    /// The name in the zone of the account.
    pub name: String,
    /// The address that the name resolves to.
    pub address: String,
    /// The account; without one, the operator's own is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityReference>,
}

/// A reference to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityReference {
    /// `DnsAccount` or `Secret`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// The status of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DnsRecordStatus {
    /// Its conditions.
    #[serde(default, deserialize_with = "valid_conditions")]
    pub conditions: Vec<Condition>,
}

insula_operator::has_conditions!(DnsRecordStatus);

/// An account that namespaces or tenants share, as every provider defines it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "dns.example.com",
    version = "v1",
    kind = "DnsAccount",
    plural = "dnsaccounts",
    status = "IdentityStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct DnsAccountSpec {
    /// A Secret in the operator's namespace.
    pub secret_name: String,
    /// The DNS services that the account may be sent to.
    #[serde(default)]
    pub allowed_servers: Vec<String>,
}
