//! The kind `tenants.submariner.io`: a ClusterSet with a broker of its own.

use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::quota::Amounts;

/// The desired state of a tenant. The object's name is the tenant's ID.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "submariner.io",
    version = "v1alpha1",
    kind = "Tenant",
    plural = "tenants",
    namespaced,
    status = "TenantStatus",
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct TenantSpec {
    /// A name for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The owner, as a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Administrators of its broker, in addition to the service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admins: Option<Vec<Subject>>,
    /// How it is isolated from other tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The number of objects that its namespace may have, by their name in a ResourceQuota.
    /// The defaults apply to names that are not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Amounts>,
}

/// How a tenant is isolated from other tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// A namespace, with permissions in that namespace only.
    #[default]
    Namespace,
    /// A space of an Insula server, with that namespace in it.
    Space,
}

/// The observed state of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantStatus {
    /// The current phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The namespace of its broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The space of that namespace, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The service account of its administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The Secret with that account's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret: Option<String>,
    /// A sentence about progress or problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was first provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Time>,
    /// The generation of the spec that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions for `kubectl wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// The phase of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its objects are being created.
    Provisioning,
    /// All objects are as desired.
    Provisioned,
    /// Provisioning failed and is being retried.
    Failed,
    /// It is being deleted.
    Deleting,
}
