//! The kind. Its definition, with the schema, is in `install.yaml`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// What somebody wants to be seen under a host.
#[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    schema = "disabled"
)]
pub struct SiteSpec {
    /// A DNS name, which only one Site of all tenants has.
    pub host: String,
    /// What is on the page.
    pub text: String,
}

/// What has become of it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The generation that this is about.
    pub observed_generation: Option<i64>,
    /// `Ready`, with the reason `Served` or `HostTaken`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
