//! Defaults of RBAC, admission, quota, cluster and API extension kinds.

use serde_json::{Value, json};

use super::{Rule, tree};
use crate::Object;

const RBAC: &str = "rbac.authorization.k8s.io";

const MATCH: &[(&str, &str)] = &[
    ("matchPolicy", r#""Equivalent""#),
    ("namespaceSelector", "{}"),
    ("objectSelector", "{}"),
];

const WEBHOOK: &[(&str, &str)] = &[("failurePolicy", r#""Fail""#), ("timeoutSeconds", "10")];

const HTTPS: &[(&str, &str)] = &[("port", "443")];

pub(super) const RULES: &[Rule] = &[
    Rule::run("api.core.v1.Namespace", namespace),
    Rule::set("api.core.v1.NamespaceStatus", &[("phase", r#""Active""#)]),
    Rule::set("api.core.v1.TenantStatus", &[("phase", r#""Active""#)]),
    Rule::run("api.core.v1.NodeStatus", node),
    Rule::set("api.core.v1.Secret", &[("type", r#""Opaque""#)]),
    Rule::run("api.core.v1.LimitRangeItem", limit_range),
    Rule::set(
        "api.authentication.v1.TokenRequestSpec",
        &[("expirationSeconds", "3600")],
    ),
    Rule::set(
        "api.rbac.v1.RoleRef",
        &[("apiGroup", r#""rbac.authorization.k8s.io""#)],
    ),
    Rule::run("api.rbac.v1.Subject", subject),
    Rule::set("api.admissionregistration.v1.ValidatingWebhook", MATCH),
    Rule::set("api.admissionregistration.v1.ValidatingWebhook", WEBHOOK),
    Rule::set("api.admissionregistration.v1.MutatingWebhook", MATCH),
    Rule::set("api.admissionregistration.v1.MutatingWebhook", WEBHOOK),
    Rule::set(
        "api.admissionregistration.v1.MutatingWebhook",
        &[("reinvocationPolicy", r#""Never""#)],
    ),
    Rule::set("api.admissionregistration.v1.Rule", &[("scope", r#""*""#)]),
    Rule::set("api.admissionregistration.v1.ServiceReference", HTTPS),
    Rule::set(
        "api.admissionregistration.v1.ValidatingAdmissionPolicySpec",
        &[("failurePolicy", r#""Fail""#)],
    ),
    Rule::set(
        "api.admissionregistration.v1.MutatingAdmissionPolicySpec",
        &[("failurePolicy", r#""Fail""#)],
    ),
    Rule::set("api.admissionregistration.v1.MatchResources", MATCH),
    Rule::run(
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        custom_resource_definition,
    ),
    Rule::set(
        "apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference",
        HTTPS,
    ),
    Rule::set(
        "kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference",
        HTTPS,
    ),
    Rule::set(
        "api.scheduling.v1.PriorityClass",
        &[("preemptionPolicy", r#""PreemptLowerPriority""#)],
    ),
    Rule::set(
        "api.flowcontrol.v1.FlowSchemaSpec",
        &[("matchingPrecedence", "1000")],
    ),
    Rule::set(
        "api.flowcontrol.v1.ExemptPriorityLevelConfiguration",
        &[("nominalConcurrencyShares", "0"), ("lendablePercent", "0")],
    ),
    Rule::set(
        "api.flowcontrol.v1.LimitedPriorityLevelConfiguration",
        &[("nominalConcurrencyShares", "30"), ("lendablePercent", "0")],
    ),
    Rule::set(
        "api.flowcontrol.v1.QueuingConfiguration",
        &[
            ("handSize", "8"),
            ("queues", "64"),
            ("queueLengthLimit", "50"),
        ],
    ),
    Rule::run("api.resource.v1.ExactDeviceRequest", device_request),
    Rule::run("api.resource.v1.DeviceSubRequest", device_request),
    Rule::set(
        "api.resource.v1.NodeAllocatableResourceMapping",
        &[("allocationMultiplier", r#""1""#)],
    ),
];

/// Labels a namespace with its name; one without a name is labelled on create.
fn namespace(namespace: &mut Object) {
    let metadata = tree::child_mut(namespace, "metadata");
    let name = tree::text(metadata, "name").to_owned();
    if !name.is_empty() {
        let labels = tree::child_mut(metadata, "labels");
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn node(status: &mut Object) {
    if let Some(capacity) = status.get("capacity").cloned() {
        tree::fill(status, "allocatable", capacity);
    }
}

/// Derives missing container limits: the default limit from the maximum, the default
/// request from the default limit or else from the minimum.
fn limit_range(item: &mut Object) {
    if tree::text(item, "type") == "Container" {
        for (from, to) in [
            ("max", "default"),
            ("default", "defaultRequest"),
            ("min", "defaultRequest"),
        ] {
            let Some(amounts) = tree::child(item, from).cloned() else {
                continue;
            };
            let target = tree::child_mut(item, to);
            for (resource, amount) in amounts {
                target.entry(resource).or_insert(amount);
            }
        }
    }
}

fn subject(subject: &mut Object) {
    if matches!(tree::text(subject, "kind"), "User" | "Group") {
        tree::fill_empty(subject, "apiGroup", RBAC);
    }
}

fn custom_resource_definition(definition: &mut Object) {
    let spec = tree::child_mut(definition, "spec");
    let names = tree::child_mut(spec, "names");
    let kind = tree::text(names, "kind").to_owned();
    if !kind.is_empty() {
        tree::fill_empty(names, "singular", kind.to_lowercase());
        tree::fill_empty(names, "listKind", format!("{kind}List"));
    }
    tree::fill(spec, "conversion", json!({"strategy": "None"}));
    let stored = tree::items(spec, "versions")
        .find(|version| tree::boolean(version, "storage"))
        .map(|version| Value::from(tree::text(version, "name")));
    if let Some(stored) = stored {
        let status = tree::child_mut(definition, "status");
        tree::fill_empty(status, "storedVersions", vec![stored]);
    }
}

fn device_request(request: &mut Object) {
    tree::fill_empty(request, "allocationMode", "ExactCount");
    if tree::text(request, "allocationMode") == "ExactCount" {
        tree::fill_empty(request, "count", 1);
    }
}
