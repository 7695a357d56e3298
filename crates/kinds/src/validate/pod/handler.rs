//! Probes and lifecycle handlers.

use super::Context;
use crate::text;
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

/// Validates the three probes of a container.
pub(super) fn probes(container: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.get(name);
        if !probe.is_set() {
            continue;
        }
        handler(&probe, context, errors);
        let times = [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ];
        check::all_nonnegative(&probe, &times, errors);
        let grace = probe.get("terminationGracePeriodSeconds");
        if grace.int().is_some_and(|seconds| seconds <= 0) {
            errors.push(grace.invalid("must be greater than 0"));
        }
        let successes = probe.get("successThreshold");
        if name == "readinessProbe" {
            if grace.is_set() {
                errors.push(grace.invalid("must not be set for readinessProbes"));
            }
        } else if successes.int() != Some(1) {
            errors.push(successes.invalid_int("must be 1"));
        }
    }
}

/// Validates the lifecycle handlers.
pub(super) fn lifecycle(lifecycle: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        if lifecycle.get(hook).is_set() {
            handler(&lifecycle.get(hook), context, errors);
        }
    }
    let signal = lifecycle.get("stopSignal");
    if signal.is_set() && context.os.is_empty() {
        let detail = "may not be set for containers with empty `spec.os.name`";
        errors.push(signal.forbidden(detail));
    } else if context.os == "windows" {
        check::one_of_if_set(&signal, &["SIGKILL", "SIGTERM"], errors);
    }
}

fn handler(handler: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut given = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.get(kind);
        if !action.is_set() {
            continue;
        }
        if given {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        given = true;
        match kind {
            "exec" => {
                check::required(&action.get("command"), errors);
            }
            "httpGet" => http_get(&action, errors),
            "sleep" => sleep(&action, context, errors),
            _ => check::port_or_name(&action.get("port"), errors),
        }
    }
    if !given {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn http_get(action: &Node<'_>, errors: &mut Errors) {
    check::required(&action.get("path"), errors);
    check::port_or_name(&action.get("port"), errors);
    let scheme = action.get("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.text()) {
        errors.push(scheme.not_supported(&["HTTP", "HTTPS"]));
    }
    for header in action.get("httpHeaders").items() {
        let name = header.get("name").at(action.path.field("httpHeaders"));
        check::format(&name, text::header_name, errors);
    }
}

fn sleep(action: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let seconds = action.get("seconds").int().unwrap_or_default();
    let Some(grace) = context.grace else {
        return;
    };
    if seconds < 0 || seconds > grace {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(action.invalid_as(&seconds.into(), &detail));
    }
}
