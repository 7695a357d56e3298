//! Validation of policy bindings.

use std::collections::HashSet;

use insula_kinds::text;
use insula_kinds::validate::check::{self, Errors};
use insula_kinds::validate::meta;
use insula_kinds::validate::tree::Node;

use super::rule;

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const NOT_FOUND: &[&str] = &["Deny", "Allow"];
const EXCLUSIVE: &str = "name and selector are mutually exclusive";
const DENY_AND_WARN: &str = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";

/// Validates a binding of a validating policy.
pub(super) fn validating(_: Option<&Node<'_>>, object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    bound(&spec, errors);
    actions(&spec.get("validationActions"), errors);
}

/// Validates a binding of a mutating policy.
pub(super) fn mutating(_: Option<&Node<'_>>, object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    bound(&spec, errors);
    rule::mutating_operations(&spec.get("matchResources"), errors);
}

fn bound(spec: &Node<'_>, errors: &mut Errors) {
    check::required_format(&spec.get("policyName"), text::dns_subdomain, errors);
    let (reference, resources) = (spec.get("paramRef"), spec.get("matchResources"));
    if reference.is_set() {
        param_ref(&reference, errors);
    }
    if resources.is_set() {
        rule::match_resources(&resources, errors);
    }
}

fn param_ref(reference: &Node<'_>, errors: &mut Errors) {
    let (name, selector) = (reference.get("name"), reference.get("selector"));
    if !name.is_empty() {
        check::format(&name, text::path_segment, errors);
        if selector.is_set() {
            errors.push(name.forbidden(EXCLUSIVE));
        }
    }
    if selector.is_set() {
        meta::selector(&selector, errors);
        if !name.is_empty() {
            errors.push(selector.forbidden(EXCLUSIVE));
        }
    }
    if name.is_empty() && !selector.is_set() {
        errors.push(reference.required("one of name or selector must be specified"));
    }
    check::one_of(&reference.get("parameterNotFoundAction"), NOT_FOUND, errors);
}

fn actions(actions: &Node<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        check::one_of_if_set(&action, ACTIONS, errors);
        if !seen.insert(action.text()) {
            errors.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errors.push(actions.invalid(DENY_AND_WARN));
    }
    if seen.is_empty() {
        errors.push(actions.required("at least one validation action is required"));
    }
}
