//! Which namespaces may use an identity.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};

/// Which namespaces may use an identity. Where it is missing, none may; where it is empty, all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllowedNamespaces {
    /// By the labels of the Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}
