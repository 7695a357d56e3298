//! Validation of policies.

use std::collections::HashSet;

use insula_cel::identifier::RESERVED;
use insula_kinds::text;
use insula_kinds::validate::check::{self, Errors};
use insula_kinds::validate::tree::Node;

use super::rule;
use crate::expression::{Compiler, Role};

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];
/// Insula's own limits: each variable is compiled together with all earlier ones, and the
/// expressions are evaluated for every request of the space.
const MAX_VARIABLES: usize = 256;
const MAX_EXPRESSIONS: usize = 1024;

const NOTHING_TO_DO: &str = "validations or auditAnnotations must contain at least one item";
const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_AUDIT_EXPRESSION: usize = 5 * 1024;

/// The sort of policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Validate,
    Mutate,
}

/// Validates a ValidatingAdmissionPolicy.
pub(super) fn validating(old: Option<&Node<'_>>, object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let mut compiler = common(old, &spec, Verb::Validate, errors);
    variables(&spec, &mut compiler, errors);
    let (validations, annotations) = (spec.get("validations"), spec.get("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        errors.push(validations.required(NOTHING_TO_DO));
        errors.push(annotations.required(NOTHING_TO_DO));
        return;
    }
    if check_length(&validations, MAX_EXPRESSIONS, errors) {
        for one in validations.items() {
            validation(&one, &compiler, errors);
        }
    }
    if annotations.list().len() > MAX_AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(annotations.invalid(&detail));
    }
    if annotations.list().len() > MAX_EXPRESSIONS {
        return;
    }
    let name = object.get("metadata").get("name");
    let mut keys = HashSet::new();
    for annotation in annotations.items() {
        audit_annotation(name.text(), &annotation, &compiler, errors);
        let key = annotation.get("key");
        if !keys.insert(key.text()) {
            errors.push(key.duplicate());
        }
    }
}

/// Validates a MutatingAdmissionPolicy.
pub(super) fn mutating(old: Option<&Node<'_>>, object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let mut compiler = common(old, &spec, Verb::Mutate, errors);
    variables(&spec, &mut compiler, errors);
    let mutations = spec.get("mutations");
    if mutations.is_empty() {
        errors.push(mutations.required("mutations must contain at least one item"));
    }
    if check_length(&mutations, MAX_EXPRESSIONS, errors) {
        for one in mutations.items() {
            mutation(&one, &compiler, errors);
        }
    }
    check::one_of(
        &spec.get("reinvocationPolicy"),
        rule::REINVOCATION_POLICIES,
        errors,
    );
}

/// Validates the status of a policy.
pub(super) fn status(status: &Node<'_>, errors: &mut Errors) {
    let checking = status.get("typeChecking");
    for warning in checking.get("expressionWarnings").items() {
        check::required(&warning.get("warning"), errors);
        let place = warning.get("fieldRef");
        if place.text().trim().is_empty() {
            errors.push(place.required(""));
        }
    }
}

/// Validates the common part of all policies, and returns the compiler for the rest.
fn common(old: Option<&Node<'_>>, spec: &Node<'_>, verb: Verb, errors: &mut Errors) -> Compiler {
    check::one_of(&spec.get("failurePolicy"), rule::FAILURE_POLICIES, errors);
    let of = spec.get("paramKind");
    if of.is_set() {
        param_kind(&of, errors);
    }
    let constraints = spec.get("matchConstraints");
    if constraints.is_set() {
        rule::match_resources(&constraints, errors);
        check::required(&constraints.get("resourceRules"), errors);
        if verb == Verb::Mutate {
            rule::mutating_operations(&constraints, errors);
        }
    } else {
        errors.push(constraints.required(""));
    }
    // Conditions are evaluated before variables, and cannot access them.
    let compiler = Compiler::new(of.is_set());
    let unchanged = old.is_some_and(|old| {
        let old = old.get("spec");
        let same = |name| old.get(name).same(&spec.get(name));
        same("paramKind") && same("matchConditions")
    });
    if !unchanged {
        rule::match_conditions(&spec.get("matchConditions"), &compiler, errors);
    }
    let composes = verb == Verb::Mutate || !spec.get("variables").is_empty();
    if composes {
        compiler.composed()
    } else {
        compiler
    }
}

fn param_kind(of: &Node<'_>, errors: &mut Errors) {
    let version = of.get("apiVersion");
    if check::required(&version, errors) {
        group_version(&version, errors);
    }
    let kind = of.get("kind");
    if !check::required(&kind, errors) {
        return;
    }
    let faults = text::dns1035_label(&kind.text().to_lowercase());
    if !faults.is_empty() {
        let faults = faults.join(",");
        let detail = format!("may have mixed case, but should otherwise match: {faults}");
        errors.push(kind.invalid(&detail));
    }
}

fn group_version(node: &Node<'_>, errors: &mut Errors) {
    let whole = node.text();
    let (group, version) = match whole.matches('/').count() {
        _ if whole == "/" => ("", ""),
        0 => ("", whole),
        1 => whole.split_once('/').unwrap_or_default(),
        _ => {
            let detail = format!("unexpected GroupVersion string: {whole}");
            errors.push(node.invalid(&detail));
            return;
        }
    };
    let faults = text::dns_subdomain(group);
    if !group.is_empty() && !faults.is_empty() {
        errors.push(node.invalid_as(&group.into(), &faults.join(",")));
    }
    if version.is_empty() {
        errors.push(node.invalid("version must be specified"));
        return;
    }
    let faults = text::dns1035_label(version);
    if !faults.is_empty() {
        errors.push(node.invalid_as(&version.into(), &faults.join(",")));
    }
}

fn variables(spec: &Node<'_>, compiler: &mut Compiler, errors: &mut Errors) {
    if !check_length(&spec.get("variables"), MAX_VARIABLES, errors) {
        return;
    }
    for variable in spec.get("variables").items() {
        let (name, expression) = (variable.get("name"), variable.get("expression"));
        if name.text().trim().is_empty() {
            errors.push(name.required("name is not specified"));
        } else if !is_identifier(name.text()) {
            errors.push(name.invalid("must be a valid CEL identifier"));
        }
        if expression.text().trim().is_empty() {
            errors.push(expression.required("expression is not specified"));
            continue;
        }
        if let Err(fault) = compiler.declare(name.text(), expression.text()) {
            errors.push(expression.invalid(&fault));
        }
    }
}

/// Checks a list's length. Items of a list that is too long are not validated.
fn check_length(list: &Node<'_>, most: usize, errors: &mut Errors) -> bool {
    let few = list.list().len() <= most;
    if !few {
        errors.push(list.too_many(most));
    }
    few
}

fn is_identifier(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let inner = |byte: u8| letter(byte) || byte.is_ascii_digit();
    name.bytes().next().is_some_and(letter) && name.bytes().all(inner) && !RESERVED.contains(&name)
}

fn validation(validation: &Node<'_>, compiler: &Compiler, errors: &mut Errors) {
    let expression = validation.get("expression");
    if expression.text().trim().is_empty() {
        errors.push(expression.required("expression is not specified"));
    } else {
        compiles(&expression, compiler, Role::Validation, errors);
    }
    let message_expression = validation.get("messageExpression");
    if !message_expression.is_empty() && message_expression.text().trim().is_empty() {
        errors.push(message_expression.invalid("must be non-empty if specified"));
    } else if !message_expression.is_empty() {
        compiles(&message_expression, compiler, Role::Message, errors);
    }
    let message = validation.get("message");
    if !message.is_empty() && message.text().trim().is_empty() {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if message.text().trim().contains(['\n', '\r']) {
        errors.push(message.invalid("must not contain line breaks"));
    }
    check::one_of_if_set(&validation.get("reason"), REASONS, errors);
}

fn compiles(expression: &Node<'_>, compiler: &Compiler, role: Role, errors: &mut Errors) {
    if let Err(fault) = compiler.compile(expression.text(), role) {
        errors.push(expression.invalid(&fault));
    }
}

fn audit_annotation(policy: &str, annotation: &Node<'_>, compiler: &Compiler, errors: &mut Errors) {
    let key = annotation.get("key");
    if policy.is_empty() {
        errors.push(key.invalid_text("requires metadata.name be non-empty"));
    } else {
        let whole = format!("{policy}/{}", key.text());
        for fault in text::qualified_name(&whole) {
            errors.push(key.invalid_as(&whole.as_str().into(), &fault));
        }
    }
    let value = annotation.get("valueExpression");
    let source = value.text().trim();
    if source.is_empty() {
        errors.push(value.required("valueExpression is not specified"));
    } else if source.len() > MAX_AUDIT_EXPRESSION {
        let detail = format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length");
        errors.push(value.required(&detail));
    } else if let Err(fault) = compiler.compile(source, Role::Audit) {
        errors.push(value.invalid(&fault));
    }
}

fn mutation(mutation: &Node<'_>, compiler: &Compiler, errors: &mut Errors) {
    let kind = mutation.get("patchType");
    let (apply, patch) = (
        mutation.get("applyConfiguration"),
        mutation.get("jsonPatch"),
    );
    let (wanted, other, role) = match kind.text() {
        "" => return errors.push(kind.required("")),
        "JSONPatch" => (patch, apply, Role::Patch),
        "ApplyConfiguration" => (apply, patch, Role::Apply),
        _ => return errors.push(kind.not_supported(PATCH_TYPES)),
    };
    let kind = kind.text();
    if wanted.is_set() {
        let expression = wanted.get("expression");
        let source = expression.text().trim();
        if source.is_empty() {
            errors.push(expression.required(""));
        } else if let Err(fault) = compiler.compile(source, role) {
            errors.push(expression.invalid_as(&source.into(), &fault));
        }
    } else {
        let detail = format!("must be specified when patchType is {kind}");
        errors.push(wanted.required(&detail));
    }
    if other.is_set() {
        let detail = format!("must not be specified when patchType is {kind}");
        let printed = match role {
            Role::Patch => "{applyConfiguration}",
            _ => "{jsonPatch}",
        };
        errors.push(other.invalid_as(&printed.into(), &detail));
    }
}
