//! Validation of match rules, resources and conditions.

use std::collections::HashSet;

use insula_kinds::text;
use insula_kinds::validate::check::{self, Errors};
use insula_kinds::validate::meta;
use insula_kinds::validate::tree::Node;

use crate::expression::{Compiler, Role};

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const MAX_CONDITIONS: usize = 64;

/// Validates a rule with operations.
pub(super) fn with_operations(rule: &Node<'_>, errors: &mut Errors) {
    let operations = rule.get("operations");
    check::required(&operations, errors);
    only_star(&operations, "operations", errors);
    for operation in operations.items() {
        check::one_of_if_set(&operation, OPERATIONS, errors);
    }
    let (groups, versions) = (rule.get("apiGroups"), rule.get("apiVersions"));
    check::required(&groups, errors);
    only_star(&groups, "API groups", errors);
    check::required(&versions, errors);
    only_star(&versions, "API versions", errors);
    for version in versions.items() {
        check::required(&version, errors);
    }
    resources(&rule.get("resources"), errors);
    check::one_of_if_set(&rule.get("scope"), SCOPES, errors);
}

/// Validates the resources that a policy or binding matches.
pub(super) fn match_resources(constraints: &Node<'_>, errors: &mut Errors) {
    let policy = constraints.get("matchPolicy");
    if policy.is_set() {
        check::one_of_if_set(&policy, MATCH_POLICIES, errors);
    } else {
        errors.push(policy.required(""));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = constraints.get(name);
        if selector.is_set() {
            meta::selector(&selector, errors);
        } else {
            errors.push(selector.required(""));
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints.get(list).items() {
            resource_names(&rule.get("resourceNames"), errors);
            with_operations(&rule, errors);
        }
    }
}

/// Checks that no rule mutates on deletion. The error does not name the rule, as in
/// Kubernetes.
pub(super) fn mutating_operations(constraints: &Node<'_>, errors: &mut Errors) {
    let rules = constraints.get("resourceRules");
    let place = rules.get("operations").path;
    for rule in rules.items() {
        for operation in rule.get("operations").items() {
            check::one_of_if_set(&operation.at(place.clone()), MUTATING_OPERATIONS, errors);
        }
    }
}

/// Validates match conditions.
pub(super) fn match_conditions(conditions: &Node<'_>, compiler: &Compiler, errors: &mut Errors) {
    if conditions.list().len() > MAX_CONDITIONS {
        errors.push(conditions.too_many(MAX_CONDITIONS));
    }
    // Kubernetes compiles all of them, however many there are; Insula bounds the work.
    if conditions.list().len() > 16 * MAX_CONDITIONS {
        return;
    }
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let (name, expression) = (condition.get("name"), condition.get("expression"));
        let source = expression.text().trim();
        if source.is_empty() {
            errors.push(expression.required(""));
        } else if let Err(fault) = compiler.compile(source, Role::Condition) {
            errors.push(expression.invalid_as(&source.into(), &fault));
        }
        check::required_format(&name, text::qualified_name, errors);
        if !name.is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn only_star(list: &Node<'_>, what: &str, errors: &mut Errors) {
    let star = list.items().any(|item| item.text() == "*");
    if star && list.list().len() > 1 {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(list.invalid(&detail));
    }
}

fn resource_names(names: &Node<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for name in names.items() {
        check::format(&name, text::path_segment, errors);
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn resources(resources: &Node<'_>, errors: &mut Errors) {
    check::required(resources, errors);
    let (mut of_all, mut with_all) = (HashSet::new(), HashSet::new());
    let (mut double, mut single, mut plain) = (false, false, false);
    for item in resources.items() {
        if !check::required(&item, errors) {
            continue;
        }
        let whole = item.text();
        double |= whole == "*/*";
        single |= whole == "*";
        let Some((resource, sub)) = whole.split_once('/') else {
            plain = whole != "*";
            continue;
        };
        if with_all.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {whole}");
            errors.push(item.invalid(&detail));
        }
        if of_all.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {whole}");
            errors.push(item.invalid(&detail));
        }
        if sub == "*" {
            with_all.insert(resource);
        }
        if resource == "*" {
            of_all.insert(sub);
        }
    }
    if resources.list().len() > 1 && double {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(resources.invalid(detail));
    }
    if single && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(resources.invalid(detail));
    }
}
