//! Validation of admission configuration, in Kubernetes' order and wording.
//!
//! Extends `insula_kinds::validate` with the validation of CEL expressions.

mod binding;
mod client;
mod policy;
mod rule;
mod webhook;

use insula_kinds::validate::check::Errors;
use insula_kinds::validate::meta;
use insula_kinds::validate::tree::Node;
use insula_kinds::{FieldError, Kind, Object};

pub use client::{service, url};

/// The API group of admission configuration.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Suffix of names reserved for configuration from static manifests.
const STATIC: &str = ".static.k8s.io";

/// The result of validating a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationResult {
    /// The errors.
    pub errors: Vec<FieldError>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Reports whether objects of this kind are validated here.
pub fn handles(kind: &Kind) -> bool {
    kind.group == GROUP && rules(&kind.kind).is_some()
}

/// Validates a new configuration.
pub fn create(kind: &Kind, object: &Object) -> ValidationResult {
    let new = Node::root(object);
    let mut errors = Vec::new();
    meta::create(kind, &new, &mut errors);
    if let Some(rules) = rules(&kind.kind) {
        rules(None, &new, &mut errors);
    }
    ValidationResult {
        errors,
        warnings: warnings(kind, &new),
    }
}

/// Validates an update of a configuration or of its subresource. Violations that existed
/// before and are unchanged remain allowed.
pub fn update(
    kind: &Kind,
    subresource: Option<&str>,
    old: &Object,
    new: &Object,
) -> ValidationResult {
    let (old, new) = (Node::root(old), Node::root(new));
    let mut errors = Vec::new();
    meta::update(&old, &new, &mut errors);
    if subresource == Some("status") {
        policy::status(&new.get("status"), &mut errors);
    } else if let Some(rules) = rules(&kind.kind) {
        meta::create(kind, &new, &mut errors);
        rules(Some(&old), &new, &mut errors);
    }
    ValidationResult {
        errors,
        warnings: warnings(kind, &new),
    }
}

/// Validates a configuration, given its old state if there is one.
type Rules = fn(Option<&Node<'_>>, &Node<'_>, &mut Errors);

fn rules(kind: &str) -> Option<Rules> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => webhook::all,
        "ValidatingAdmissionPolicy" => policy::validating,
        "MutatingAdmissionPolicy" => policy::mutating,
        "ValidatingAdmissionPolicyBinding" => binding::validating,
        "MutatingAdmissionPolicyBinding" => binding::mutating,
        _ => return None,
    })
}

fn warnings(kind: &Kind, object: &Node<'_>) -> Vec<String> {
    let name = object.get("metadata").get("name").text();
    if !handles(kind) || !name.ends_with(STATIC) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with {STATIC:?} are reserved for static manifest-based \
         configurations and cannot be managed via the API"
    )]
}
