//! PodDisruptionBudgets, PriorityClasses, Leases, RuntimeClasses,
//! CertificateSigningRequests, APIServices and Scales.

mod autoscaler;

use std::collections::HashSet;

pub(super) use autoscaler::{autoscaler, autoscaler_status};

use super::amount;
use super::check::{self, Errors};
use super::meta;
use super::tree::{Node, Path};
use crate::FieldError;
use crate::text;
use insula_gotext::quote;

/// Validates a PodDisruptionBudget.
pub(super) fn disruption_budget(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let (min, max) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if min.is_set() && max.is_set() {
        errors.push(both_set(&spec));
    }
    for node in [min, max] {
        if node.is_set() {
            check::int_or_percent(&node, errors);
            check::not_above_100_percent(&node, errors);
        }
    }
    meta::selector(&spec.get("selector"), errors);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    check::one_of_if_set(&spec.get("unhealthyPodEvictionPolicy"), &policies, errors);
}

/// Returns the error with the spec as Go prints it, by Go field names.
fn both_set(spec: &Node<'_>) -> FieldError {
    let value = |name| spec.get(name).value();
    let printed = format!(
        r#"{{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}}"#,
        value("minAvailable"),
        value("selector"),
        value("maxUnavailable"),
        value("unhealthyPodEvictionPolicy"),
    );
    let detail = "minAvailable and maxUnavailable cannot be both set";
    FieldError::invalid_printed(spec.path.to_string(), &printed, detail)
}

/// Validates the status of a PodDisruptionBudget.
pub(super) fn disruption_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let counts = [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ];
    check::all_nonnegative(&new.get("status"), &counts, errors);
}

const HIGHEST_USER_DEFINABLE_PRIORITY: i64 = 1_000_000_000;

/// Validates a PriorityClass.
pub(super) fn priority_class(object: &Node<'_>, errors: &mut Errors) {
    let (name, value) = (object.get("metadata").get("name"), object.get("value"));
    let number = value.int().unwrap_or_default();
    if name.text().starts_with("system-") {
        if let Some(message) = system_priority(object, name.text(), number) {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {message}"
            );
            errors.push(name.forbidden(&detail));
        }
    } else if number > HIGHEST_USER_DEFINABLE_PRIORITY {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(value.forbidden(detail));
    }
    if object.get("preemptionPolicy").is_set() {
        let policies = ["PreemptLowerPriority", "Never"];
        check::one_of(&object.get("preemptionPolicy"), &policies, errors);
    }
}

fn system_priority(object: &Node<'_>, name: &str, value: i64) -> Option<String> {
    let known = match name {
        "system-node-critical" => 2 * HIGHEST_USER_DEFINABLE_PRIORITY + 1000,
        "system-cluster-critical" => 2 * HIGHEST_USER_DEFINABLE_PRIORITY,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != known {
        return Some(format!("value of {name} PriorityClass must be {known}"));
    }
    let default = object.get("globalDefault").is_true();
    default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

/// Validates an update of a PriorityClass.
pub(super) fn priority_class_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let value = |of: &Node<'_>| of.get("value").int().unwrap_or_default();
    if value(old) != value(new) {
        errors.push(
            new.get("value")
                .forbidden("may not be changed in an update."),
        );
    }
    let field = "preemptionPolicy";
    check::immutable(&old.get(field), &new.get(field), errors);
}

/// Validates a Lease.
pub(super) fn lease(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let duration = spec.get("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        errors.push(duration.invalid("must be greater than 0"));
    }
    check::nonnegative(&spec.get("leaseTransitions"), errors);
    let strategy = spec.get("strategy");
    if strategy.is_set() && strategy.text() != "OldestEmulationVersion" {
        check::format(&strategy, text::qualified_name, errors);
    }
    let holder = spec.get("preferredHolder");
    if !holder.is_empty() && strategy.is_empty() {
        errors.push(holder.forbidden("may only be specified if `strategy` is defined"));
    }
}

/// Validates a RuntimeClass.
pub(super) fn runtime_class(object: &Node<'_>, errors: &mut Errors) {
    check::required_format(&object.get("handler"), text::dns_label, errors);
    let overhead = object.get("overhead");
    for (resource, amount) in overhead.get("podFixed").entries() {
        let amount = amount.at(overhead.path.field("limits").key(resource));
        amount::container_resource_name(&amount, resource, errors);
        amount::resource_value(&amount, resource, errors);
    }
    let scheduling = object.get("scheduling");
    meta::labels(&scheduling.get("nodeSelector"), errors);
    super::pod::tolerations(&scheduling.get("tolerations"), errors);
}

/// Validates an update of a RuntimeClass.
pub(super) fn runtime_class_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    check::immutable(&old.get("handler"), &new.get("handler"), errors);
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Validates a CertificateSigningRequest.
pub(super) fn signing_request(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    if !is_pem(spec.get("request").text(), "CERTIFICATE REQUEST") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        errors.push(spec.get("request").invalid_text(detail));
    }
    let usages = spec.get("usages");
    check::required(&usages, errors);
    for usage in usages.items() {
        check::one_of_if_set(&usage, USAGES, errors);
    }
    let mut seen = HashSet::new();
    for usage in usages.items() {
        if !seen.insert(usage.text()) {
            errors.push(usage.duplicate());
        }
    }
    let signer = spec.get("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(signer.invalid(detail));
    } else {
        signer_name(&signer, errors);
    }
    let seconds = spec.get("expirationSeconds");
    if seconds.int().is_some_and(|seconds| seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(seconds.invalid(detail));
    }
    conditions(&object.get("status").get("conditions"), errors);
    let certificate = object.get("status").get("certificate");
    if !certificate.is_empty() && !is_pem(certificate.text(), "CERTIFICATE") {
        let detail = "must contain at least one CERTIFICATE PEM block";
        errors.push(certificate.invalid_as(&"<certificate data>".into(), detail));
    }
}

/// Whether the base64 contains a PEM block of the type.
fn is_pem(base64: &str, kind: &str) -> bool {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(base64);
    let Ok(bytes) = bytes else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes);
    let place = |edge| text.find(&format!("-----{edge} {kind}-----"));
    matches!((place("BEGIN"), place("END")), (Some(begin), Some(end)) if begin < end)
}

fn signer_name(signer: &Node<'_>, errors: &mut Errors) {
    if !check::required(signer, errors) {
        return;
    }
    let (domain, path) = match signer.text().split_once('/') {
        Some((domain, path)) if !path.contains('/') => (domain, path),
        _ => {
            let detail =
                "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            errors.push(signer.invalid(detail));
            return;
        }
    };
    if domain.len() > 253 {
        errors.push(signer.too_long(253));
    }
    labels_of(signer, domain, text::dns_label, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(signer.invalid_as(&domain.into(), detail));
    }
    labels_of(signer, path, text::dns_subdomain, errors);
}

fn labels_of(place: &Node<'_>, text: &str, rule: fn(&str) -> text::Messages, errors: &mut Errors) {
    for label in text.split('.') {
        let messages = rule(label);
        for message in &messages {
            let detail = format!("validating label {}: {message}", quote(label));
            errors.push(place.invalid_as(&text.into(), &detail));
        }
        if !messages.is_empty() {
            break;
        }
    }
}

fn conditions(conditions: &Node<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let (kind, status) = (condition.get("type"), condition.get("status"));
        check::required(&kind, errors);
        let known: &[&str] = match kind.text() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        check::one_of(&status, known, errors);
        let opposite = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(opposite) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(conditions.invalid_as(kind.value(), detail));
        }
        if !seen.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
    }
}

/// Validates an update of a CertificateSigningRequest.
pub(super) fn signing_request_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    signing_changes(old, new, "", errors);
}

/// Validates the status of a CertificateSigningRequest.
pub(super) fn signing_request_status(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    signing_changes(old, new, "certificate", errors);
}

/// Validates the approval of a CertificateSigningRequest.
pub(super) fn signing_request_approval(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    signing_changes(old, new, "approval", errors);
}

/// Validates that approvals and certificates are set only through their subresources.
fn signing_changes(old: &Node<'_>, new: &Node<'_>, may_set: &str, errors: &mut Errors) {
    signing_request(new, errors);
    let place = new.get("status").get("conditions");
    let of = |object: &Node<'_>, kind: &str| {
        let conditions = object.get("status").get("conditions");
        let found = conditions
            .items()
            .filter(|of| of.get("type").text() == kind);
        found.map(|of| of.value().clone()).collect::<Vec<_>>()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(new, kind).len() < of(old, kind).len() {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(place.forbidden(&detail));
        }
    }
    if may_set != "approval" {
        for kind in ["Approved", "Denied"] {
            let (had, has) = (of(old, kind), of(new, kind));
            let verb = match has.len().cmp(&had.len()) {
                std::cmp::Ordering::Greater => "add",
                std::cmp::Ordering::Equal if has != had => "modify",
                _ => continue,
            };
            let detail = format!("updates may not {verb} a condition of type \"{kind}\"");
            errors.push(place.forbidden(&detail));
        }
    }
    let certificate = new.get("status").get("certificate");
    let before = old.get("status").get("certificate");
    if certificate.text() != before.text() {
        if may_set != "certificate" {
            let detail = "updates may not set certificate content";
            errors.push(certificate.forbidden(detail));
        } else if !before.is_empty() {
            let detail = "updates may not modify existing certificate content";
            errors.push(certificate.forbidden(detail));
        }
    }
}

/// Validates an APIService.
pub(super) fn api_service(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let (group, version) = (spec.get("group"), spec.get("version"));
    if group.is_empty() && version.text() != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(group.required(detail));
    }
    check::format_if_set(&group, text::dns_subdomain, errors);
    check::format(&version, text::dns1035_label, errors);
    for (field, max) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1_000)] {
        let priority = spec.get(field);
        if !(1..=max).contains(&priority.int().unwrap_or_default()) {
            let detail = format!("must be positive and less than {max}");
            errors.push(priority.invalid_int(&detail));
        }
    }
    let (service, bundle) = (spec.get("service"), spec.get("caBundle"));
    let insecure = spec.get("insecureSkipTLSVerify");
    if !service.is_set() {
        if !bundle.is_empty() {
            let size = format!("{} bytes", bundle.text().len() / 4 * 3);
            let detail = "local APIServices may not have a caBundle";
            errors.push(bundle.invalid_as(&size.into(), detail));
        }
        if insecure.is_true() {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(insecure.invalid(detail));
        }
        return;
    }
    check::required(&service.get("namespace"), errors);
    check::required(&service.get("name"), errors);
    let port = service.get("port");
    if port.is_set() && !text::port_number(port.int().unwrap_or_default()).is_empty() {
        let detail = format!("port is not valid: {}", text::range(1, 65535));
        errors.push(port.invalid(&detail));
    }
    if insecure.is_true() && !bundle.is_empty() {
        errors.push(insecure.invalid("may not be true if caBundle is present"));
    }
}

/// Validates the Scale of a workload.
pub(super) fn scale(object: &Node<'_>, errors: &mut Errors) {
    let place = Path::default().field("spec").field("replicas");
    check::nonnegative(&object.get("spec").get("replicas").at(place), errors);
}
