//! The webhook that converts objects between the versions of the kinds.

use insula_operator::webhook::injection::Target;
use insula_operator::webhook::{Router, WebhookService};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceConversion;
use kube::ResourceExt;

use crate::crds;
use crate::names::NAMESPACE;
use crate::versions::VERSIONS;

/// The path of the conversion.
const CONVERSION: &str = "/convert";

/// The Secret with the operator's own certificate.
pub const CERTIFICATE_SECRET: &str = "capv-webhook-service-cert";

/// Returns the Service that the definitions name.
pub fn service() -> WebhookService {
    WebhookService::new(NAMESPACE, "capv-webhook-service")
}

/// Returns the handlers.
pub fn router() -> Router {
    Router::new().conversion(CONVERSION, |object, to| VERSIONS.convert(object, to))
}

/// Returns the definitions, which need the CA bundle of the webhook.
pub fn targets() -> Vec<Target> {
    let definitions = crds::all();
    let names = definitions.iter().map(ResourceExt::name_any);
    names.map(Target::Definition).collect()
}

/// Returns the `spec.conversion` of the definitions.
pub(crate) fn conversion() -> CustomResourceConversion {
    service().conversion(CONVERSION)
}
