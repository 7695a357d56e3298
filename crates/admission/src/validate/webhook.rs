//! Validation of webhook configurations.

use std::collections::HashSet;

use insula_kinds::text;
use insula_kinds::validate::check::{self, Errors};
use insula_kinds::validate::meta;
use insula_kinds::validate::tree::Node;

use super::{client, rule};
use crate::expression::Compiler;

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const ANY_SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The checks that apply. A violation that existed before an update remains allowed.
struct Requirements {
    conditions: bool,
    no_side_effects: bool,
    known_version: bool,
    unique_names: bool,
    right_selectors: bool,
}

impl Requirements {
    fn of(old: Option<&Node<'_>>, new: &Node<'_>) -> Self {
        let Some(old) = old else {
            return Self {
                conditions: true,
                no_side_effects: true,
                known_version: true,
                unique_names: true,
                right_selectors: true,
            };
        };
        let hooks: Vec<_> = old.get("webhooks").items().collect();
        let mut names = HashSet::new();
        Self {
            conditions: !same_conditions(old, new),
            no_side_effects: hooks
                .iter()
                .all(|hook| SIDE_EFFECTS.contains(&hook.get("sideEffects").text())),
            known_version: hooks.iter().all(|hook| {
                let versions = hook.get("admissionReviewVersions");
                versions.is_empty() || knows_a_version(&versions)
            }),
            unique_names: hooks
                .iter()
                .all(|hook| names.insert(hook.get("name").text())),
            right_selectors: hooks.iter().all(|hook| selector_faults(hook).is_empty()),
        }
    }
}

/// Validates a webhook configuration.
pub(super) fn all(old: Option<&Node<'_>>, new: &Node<'_>, errors: &mut Errors) {
    let requirements = Requirements::of(old, new);
    let mut names = HashSet::new();
    for hook in new.get("webhooks").items() {
        webhook(&hook, &requirements, errors);
        review_versions(&hook.get("admissionReviewVersions"), &requirements, errors);
        let name = hook.get("name");
        if requirements.unique_names && !name.is_empty() && !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn webhook(hook: &Node<'_>, requirements: &Requirements, errors: &mut Errors) {
    qualified_name(&hook.get("name"), errors);
    for rule in hook.get("rules").items() {
        rule::with_operations(&rule, errors);
    }
    check::one_of_if_set(&hook.get("failurePolicy"), rule::FAILURE_POLICIES, errors);
    check::one_of_if_set(&hook.get("matchPolicy"), rule::MATCH_POLICIES, errors);
    side_effects(&hook.get("sideEffects"), requirements, errors);
    let timeout = hook.get("timeoutSeconds");
    let out_of_range = |seconds| !(1..=30).contains(&seconds);
    if timeout.int().is_some_and(out_of_range) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    if requirements.right_selectors {
        errors.extend(selector_faults(hook));
    }
    let reinvocation = hook.get("reinvocationPolicy");
    check::one_of_if_set(&reinvocation, rule::REINVOCATION_POLICIES, errors);
    client::config(&hook.get("clientConfig"), errors);
    if requirements.conditions {
        let compiler = Compiler::new(false);
        rule::match_conditions(&hook.get("matchConditions"), &compiler, errors);
    }
}

fn qualified_name(name: &Node<'_>, errors: &mut Errors) {
    if !check::required(name, errors) {
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

fn side_effects(effects: &Node<'_>, requirements: &Requirements, errors: &mut Errors) {
    let allowed: &[&str] = if requirements.no_side_effects {
        &SIDE_EFFECTS
    } else {
        &ANY_SIDE_EFFECTS
    };
    if !effects.is_set() {
        let detail = format!("must specify one of {}", allowed.join(", "));
        errors.push(effects.required(&detail));
    }
    check::one_of_if_set(effects, allowed, errors);
}

fn selector_faults(hook: &Node<'_>) -> Errors {
    let mut errors = Vec::new();
    meta::selector(&hook.get("namespaceSelector"), &mut errors);
    meta::selector(&hook.get("objectSelector"), &mut errors);
    errors
}

fn review_versions(versions: &Node<'_>, requirements: &Requirements, errors: &mut Errors) {
    if versions.is_empty() {
        let detail = format!("must specify one of {}", VERSIONS.join(", "));
        errors.push(versions.required(&detail));
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            errors.push(version.invalid("duplicate version"));
            continue;
        }
        check::format(&version, text::dns1035_label, errors);
    }
    if requirements.known_version && !knows_a_version(versions) {
        let detail = format!("must include at least one of {}", VERSIONS.join(", "));
        errors.push(versions.invalid(&detail));
    }
}

fn knows_a_version(versions: &Node<'_>) -> bool {
    versions
        .items()
        .any(|version| VERSIONS.contains(&version.text()))
}

/// Reports whether the match conditions of all webhooks are unchanged.
fn same_conditions(old: &Node<'_>, new: &Node<'_>) -> bool {
    let of = |of: &Node<'_>| -> Vec<_> {
        let hooks = of.get("webhooks").list().iter();
        hooks
            .map(|hook| hook.get("matchConditions").cloned())
            .collect()
    };
    of(old) == of(new)
}
