//! The kind `tenants.submariner.io`: a ClusterSet that gets a broker of its own.

use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What a tenant is to be. Its name is its ID.
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
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Whose it is; a remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Who else administers its broker, beside the service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admins: Option<Vec<Subject>>,
    /// What keeps it apart from the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// What keeps a tenant apart from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// A namespace, and rights in it and nowhere else.
    #[default]
    Namespace,
    /// A whole space of an Insula, with that namespace in it.
    Space,
}

/// What became of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantStatus {
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The namespace of its broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The space that the namespace is in, if it is not in this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The service account of its administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The Secret with that account's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret: Option<String>,
    /// What is going on, or wrong, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was first as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned_at: Option<Time>,
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The same, in the form that tools wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// How far a tenant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its parts are being made.
    Provisioning,
    /// Everything is as it should be.
    Provisioned,
    /// Something is in the way. It is tried again.
    Failed,
    /// It is going.
    Deleting,
}
