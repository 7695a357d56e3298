//! The objects through which a Kubernetes API server reaches the webhooks of an operator.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use serde_json::{Value, json};

use super::injection::Target;

/// The Service of an operator's webhooks.
///
/// On `insula serve` with the operator inside, only its namespace and name matter: the API
/// server calls the operator's router instead of the Service's endpoints.
///
/// Pods are ready when an HTTPS probe of `/healthz` at the target port succeeds: handshakes fail
/// until there is a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookService {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The port of the pods.
    pub target_port: u16,
}

/// The usual port of a webhook server in a pod.
pub const TARGET_PORT: u16 = 9443;

/// A webhook of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionWebhook<'a> {
    /// The name, such as `validate.v1.widgets.example.com`.
    pub name: &'a str,
    /// The path of its handler.
    pub path: &'a str,
    /// The group of the resources.
    pub group: &'a str,
    /// The versions of the resources.
    pub versions: &'a [&'a str],
    /// The resources in the plural.
    pub resources: &'a [&'a str],
    /// The operations: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    pub operations: &'a [&'a str],
    /// Whether requests are denied while the webhook cannot be called.
    pub required: bool,
}

/// The timeout of admission webhooks, which is the default of Kubernetes.
const TIMEOUT_SECONDS: u32 = 10;

impl WebhookService {
    /// Creates the Service of these names, for pods with the usual port.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            target_port: TARGET_PORT,
        }
    }

    /// Returns the DNS names of the serving certificate. API servers use the first one.
    pub fn dns_names(&self) -> Vec<String> {
        let Self {
            namespace, name, ..
        } = self;
        vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
        ]
    }

    /// Returns the Service, for pods with these labels.
    pub fn manifest(&self, selector: &[(&str, &str)]) -> Value {
        let selector: serde_json::Map<_, _> = selector
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect();
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "selector": selector,
                "ports": [{
                    "name": "webhooks", "protocol": "TCP",
                    "port": 443, "targetPort": self.target_port,
                }],
            },
        })
    }

    /// Returns a ValidatingWebhookConfiguration.
    pub fn validating(&self, name: &str, webhooks: &[AdmissionWebhook<'_>]) -> Value {
        self.configuration("ValidatingWebhookConfiguration", name, webhooks)
    }

    /// Returns a MutatingWebhookConfiguration.
    pub fn mutating(&self, name: &str, webhooks: &[AdmissionWebhook<'_>]) -> Value {
        self.configuration("MutatingWebhookConfiguration", name, webhooks)
    }

    fn configuration(&self, kind: &str, name: &str, webhooks: &[AdmissionWebhook<'_>]) -> Value {
        let webhooks: Vec<_> = webhooks
            .iter()
            .map(|webhook| self.webhook(webhook))
            .collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name},
            "webhooks": webhooks,
        })
    }

    fn webhook(&self, webhook: &AdmissionWebhook<'_>) -> Value {
        json!({
            "name": webhook.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "namespace": self.namespace, "name": self.name, "path": webhook.path, "port": 443,
            }},
            "rules": [{
                "apiGroups": [webhook.group],
                "apiVersions": webhook.versions,
                "resources": webhook.resources,
                "operations": webhook.operations,
                "scope": "*",
            }],
            "failurePolicy": if webhook.required { "Fail" } else { "Ignore" },
            "matchPolicy": "Exact",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
        })
    }

    /// Returns the `spec.conversion` of a definition, for the conversion handler at this path.
    pub fn conversion(&self, path: &str) -> CustomResourceConversion {
        CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: Some(WebhookConversion {
                conversion_review_versions: vec!["v1".to_owned()],
                client_config: Some(WebhookClientConfig {
                    service: Some(ServiceReference {
                        namespace: self.namespace.clone(),
                        name: self.name.clone(),
                        path: Some(path.to_owned()),
                        port: Some(443),
                    }),
                    ..WebhookClientConfig::default()
                }),
            }),
        }
    }
}

/// Returns the permissions that the certificate's Secret needs, for a Role in its namespace.
pub fn secret_rules(secret: &str) -> Vec<PolicyRule> {
    let core = |verbs: &[&str], names: &[String]| rule("", "secrets", verbs, names);
    vec![
        core(&["get", "update"], &[secret.to_owned()]),
        // A creation has no name that could be compared.
        core(&["create"], &[]),
    ]
}

/// Returns the permissions that the injection of the CA bundle needs, for a ClusterRole: to
/// write the named objects only.
pub fn injection_rules(targets: &[Target]) -> Vec<PolicyRule> {
    let mut by_resource: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for target in targets {
        let resource = target.resource();
        let names = by_resource.entry((resource.group, resource.plural));
        names.or_default().push(target.name().to_owned());
    }
    let rules = by_resource.iter().flat_map(|((group, resource), names)| {
        [
            rule(group, resource, &["get", "patch"], names),
            rule(group, resource, &["list", "watch"], &[]),
        ]
    });
    rules.collect()
}

fn rule(group: &str, resource: &str, verbs: &[&str], names: &[String]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        resource_names: (!names.is_empty()).then(|| names.to_vec()),
        ..PolicyRule::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> WebhookService {
        WebhookService::new("acme-system", "acme-webhooks")
    }

    #[test]
    fn manifests_name_the_service_and_the_path() {
        assert_eq!(
            service().dns_names(),
            [
                "acme-webhooks.acme-system.svc",
                "acme-webhooks.acme-system.svc.cluster.local",
            ]
        );
        assert_eq!(
            service().manifest(&[("app", "acme")])["spec"],
            json!({
                "selector": {"app": "acme"},
                "ports": [
                    {"name": "webhooks", "protocol": "TCP", "port": 443, "targetPort": 9443},
                ],
            })
        );
        let webhook = AdmissionWebhook {
            name: "validate.v1.widgets.example.com",
            path: "/validate-widgets",
            group: "example.com",
            versions: &["v1"],
            resources: &["widgets"],
            operations: &["CREATE", "UPDATE"],
            required: true,
        };
        let configuration = service().validating("acme", &[webhook]);
        assert_eq!(configuration["kind"], "ValidatingWebhookConfiguration");
        assert_eq!(
            configuration["webhooks"][0],
            json!({
                "name": "validate.v1.widgets.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {
                    "namespace": "acme-system", "name": "acme-webhooks",
                    "path": "/validate-widgets", "port": 443,
                }},
                "rules": [{
                    "apiGroups": ["example.com"], "apiVersions": ["v1"],
                    "resources": ["widgets"], "operations": ["CREATE", "UPDATE"], "scope": "*",
                }],
                "failurePolicy": "Fail", "matchPolicy": "Exact", "sideEffects": "None",
                "timeoutSeconds": 10,
            })
        );
        assert_eq!(
            json!(service().conversion("/convert")),
            json!({
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {
                        "namespace": "acme-system", "name": "acme-webhooks",
                        "path": "/convert", "port": 443,
                    }},
                },
            })
        );
    }

    #[test]
    fn permissions_write_named_objects_only() {
        let targets = [
            Target::Validating("acme".to_owned()),
            Target::Definition("a.example.com".to_owned()),
            Target::Definition("b.example.com".to_owned()),
        ];
        let (webhooks, crds) = ("admissionregistration.k8s.io", "apiextensions.k8s.io");
        assert_eq!(
            json!(injection_rules(&targets)),
            json!([
                {
                    "apiGroups": [webhooks], "resources": ["validatingwebhookconfigurations"],
                    "resourceNames": ["acme"], "verbs": ["get", "patch"],
                },
                {
                    "apiGroups": [webhooks], "resources": ["validatingwebhookconfigurations"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": [crds], "resources": ["customresourcedefinitions"],
                    "resourceNames": ["a.example.com", "b.example.com"],
                    "verbs": ["get", "patch"],
                },
                {
                    "apiGroups": [crds], "resources": ["customresourcedefinitions"],
                    "verbs": ["list", "watch"],
                },
            ])
        );
        assert_eq!(
            json!(secret_rules("acme-cert")),
            json!([
                {
                    "apiGroups": [""], "resources": ["secrets"],
                    "resourceNames": ["acme-cert"], "verbs": ["get", "update"],
                },
                {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            ])
        );
    }
}
