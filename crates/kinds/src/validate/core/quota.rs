//! ResourceQuotas and LimitRanges.

use std::collections::{BTreeSet, HashSet};

use crate::text;
use crate::validate::amount::{self, Amount};
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];

/// Validates a ResourceQuota.
pub(in crate::validate) fn resource_quota(object: &Node<'_>, errors: &mut Errors) {
    quota_spec(&object.get("spec"), errors);
    quota_status(object, object, errors);
}

/// Validates an update of a ResourceQuota.
pub(in crate::validate) fn resource_quota_update(
    old: &Node<'_>,
    new: &Node<'_>,
    errors: &mut Errors,
) {
    quota_spec(&new.get("spec"), errors);
    let scopes = new.get("spec").get("scopes");
    let set = |of: &Node<'_>| -> HashSet<String> {
        let scopes = of.get("spec").get("scopes");
        scopes
            .items()
            .map(|scope| scope.text().to_owned())
            .collect()
    };
    if set(old) != set(new) {
        errors.push(scopes.invalid(check::IMMUTABLE));
    }
}

/// Validates the status of a ResourceQuota.
pub(in crate::validate) fn quota_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    for list in ["hard", "used"] {
        quota_list(&new.get("status").get(list), errors);
    }
}

fn quota_list(list: &Node<'_>, errors: &mut Errors) {
    for (resource, amount) in list.entries() {
        amount::quota_resource_name(&amount, resource, errors);
        amount::resource_value(&amount, resource, errors);
    }
}

fn quota_spec(spec: &Node<'_>, errors: &mut Errors) {
    quota_list(&spec.get("hard"), errors);
    let scopes = spec.get("scopes");
    for scope in scopes.items() {
        if !SCOPES.contains(&scope.text()) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        incompatible_scope(spec, scope.text(), &scopes, errors);
    }
    conflicting_scopes(&scopes, scopes.items(), errors);
    let place = spec.path.field("scopeSelector").field("matchExpressions");
    let requirements = spec.get("scopeSelector").get("matchExpressions");
    for requirement in requirements.items() {
        scope_requirement(spec, &requirement.at(place.clone()), errors);
    }
    let names = requirements
        .items()
        .map(|requirement| requirement.get("scopeName"));
    conflicting_scopes(&requirements, names, errors);
}

fn incompatible_scope(spec: &Node<'_>, scope: &str, place: &Node<'_>, errors: &mut Errors) {
    let compute = [
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
        "pods",
    ];
    for (resource, _) in spec.get("hard").entries() {
        let fits = match scope {
            "BestEffort" => resource == "pods",
            "VolumeAttributesClass" => {
                ["persistentvolumeclaims", "requests.storage"].contains(&resource)
            }
            known if SCOPES.contains(&known) => compute.contains(&resource),
            _ => true,
        };
        if amount::is_quota_resource(resource) && !fits {
            errors.push(place.invalid("unsupported scope applied to resource"));
        }
    }
}

fn conflicting_scopes<'a>(
    place: &Node<'a>,
    scopes: impl Iterator<Item = Node<'a>>,
    errors: &mut Errors,
) {
    let scopes: HashSet<_> = scopes.map(|scope| scope.text()).collect();
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(place.invalid("conflicting scopes"));
        }
    }
}

fn scope_requirement(spec: &Node<'_>, requirement: &Node<'_>, errors: &mut Errors) {
    let (scope, operator) = (requirement.get("scopeName"), requirement.get("operator"));
    let values = requirement.get("values");
    if !SCOPES.contains(&scope.text()) {
        errors.push(scope.invalid_text("unsupported scope"));
    }
    incompatible_scope(spec, scope.text(), requirement, errors);
    let valued = ["PriorityClass", "VolumeAttributesClass"];
    let known = SCOPES.contains(&scope.text()) && !valued.contains(&scope.text());
    if known && operator.text() != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(operator.invalid_text(detail));
    }
    match operator.text() {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(values.required(detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(values.invalid(detail));
            }
        }
        _ => errors.push(operator.invalid_text("not a valid selector operator")),
    }
}

/// Validates a LimitRange.
pub(in crate::validate) fn limit_range(object: &Node<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for limit in object.get("spec").get("limits").items() {
        let kind = limit.get("type");
        limit_type(&kind, errors);
        if !seen.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
        for list in ["max", "min"] {
            limit_names(&limit, list, errors);
        }
        for list in ["default", "defaultRequest"] {
            if kind.text() != "Pod" {
                limit_names(&limit, list, errors);
            } else if !limit.get(list).is_empty() {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(limit.get(list).forbidden(detail));
            }
        }
        let storage = |list| limit.get(list).get("storage").is_set();
        if kind.text() == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
            let detail =
                "either minimum or maximum storage value is required, but neither was provided";
            errors.push(limit.get("limits").required(detail));
        }
        limit_names(&limit, "maxLimitRequestRatio", errors);
        limit_values(&limit, errors);
    }
}

fn limit_type(kind: &Node<'_>, errors: &mut Errors) {
    let messages = text::qualified_name(kind.text());
    let known = ["Pod", "Container", "PersistentVolumeClaim"];
    if messages.is_empty() && !kind.text().contains('/') && !known.contains(&kind.text()) {
        errors.push(kind.invalid_text("must be a standard limit type or fully qualified"));
    }
    for message in messages {
        errors.push(kind.invalid_text(&message));
    }
}

fn limit_names<'a>(limit: &Node<'a>, list: &'a str, errors: &mut Errors) {
    let of_containers = ["Pod", "Container"].contains(&limit.get("type").text());
    for (resource, amount) in limit.get(list).entries() {
        if of_containers {
            amount::container_resource_name(&amount, resource, errors);
        } else {
            amount::resource_name(&amount, resource, errors);
        }
    }
}

fn limit_values(limit: &Node<'_>, errors: &mut Errors) {
    let mut resources = BTreeSet::new();
    for list in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        resources.extend(limit.get(list).entries().map(|(resource, _)| resource));
    }
    // Pairs that must be ordered: the two lists, the path of the error, and the printed
    // names.
    let rules = [
        ("min", "max", "min", "min", "min value", "max value"),
        (
            "min",
            "defaultRequest",
            "defaultRequest",
            "defaultRequest",
            "min value",
            "default request value",
        ),
        (
            "defaultRequest",
            "max",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "max value",
        ),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            "default request value",
            "default limit value",
        ),
        (
            "min",
            "default",
            "default",
            "min",
            "min value",
            "default value",
        ),
        (
            "default",
            "max",
            "default",
            "max",
            "default value",
            "max value",
        ),
    ];
    for resource in resources {
        let at = |list| limit.get(list).entry(resource);
        for (low, high, place, shown, low_name, high_name) in rules {
            let (low, high) = (at(low), at(high));
            if low.is_set() && high.is_set() && Amount::of(&low) > Amount::of(&high) {
                let detail = format!(
                    "{low_name} {} is greater than {high_name} {}",
                    low.text(),
                    high.text()
                );
                errors.push(at(place).invalid_as(at(shown).value(), &detail));
            }
        }
        limit_ratio(&at("min"), &at("max"), &at("maxLimitRequestRatio"), errors);
        let (default, request) = (at("default"), at("defaultRequest"));
        let differ =
            default.is_set() && request.is_set() && Amount::of(&default) != Amount::of(&request);
        if differ && !amount::may_overcommit(resource) {
            let detail = format!(
                "default value {} must equal to defaultRequest value {} in {resource}",
                default.text(),
                request.text()
            );
            errors.push(request.invalid(&detail));
        }
    }
}

fn limit_ratio(min: &Node<'_>, max: &Node<'_>, ratio: &Node<'_>, errors: &mut Errors) {
    let one = Amount::parse("1").unwrap_or_default();
    if !ratio.is_set() {
        return;
    }
    if Amount::of(ratio) < one {
        errors.push(ratio.invalid(&format!("ratio {} is less than 1", ratio.text())));
    }
    if min.is_set() && max.is_set() {
        let max = Amount::of(max).ratio(Amount::of(min));
        if Amount::of(ratio).ratio(one) > max {
            let detail = format!("ratio {} is greater than max/min = {max:.6}", ratio.text());
            errors.push(ratio.invalid(&detail));
        }
    }
}
