//! `Metal3Remediation` and its template.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The restart of the host of an unhealthy machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3Remediation",
    plural = "metal3remediations",
    namespaced,
    status = "Metal3RemediationStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct Metal3RemediationSpec {
    /// What is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RemediationStrategy>,
}

/// What is done to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemediationStrategy {
    /// `Reboot`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How often the host is restarted before the machine is deleted.
    pub retry_limit: i32,
    /// How long to wait for the machine after each restart.
    pub timeout_seconds: i32,
}

impl Default for RemediationStrategy {
    /// Returns the defaults of the definition.
    fn default() -> Self {
        Self {
            kind: "Reboot".to_owned(),
            retry_limit: 1,
            timeout_seconds: 600,
        }
    }
}

/// The status of a remediation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metal3RemediationStatus {
    /// `Running`, `Waiting`, `Deleting machine` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How often the host was restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<i32>,
    /// When the host was restarted last.
    #[serde(default, deserialize_with = "super::valid")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_remediated: Option<Time>,
}

/// A template for remediations.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Metal3RemediationTemplate",
    plural = "metal3remediationtemplates",
    namespaced,
    status = "Metal3RemediationTemplateStatus",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct Metal3RemediationTemplateSpec {
    /// The remediation.
    pub template: RemediationTemplateResource,
}

/// A remediation that is created from a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RemediationTemplateResource {
    /// Its specification.
    pub spec: Metal3RemediationSpec,
}

/// The status of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metal3RemediationTemplateStatus {
    /// The status of its remediations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Metal3RemediationStatus>,
}
