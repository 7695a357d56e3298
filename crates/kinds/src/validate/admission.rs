//! Webhooks and policies that admit requests. Expressions are not compiled here.

use std::collections::HashSet;

use super::check::{self, Errors};
use super::meta;
use super::text;
use super::tree::Node;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const FORMAT: &str = "; desired format: https://host[/path]";

/// A configuration of webhooks, validating or mutating.
pub(super) fn webhooks(object: &Node<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for hook in object.get("webhooks").items() {
        webhook(&hook, errors);
        review_versions(&hook.get("admissionReviewVersions"), errors);
        let name = hook.get("name");
        if !name.is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn webhook(hook: &Node<'_>, errors: &mut Errors) {
    qualified_name(&hook.get("name"), errors);
    for rule in hook.get("rules").items() {
        operations(&rule, OPERATIONS, errors);
        self::rule(&rule, errors);
    }
    check::one_of_if_any(&hook.get("failurePolicy"), &["Fail", "Ignore"], errors);
    check::one_of_if_any(&hook.get("matchPolicy"), &["Equivalent", "Exact"], errors);
    let effects = hook.get("sideEffects");
    if !effects.is_set() {
        errors.push(effects.required("must specify one of None, NoneOnDryRun"));
    }
    check::one_of_if_any(&effects, &["None", "NoneOnDryRun"], errors);
    let timeout = hook.get("timeoutSeconds");
    if timeout
        .int()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    meta::selector(&hook.get("namespaceSelector"), errors);
    meta::selector(&hook.get("objectSelector"), errors);
    let policies = ["IfNeeded", "Never"];
    check::one_of_if_any(&hook.get("reinvocationPolicy"), &policies, errors);
    let client = hook.get("clientConfig");
    let (url, service) = (client.get("url"), client.get("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => self::url(&url, errors),
        (false, true) => self::service(&service, errors),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    match_conditions(&hook.get("matchConditions"), errors);
}

fn qualified_name(name: &Node<'_>, errors: &mut Errors) {
    if !check::some(name, errors) {
        return;
    }
    let faults = text::dns_subdomain(name.text());
    if !faults.is_empty() {
        errors.push(name.invalid(&faults.join(",")));
    } else if name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(name.invalid(detail));
    }
}

fn operations(rule: &Node<'_>, known: &[&str], errors: &mut Errors) {
    let operations = rule.get("operations");
    check::some(&operations, errors);
    only_star(&operations, "operations", errors);
    for operation in operations.items() {
        check::one_of_if_any(&operation, known, errors);
    }
}

fn only_star(list: &Node<'_>, what: &str, errors: &mut Errors) {
    let star = list.items().any(|item| item.text() == "*");
    if star && list.list().len() > 1 {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(list.invalid(&detail));
    }
}

fn rule(rule: &Node<'_>, errors: &mut Errors) {
    let (groups, versions) = (rule.get("apiGroups"), rule.get("apiVersions"));
    check::some(&groups, errors);
    only_star(&groups, "API groups", errors);
    check::some(&versions, errors);
    only_star(&versions, "API versions", errors);
    for version in versions.items() {
        check::some(&version, errors);
    }
    resources(&rule.get("resources"), errors);
    check::one_of_if_any(&rule.get("scope"), &["*", "Cluster", "Namespaced"], errors);
}

fn resources(resources: &Node<'_>, errors: &mut Errors) {
    check::some(resources, errors);
    let (mut of_all, mut with_all) = (HashSet::new(), HashSet::new());
    let (mut double, mut single, mut plain) = (false, false, false);
    for item in resources.items() {
        if !check::some(&item, errors) {
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

fn url(url: &Node<'_>, errors: &mut Errors) {
    let (scheme, rest) = url.text().split_once("://").unwrap_or(("", ""));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut refuse = |part: &str, detail: String| {
        errors.push(url.invalid_as(&part.into(), &detail));
    };
    if scheme != "https" {
        refuse(
            scheme,
            format!("'https' is the only allowed URL scheme{FORMAT}"),
        );
    }
    if host.is_empty() {
        refuse(host, format!("host must be specified{FORMAT}"));
    }
    for (part, what) in [
        (user, "user information is"),
        (fragment, "fragments are"),
        (query, "query parameters are"),
    ] {
        if !part.is_empty() {
            refuse(part, format!("{what} not permitted in the URL"));
        }
    }
}

fn service(service: &Node<'_>, errors: &mut Errors) {
    check::some(&service.get("name"), errors);
    check::some(&service.get("namespace"), errors);
    let port = service.get("port");
    if port.is_set() && !text::port_number(port.int().unwrap_or_default()).is_empty() {
        let detail = format!("port is not valid: {}", text::range(1, 65535));
        errors.push(port.invalid(&detail));
    }
    let path = service.get("path");
    if matches!(path.text(), "" | "/") {
        return;
    }
    if path.text() == "//" {
        errors.push(path.invalid("segment[0] may not be empty"));
        return;
    }
    if !path.text().starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    // Whatever comes first is taken for the slash.
    let mut letters = path.text().chars();
    letters.next();
    let rest = letters.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(path.invalid(&format!("segment[{index}] may not be empty")));
            continue;
        }
        for fault in text::dns_subdomain(segment) {
            errors.push(path.invalid(&format!("segment[{index}]: {fault}")));
        }
    }
}

fn match_conditions(conditions: &Node<'_>, errors: &mut Errors) {
    if conditions.list().len() > 64 {
        errors.push(conditions.too_many(64));
    }
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let (name, expression) = (condition.get("name"), condition.get("expression"));
        if expression.text().trim().is_empty() {
            errors.push(expression.required(""));
        }
        check::form_of_some(&name, text::qualified_name, errors);
        if !name.is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn review_versions(versions: &Node<'_>, errors: &mut Errors) {
    if versions.is_empty() {
        errors.push(versions.required("must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            errors.push(version.invalid("duplicate version"));
            continue;
        }
        check::form(&version, text::dns1035_label, errors);
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        errors.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}

/// A policy, validating or mutating: what it matches, and that its parts have names.
pub(super) fn policy(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    check::one_of_if_any(&spec.get("failurePolicy"), &["Fail", "Ignore"], errors);
    let constraints = spec.get("matchConstraints");
    if !constraints.is_set() {
        errors.push(constraints.required(""));
    } else {
        match_resources(&constraints, errors);
        if constraints.get("resourceRules").is_empty() {
            errors.push(constraints.get("resourceRules").required(""));
        }
    }
    match_conditions(&spec.get("matchConditions"), errors);
}

fn match_resources(constraints: &Node<'_>, errors: &mut Errors) {
    check::one_of_if_any(
        &constraints.get("matchPolicy"),
        &["Equivalent", "Exact"],
        errors,
    );
    meta::selector(&constraints.get("namespaceSelector"), errors);
    meta::selector(&constraints.get("objectSelector"), errors);
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints.get(list).items() {
            operations(&rule, OPERATIONS, errors);
            self::rule(&rule, errors);
        }
    }
}

/// A binding of a policy.
pub(super) fn policy_binding(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    check::form_of_some(&spec.get("policyName"), text::dns_subdomain, errors);
    if spec.get("matchResources").is_set() {
        match_resources(&spec.get("matchResources"), errors);
    }
}

/// A binding of a validating policy, which says what is done.
pub(super) fn validating_binding(object: &Node<'_>, errors: &mut Errors) {
    policy_binding(object, errors);
    let actions = object.get("spec").get("validationActions");
    check::some(&actions, errors);
    let mut seen = HashSet::new();
    for action in actions.items() {
        check::one_of_if_any(&action, &["Audit", "Deny", "Warn"], errors);
        if !seen.insert(action.text()) {
            errors.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(actions.invalid(detail));
    }
}
