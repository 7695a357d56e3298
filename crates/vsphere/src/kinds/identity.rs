//! `VSphereClusterIdentity`: a vCenter account that selected namespaces may use.

use insula_identity::allowed::Allowed;
use insula_operator::provider::{AllowedServer, IdentityStatus};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A vCenter account, the namespaces that may use it, and the servers that it may be sent to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "VSphereClusterIdentity",
    plural = "vsphereclusteridentities",
    status = "IdentityStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct VSphereClusterIdentitySpec {
    /// A Secret in the operator's namespace.
    pub secret_name: String,
    /// Which namespaces may use it: none if missing, all if empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<Allowed>,
    /// Which tenants may use it, if it is in the system's space of an Insula: none if missing, all
    /// if its selector is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tenants: Option<Allowed>,
    /// Which servers it may be sent to; if missing, those of the operator's settings or of the
    /// Secret's key `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_servers: Option<Vec<AllowedServer>>,
}

/// A reference to the credentials of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VSphereIdentityReference {
    /// `VSphereClusterIdentity` or `Secret`.
    pub kind: String,
    /// Its name.
    pub name: String,
}
