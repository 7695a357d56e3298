//! The custom resources.

pub mod cluster;
pub mod data;
pub mod data_claim;
pub mod data_template;
pub mod host;
pub mod machine;
pub mod remediation;

use std::collections::BTreeMap;

pub use insula_capi::Initialization;
pub use insula_capi::v1beta1::{Deprecated, DeprecatedStatus};
pub use k8s_openapi::api::core::v1::SecretReference;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A kubeconfig that hosts are accessed with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdentityReference {
    /// The Secret with the kubeconfig, in the namespace of the object.
    pub name: String,
    /// The context of the kubeconfig; its current context if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// An object of a kind that the field implies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectReference {
    /// The name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The namespace; that of the object itself if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The metadata of objects that are created from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// The labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Deserializes a field of a status, or nothing if it is invalid: a user who may write a status
/// must not be able to make the whole object unreadable.
fn valid<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Value::deserialize(input).map(|value| serde_json::from_value(value).ok())
}

insula_operator::has_conditions!(cluster::Metal3ClusterStatus, machine::Metal3MachineStatus,);

#[cfg(test)]
mod tests;
