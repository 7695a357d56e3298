//! The status of Jobs.

use crate::FieldError;
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

/// Validates the status of a Job. Rules added after the first release of Jobs apply only to
/// changed fields.
pub(in crate::validate) fn job_status(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (before, after) = (old.get("status"), new.get("status"));
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    check::all_nonnegative(&after, &counts, errors);
    finished(&before, &after, errors);
    let ready = after.get("ready");
    let active = after.get("active").int().unwrap_or_default();
    if changed(&before, &after, &["ready", "active"])
        && ready.int().is_some_and(|ready| ready > active)
    {
        errors.push(ready.invalid("cannot set more ready pods than active"));
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if is(&before, kind) && !is(&after, kind) {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errors.push(wrong_conditions(&after, &detail));
        }
    }
    for field in ["failed", "succeeded"] {
        let count = |status: &Node<'_>| status.get(field).int().unwrap_or_default();
        if count(&after) < count(&before) {
            let detail = format!("cannot decrease the {field} counter");
            errors.push(after.get(field).invalid_int(&detail));
        }
    }
    let ended = after.get("completionTime");
    if ended.is_set() && before.get("completionTime").is_set() {
        check::immutable(&before.get("completionTime"), &ended, errors);
    }
}

/// Validates a Job that finishes or has finished.
fn finished(before: &Node<'_>, after: &Node<'_>, errors: &mut Errors) {
    let turned = |kind| is(before, kind) != is(after, kind);
    let (complete, failed) = (is(after, "Complete"), is(after, "Failed"));
    let ends = turned("Complete") || turned("Failed");
    if ends && complete && failed {
        let detail = "cannot set Complete=True and Failed=true conditions";
        errors.push(wrong_conditions(after, detail));
    }
    if complete && is(after, "FailureTarget") && (ends || turned("FailureTarget")) {
        let detail = "cannot set Complete=True and FailureTarget=true conditions";
        errors.push(wrong_conditions(after, detail));
    }
    let ended = after.get("completionTime");
    if turned("Complete") || changed(before, after, &["completionTime"]) {
        if ended.is_set() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.push(ended.invalid(detail));
        }
        if !ended.is_set() && complete {
            errors.push(ended.required("completionTime is required for Complete jobs"));
        }
    }
    if turned("Failed") && failed && !is(after, "FailureTarget") {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.push(wrong_conditions(after, detail));
    }
    if complete
        && !is(after, "SuccessCriteriaMet")
        && (turned("Complete") || turned("SuccessCriteriaMet"))
    {
        let detail =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.push(wrong_conditions(after, detail));
    }
    let active = after.get("active");
    if (ends || changed(before, after, &["active"]))
        && (complete || failed)
        && active.int().is_some_and(|count| count > 0)
    {
        errors.push(active.invalid("active>0 is invalid for finished job"));
    }
    let start = after.get("startTime");
    if ends && (complete || failed) && !start.is_set() {
        errors.push(start.required("startTime is required for finished job"));
    }
}

fn is(status: &Node<'_>, kind: &str) -> bool {
    let mut conditions = status.get("conditions").items();
    conditions.any(|of| of.get("type").text() == kind && of.get("status").text() == "True")
}

fn changed<'a>(before: &Node<'a>, after: &Node<'a>, fields: &[&'a str]) -> bool {
    fields
        .iter()
        .any(|field| !after.get(field).same(&before.get(field)))
}

fn wrong_conditions(status: &Node<'_>, detail: &str) -> FieldError {
    FieldError::invalid_without_value(status.path.field("conditions").to_string(), detail)
}
