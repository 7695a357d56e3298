//! Roles and role bindings.

use super::check::{self, Errors};
use super::meta;
use super::tree::Node;
use crate::FieldError;
use crate::text;
use insula_gotext::quote;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Validates a Role.
pub(super) fn role(object: &Node<'_>, errors: &mut Errors) {
    for rule in object.get("rules").items() {
        policy_rule(&rule, true, errors);
    }
}

/// Validates a ClusterRole.
pub(super) fn cluster_role(object: &Node<'_>, errors: &mut Errors) {
    for rule in object.get("rules").items() {
        policy_rule(&rule, false, errors);
    }
    let aggregation = object.get("aggregationRule");
    let selectors = aggregation.get("clusterRoleSelectors");
    if aggregation.is_set() && selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(selectors.required(detail));
    }
    for selector in selectors.items() {
        meta::selector(&selector, errors);
    }
}

fn policy_rule(rule: &Node<'_>, namespaced: bool, errors: &mut Errors) {
    if rule.get("verbs").is_empty() {
        errors.push(
            rule.get("verbs")
                .required("verbs must contain at least one value"),
        );
    }
    let paths = rule.get("nonResourceURLs");
    if !paths.is_empty() {
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(paths.invalid(detail));
        }
        let resources = ["apiGroups", "resources", "resourceNames"];
        if resources.iter().any(|field| !rule.get(field).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(paths.invalid(detail));
        }
        return;
    }
    if rule.get("apiGroups").is_empty() {
        let detail = "resource rules must supply at least one api group";
        errors.push(rule.get("apiGroups").required(detail));
    }
    if rule.get("resources").is_empty() {
        let detail = "resource rules must supply at least one resource";
        errors.push(rule.get("resources").required(detail));
    }
}

/// Validates a RoleBinding.
pub(super) fn role_binding(object: &Node<'_>, errors: &mut Errors) {
    binding(object, &["Role", "ClusterRole"], true, errors);
}

/// Validates a ClusterRoleBinding.
pub(super) fn cluster_role_binding(object: &Node<'_>, errors: &mut Errors) {
    binding(object, &["ClusterRole"], false, errors);
}

fn binding(object: &Node<'_>, kinds: &[&str], namespaced: bool, errors: &mut Errors) {
    let role = object.get("roleRef");
    if role.get("apiGroup").text() != GROUP {
        errors.push(role.get("apiGroup").not_supported(&[GROUP]));
    }
    if !kinds.contains(&role.get("kind").text()) {
        errors.push(role.get("kind").not_supported(kinds));
    }
    check::required_format(&role.get("name"), text::path_segment, errors);
    for subject in object.get("subjects").items() {
        self::subject(&subject, namespaced, errors);
    }
}

fn subject(subject: &Node<'_>, namespaced: bool, errors: &mut Errors) {
    let (name, group) = (subject.get("name"), subject.get("apiGroup"));
    check::required(&name, errors);
    match subject.get("kind").text() {
        "ServiceAccount" => {
            check::format_if_set(&name, text::dns_subdomain, errors);
            if !group.is_empty() {
                errors.push(group.not_supported(&[""]));
            }
            if !namespaced {
                check::required(&subject.get("namespace"), errors);
            }
        }
        "User" | "Group" => {
            if group.text() != GROUP {
                errors.push(group.not_supported(&[GROUP]));
            }
        }
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(subject.get("kind").not_supported(&kinds));
        }
    }
}

/// Validates an update of a binding: the role is immutable.
pub(super) fn role_ref_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let role = new.get("roleRef");
    if role.same(&old.get("roleRef")) {
        return;
    }
    // Go prints the struct by Go field names.
    let text = |field| quote(role.get(field).text());
    let printed = format!(
        r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
        text("apiGroup"),
        text("kind"),
        text("name")
    );
    let place = role.path.to_string();
    errors.push(FieldError::invalid_printed(
        place,
        &printed,
        "cannot change roleRef",
    ));
}
