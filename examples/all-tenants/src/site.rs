//! The kind Site. Its definition, with the schema, is in `install.yaml`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The wanted host and page.
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
    /// A DNS name, unique among the Sites of all tenants.
    pub host: String,
    /// The text of the page.
    pub text: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The generation that this status describes.
    pub observed_generation: Option<i64>,
    /// `Ready`, with the reason `Served` or `HostTaken`.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
