//! Validation of `x-kubernetes-validations`, except for the expressions.

use insula_kinds::FieldError;

use super::field_path;
use super::place::{Place, Report};
use super::print;
use super::props::Props;
use super::structural;

const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Validates the rules of a schema, except for their expressions. `supported` says that the whole
/// schema can be checked for being structural.
pub(super) fn validate_rules(
    schema: Props<'_>,
    place: Place<'_>,
    supported: bool,
    report: &mut Report,
) {
    let rules = "x-kubernetes-validations";
    let at = place.field(rules);
    let mut followable = None;
    for (index, rule) in schema.children(rules).enumerate() {
        let at = at.index(index);
        messages(rule, at, report);
        if let Some(reason) = rule.maybe_text("reason")
            && !REASONS.contains(&reason)
        {
            let printed = print::json(rule.get("reason"));
            report.add(at.field("reason"), |field| {
                FieldError::not_supported_printed(field, &printed, REASONS)
            });
        }
        let path = rule.text("fieldPath");
        if path.is_empty() {
            continue;
        }
        let mut refuse = |detail| report.invalid_text(at.field("fieldPath"), path, detail);
        if path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if has_newlines(path) {
            refuse("must not contain line breaks");
        }
        // Paths cannot be resolved in an unsupported schema.
        let followable = *followable
            .get_or_insert_with(|| supported || structural::unsupported(schema).is_none());
        if followable && field_path::follow(path, schema, true).is_err() {
            refuse("must be a valid path");
        }
    }
}

fn messages(rule: Props<'_>, at: Place<'_>, report: &mut Report) {
    let (text, message) = (rule.text("rule"), rule.text("message"));
    if text.trim().is_empty() {
        report.required(at.field("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        let detail = "must be non-empty if specified";
        report.invalid_text(at.field("message"), message, detail);
    } else if has_newlines(message.trim()) {
        let detail = "must not contain line breaks";
        report.invalid_text(at.field("message"), message, detail);
    } else if has_newlines(text.trim()) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        report.required(at.field("message"), detail);
    }
    let expression = rule.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        report.required(at.field("messageExpression"), detail);
    }
}

fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}
