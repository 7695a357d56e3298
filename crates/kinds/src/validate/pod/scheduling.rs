//! Affinity, topology spread and tolerations.

use std::collections::HashSet;

use crate::FieldError;
use crate::text;
use crate::validate::check::{self, Errors};
use crate::validate::meta;
use crate::validate::tree::Node;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: &str = "must be in the range 1-100";
const OPERATOR: &str = "not a valid selector operator";

/// Validates a pod's affinity to nodes and to other pods.
pub(super) fn affinity(affinity: &Node<'_>, errors: &mut Errors) {
    let nodes = affinity.get("nodeAffinity");
    if nodes.get(REQUIRED).is_set() {
        node_selector(&nodes.get(REQUIRED), errors);
    }
    for term in nodes.get(PREFERRED).items() {
        weight(&term, errors);
        node_term(&term.get("preference"), false, errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(field);
        for term in pods.get(REQUIRED).items() {
            pod_term(&term, errors);
        }
        for term in pods.get(PREFERRED).items() {
            weight(&term, errors);
            pod_term(&term.get("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Node<'_>, errors: &mut Errors) {
    let weight = term.get("weight");
    if !(1..=100).contains(&weight.int().unwrap_or_default()) {
        errors.push(weight.invalid_int(WEIGHT));
    }
}

/// Validates a required node selector.
pub(in crate::validate) fn node_selector(selector: &Node<'_>, errors: &mut Errors) {
    let terms = selector.get("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in terms.items() {
        node_term(&term, true, errors);
    }
}

/// Validates a node selector term. Kubernetes does not check values in preferences.
fn node_term(term: &Node<'_>, check_values: bool, errors: &mut Errors) {
    for requirement in term.get("matchExpressions").items() {
        node_labels(&requirement, check_values, errors);
    }
    for requirement in term.get("matchFields").items() {
        node_fields(&requirement, errors);
    }
}

fn node_labels(requirement: &Node<'_>, check_values: bool, errors: &mut Errors) {
    let (operator, values) = (requirement.get("operator"), requirement.get("values"));
    let count = values.list().len();
    match operator.text() {
        "In" | "NotIn" if count == 0 => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(values.forbidden(detail));
        }
        "Gt" | "Lt" if count != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(values.required(detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(operator.invalid_text(OPERATOR)),
    }
    check::format(&requirement.get("key"), text::qualified_name, errors);
    if check_values {
        for value in values.items() {
            check::format(&value, text::label_value, errors);
        }
    }
}

fn node_fields(requirement: &Node<'_>, errors: &mut Errors) {
    let (operator, values) = (requirement.get("operator"), requirement.get("values"));
    match operator.text() {
        "In" | "NotIn" => {
            if values.list().len() != 1 {
                let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.push(values.required(detail));
            }
        }
        _ => errors.push(operator.invalid_text(OPERATOR)),
    }
    let key = requirement.get("key");
    if key.text() != "metadata.name" {
        errors.push(key.invalid_text("not a valid field selector key"));
        return;
    }
    for value in values.items() {
        check::format(&value, text::dns_subdomain, errors);
    }
}

fn pod_term(term: &Node<'_>, errors: &mut Errors) {
    meta::selector(&term.get("labelSelector"), errors);
    meta::selector(&term.get("namespaceSelector"), errors);
    for namespace in term.get("namespaces").items() {
        let namespace = namespace.at(term.path.field("namespace"));
        check::format(&namespace, text::dns_label, errors);
    }
    label_keys(term, "matchLabelKeys", errors);
    label_keys(term, "mismatchLabelKeys", errors);
    let key = term.get("topologyKey");
    if key.is_empty() {
        errors.push(key.required("can not be empty"));
    }
    check::format(&key, text::qualified_name, errors);
}

fn label_keys<'a>(term: &Node<'a>, field: &'a str, errors: &mut Errors) {
    let keys = term.get(field);
    if !keys.is_empty() && !term.get("labelSelector").is_set() {
        errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
        return;
    }
    for key in keys.items() {
        check::format(&key, text::qualified_name, errors);
    }
}

/// Validates topology spread constraints.
pub(super) fn spread(constraints: &Node<'_>, errors: &mut Errors) {
    let all: Vec<_> = constraints.items().collect();
    for (index, constraint) in all.iter().enumerate() {
        check::positive(&constraint.get("maxSkew"), errors);
        let (key, action) = (
            constraint.get("topologyKey"),
            constraint.get("whenUnsatisfiable"),
        );
        if key.is_empty() {
            errors.push(key.required("can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action.text()) {
            errors.push(action.not_supported(&actions));
        }
        let again = all[index + 1..].iter().any(|other| {
            other.get("topologyKey").text() == key.text()
                && other.get("whenUnsatisfiable").text() == action.text()
        });
        if again {
            let place = constraint.path.field("{topologyKey, whenUnsatisfiable}");
            let pair = format!("{{{}, {}}}", key.text(), action.text());
            errors.push(FieldError::duplicate(place.to_string(), &pair.into()));
        }
        minimal_domains(constraint, action.text(), errors);
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            check::one_of_if_set(&constraint.get(field), &["Honor", "Ignore"], errors);
        }
        label_keys(constraint, "matchLabelKeys", errors);
        meta::selector(&constraint.get("labelSelector"), errors);
    }
}

fn minimal_domains(constraint: &Node<'_>, action: &str, errors: &mut Errors) {
    let domains = constraint.get("minDomains");
    if !domains.is_set() {
        return;
    }
    check::positive(&domains, errors);
    if action != "DoNotSchedule" {
        let detail =
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(domains.invalid(&detail));
    }
}

/// Validates tolerations.
pub(in crate::validate) fn tolerations(tolerations: &Node<'_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        check::format_if_set(&key, text::qualified_name, errors);
        if key.is_empty() && operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(operator.invalid_text(detail));
        }
        if toleration.get("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(effect.invalid_text(detail));
        }
        match operator.text() {
            "Equal" | "" => {
                let messages = text::label_value(value.text());
                if !messages.is_empty() {
                    errors.push(operator.invalid_as(value.value(), &messages.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.push(operator.invalid_as(value.value(), detail));
                }
            }
            "Lt" | "Gt" => {
                errors.push(operator.not_supported(&["Equal", "Exists", "Lt", "Gt"]));
            }
            _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            taint_effect(&effect, errors);
        }
    }
}

/// Validates the effect of a taint.
pub(in crate::validate) fn taint_effect(effect: &Node<'_>, errors: &mut Errors) {
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    check::one_of(effect, &known, errors);
}

/// Validates topology selector terms of storage classes.
pub(in crate::validate) fn topology_terms(terms: &Node<'_>, errors: &mut Errors) {
    for term in terms.items() {
        let mut keys = HashSet::new();
        for requirement in term.get("matchLabelExpressions").items() {
            let mut seen = HashSet::new();
            check::required(&requirement.get("values"), errors);
            for value in requirement.get("values").items() {
                if !seen.insert(value.text()) {
                    errors.push(value.duplicate());
                }
            }
            let key = requirement.get("key");
            check::format(&key, text::qualified_name, errors);
            if !keys.insert(key.text()) {
                errors.push(key.duplicate());
            }
        }
    }
}
