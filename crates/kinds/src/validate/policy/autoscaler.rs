//! HorizontalPodAutoscalers.

use crate::text;
use crate::validate::amount::{Amount, container_resource_name};
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

const SOURCES: &[&str] = &[
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];

/// Metric sources in the order in which Kubernetes checks them.
const MEMBERS: &[(&str, &str)] = &[
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// Validates a HorizontalPodAutoscaler in the storage version.
pub(in crate::validate) fn autoscaler(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let (min, max) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    let (low, high) = (min.int(), max.int().unwrap_or_default());
    if low.is_some_and(|low| low < 1) {
        errors.push(min.invalid("must be greater than or equal to 1"));
    }
    if high == 0 {
        errors.push(max.required("must be set and greater than 0"));
    } else if high < 0 {
        errors.push(max.invalid("must be greater than or equal to 1"));
    }
    if low.is_some_and(|low| high < low) {
        errors.push(max.invalid_int("must be greater than or equal to `minReplicas`"));
    }
    reference(&spec.get("scaleTargetRef"), true, errors);
    for metric in spec.get("metrics").items() {
        self::metric(&metric, errors);
    }
    let from_outside =
        |metric: Node<'_>| ["Object", "External"].contains(&metric.get("type").text());
    if low == Some(0) && !spec.get("metrics").items().any(from_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(spec.get("metrics").forbidden(detail));
    }
    for direction in ["scaleUp", "scaleDown"] {
        rules(&spec.get("behavior").get(direction), errors);
    }
}

/// Validates the status of a HorizontalPodAutoscaler.
pub(in crate::validate) fn autoscaler_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let counts = ["currentReplicas", "desiredReplicas"];
    check::all_nonnegative(&new.get("status"), &counts, errors);
}

fn reference(reference: &Node<'_>, grouped: bool, errors: &mut Errors) {
    for field in ["kind", "name"] {
        check::required_format(&reference.get(field), text::path_segment, errors);
    }
    let version = reference.get("apiVersion");
    if version.text().split('/').count() > 2 {
        let detail = format!("unexpected GroupVersion string: {}", version.text());
        errors.push(version.invalid(&detail));
    } else if grouped
        && !version.text().contains('/')
        && reference.get("kind").text() != "ReplicationController"
    {
        errors.push(version.invalid_text("apiVersion must specify API group"));
    }
}

fn metric(metric: &Node<'_>, errors: &mut Errors) {
    let kind = metric.get("type");
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    let known = SOURCES.contains(&kind.text());
    if !known {
        errors.push(kind.not_supported(SOURCES));
    }
    let given: Vec<_> = MEMBERS
        .iter()
        .filter(|member| metric.get(member.0).is_set())
        .collect();
    if let Some((member, _)) = given.first() {
        source(member, &metric.get(member), errors);
    }
    let expected = MEMBERS.iter().find(|member| member.1 == kind.text());
    match expected {
        Some((member, _)) if !metric.get(member).is_set() => {
            let detail = "must populate information for the given metric source";
            errors.push(metric.get(member).required(detail));
        }
        Some(_) => {}
        None => errors.push(kind.not_supported(SOURCES)),
    }
    if given.len() > 1 {
        for (member, name) in given {
            if *name != kind.text() {
                let detail = "must populate the given metric source only";
                errors.push(metric.get(member).forbidden(detail));
            }
        }
    }
}

fn source(member: &str, source: &Node<'_>, errors: &mut Errors) {
    let target = source.get("target");
    let has = |field| target.get(field).is_set();
    match member {
        "object" => reference(&source.get("describedObject"), false, errors),
        "resource" | "containerResource" => {
            let name = source.get("name");
            if name.is_empty() {
                errors.push(name.required("must specify a resource name"));
            } else if member == "containerResource" {
                container_resource_name(&name, name.text(), errors);
            }
        }
        _ => {}
    }
    match member {
        "object" | "external" | "pods" => identifier(&source.get("metric"), errors),
        "containerResource" => {
            let container = source.get("container");
            if container.is_empty() {
                errors.push(container.required("must specify a container"));
            }
            check::format_if_set(&container, text::dns_label, errors);
        }
        _ => {}
    }
    self::target(&target, errors);
    let average = target.get("averageValue");
    match member {
        "object" if !has("value") && !has("averageValue") => {
            errors.push(average.required("must set either a target value or averageValue"));
        }
        "external" if !has("value") && !has("averageValue") => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(average.required(detail));
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(target.get("value").forbidden(detail));
        }
        "pods" if !has("averageValue") => {
            errors.push(average.required("must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => {
            match (has("averageUtilization"), has("averageValue")) {
                (false, false) => {
                    let detail = "must set either a target raw value or a target utilization";
                    errors.push(target.get("averageUtilization").required(detail));
                }
                (true, true) => {
                    let detail = "may not set both a target raw value and a target utilization";
                    errors.push(average.forbidden(detail));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn identifier(metric: &Node<'_>, errors: &mut Errors) {
    let name = metric.get("name");
    if name.is_empty() {
        errors.push(name.required("must specify a metric name"));
    } else {
        check::format(&name, text::path_segment, errors);
    }
}

fn target(target: &Node<'_>, errors: &mut Errors) {
    let kind = target.get("type");
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(kind.invalid_text(detail));
    }
    for field in ["value", "averageValue"] {
        let amount = target.get(field);
        if amount.is_set() && Amount::of(&amount).sign().is_le() {
            errors.push(amount.invalid("must be positive"));
        }
    }
    let utilization = target.get("averageUtilization");
    if utilization.int().is_some_and(|percent| percent < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn rules(rules: &Node<'_>, errors: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let window = rules.get("stabilizationWindowSeconds");
    if window.int().is_some_and(|seconds| seconds < 0) {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.int().is_some_and(|seconds| seconds > 3600) {
        errors.push(window.invalid("must be less than or equal to 3600"));
    }
    let policies = ["Disabled", "Max", "Min"];
    check::one_of_if_set(&rules.get("selectPolicy"), &policies, errors);
    if rules.get("policies").is_empty() {
        errors.push(
            rules
                .get("policies")
                .required("must specify at least one Policy"),
        );
    }
    for policy in rules.get("policies").items() {
        let kinds = ["Percent", "Pods"];
        if !kinds.contains(&policy.get("type").text()) {
            errors.push(policy.get("type").not_supported(&kinds));
        }
        check::positive(&policy.get("value"), errors);
        let period = policy.get("periodSeconds");
        check::positive(&period, errors);
        if period.int().is_some_and(|seconds| seconds > 1800) {
            errors.push(period.invalid("must be less than or equal to 1800"));
        }
    }
    if Amount::of(&rules.get("tolerance")).sign().is_lt() {
        let detail = "must be greater than or equal to 0";
        errors.push(rules.get("tolerance").invalid(detail));
    }
}
