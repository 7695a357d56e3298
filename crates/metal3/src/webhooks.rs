//! The webhooks: conversion between the versions of the kinds, and validation.

mod validation;

use insula_operator::webhook::injection::Target;
use insula_operator::webhook::manifest::AdmissionWebhook;
use insula_operator::webhook::{Router, WebhookService};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceConversion;
use kube::ResourceExt;
use serde_json::Value;

use crate::crds;
use crate::names::{GROUP, IPAM_GROUP, NAMESPACE};
use crate::versions::VERSIONS;

/// The path of the conversion.
const CONVERSION: &str = "/convert";
/// The path of the validation.
const VALIDATION: &str = "/validate";

/// The Secret with the operator's own certificate.
pub const CERTIFICATE_SECRET: &str = "capm3-webhook-service-cert";
/// The ValidatingWebhookConfiguration.
const CONFIGURATION: &str = "capm3-validating-webhook-configuration";

/// Annotation that extends a configuration of the system to all tenants of an Insula.
const ADMIT_TENANTS: &str = "multi-tenancy.k8s.io/admit-tenants";

/// Which objects are validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those of the configuration's own space.
    Space,
    /// Also those of all tenants of an Insula.
    Tenants,
}

/// Returns the Service that the definitions name.
pub fn service() -> WebhookService {
    WebhookService::new(NAMESPACE, "capm3-webhook-service")
}

/// Returns the handlers.
pub fn router() -> Router {
    Router::new()
        .conversion(CONVERSION, |object, desired| {
            VERSIONS.convert(object, desired)
        })
        .validating(
            VALIDATION,
            |request| async move { validation::review(&request) },
        )
}

/// Returns the objects that need the CA bundle of the webhooks.
pub fn targets() -> Vec<Target> {
    let definitions = crds::all();
    let converted = definitions.iter().filter(|it| it.spec.conversion.is_some());
    let converted = converted.map(|definition| Target::Definition(definition.name_any()));
    let validated = Target::Validating(CONFIGURATION.to_owned());
    converted.chain([validated]).collect()
}

/// Returns the ValidatingWebhookConfiguration.
pub fn configuration(reach: Reach) -> Value {
    let webhooks = [
        AdmissionWebhook {
            name: "validation.infrastructure.cluster.x-k8s.io",
            path: VALIDATION,
            group: GROUP,
            // Both versions have what is validated in the same fields.
            versions: &["v1beta1", "v1beta2"],
            resources: &[
                "metal3clusters",
                "metal3clustertemplates",
                "metal3machines",
                "metal3machinetemplates",
                "metal3datatemplates",
                "metal3dataclaims",
                "metal3datas",
            ],
            operations: &["CREATE", "UPDATE"],
            required: true,
        },
        AdmissionWebhook {
            name: "validation.ipam.metal3.io",
            path: VALIDATION,
            group: IPAM_GROUP,
            versions: &["v1alpha1"],
            resources: &["ippools", "ipclaims", "ipaddresses"],
            operations: &["CREATE", "UPDATE"],
            required: true,
        },
    ];
    let mut configuration = service().validating(CONFIGURATION, &webhooks);
    if reach == Reach::Tenants {
        configuration["metadata"]["annotations"][ADMIT_TENANTS] = "true".into();
    }
    configuration
}

/// Returns the `spec.conversion` of the definitions.
pub(crate) fn conversion() -> CustomResourceConversion {
    service().conversion(CONVERSION)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn configuration_validates_kinds_in_all_their_versions() {
        let configuration = configuration(Reach::Tenants);
        assert_eq!(
            configuration["metadata"],
            json!({
                "name": "capm3-validating-webhook-configuration",
                "annotations": {"multi-tenancy.k8s.io/admit-tenants": "true"},
            })
        );
        let webhook = &configuration["webhooks"][0];
        assert_eq!(
            webhook["clientConfig"],
            json!({"service": {
                "namespace": "capm3-system", "name": "capm3-webhook-service",
                "path": "/validate", "port": 443,
            }})
        );
        let versions = |index: usize| &configuration["webhooks"][index]["rules"][0]["apiVersions"];
        assert_eq!(*versions(0), json!(["v1beta1", "v1beta2"]));
        assert_eq!(*versions(1), json!(["v1alpha1"]));
        let own = super::configuration(Reach::Space);
        assert_eq!(own["metadata"].get("annotations"), None);
    }

    #[test]
    fn ca_bundle_is_written_where_webhooks_are_named() {
        let targets: Vec<_> = targets().iter().map(ToString::to_string).collect();
        assert_eq!(targets.len(), 10);
        assert_eq!(
            targets[6],
            "customresourcedefinitions/metal3datas.infrastructure.cluster.x-k8s.io"
        );
        assert_eq!(
            targets[9],
            "validatingwebhookconfigurations/capm3-validating-webhook-configuration"
        );
    }
}
