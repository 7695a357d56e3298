//! Checks of seccomp profiles.

use std::collections::BTreeSet;

use insula_gotext::quote;
use insula_kinds::Value;

use super::Violation;
use crate::pod_security::pod::Pod;
use crate::pod_security::text::{containers, join_set, plural, setters};

/// The annotation that set the profile of a pod before there was a field.
const POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";

/// The prefix of the annotations that set the profile of a container.
const CONTAINER_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Annotations must name the profile of the runtime or one of the host.
pub fn annotations(pod: Pod<'_>) -> Option<Violation> {
    let is_allowed = |profile: &str| {
        matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/")
    };
    let is_effective = |key: &str| match key.strip_prefix(CONTAINER_ANNOTATION) {
        Some(name) => pod.containers().any(|container| container.name() == name),
        None => key == POD_ANNOTATION,
    };
    let annotations = pod.annotations();
    let forbidden = annotations.filter(|(key, profile)| is_effective(key) && !is_allowed(profile));
    let forbidden: BTreeSet<_> = forbidden
        .map(|(key, profile)| format!("{key}={}", quote(profile)))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let noun = plural("annotation", "annotations", forbidden.len());
    let forbidden = Vec::from_iter(forbidden).join(", ");
    Violation::new("seccompProfile", format!("forbidden {noun} {forbidden}"))
}

/// Profiles that are set must be that of the runtime or one of the host.
pub fn baseline(pod: Pod<'_>) -> Option<Violation> {
    explicitly_forbidden(pod)
}

/// Profiles must be set too, of the pod or of each container.
pub fn restricted(pod: Pod<'_>) -> Option<Violation> {
    if let Some(violation) = explicitly_forbidden(pod) {
        return Some(violation);
    }
    // A profile that the pod sets is an allowed one here.
    if profile(pod.security_context()).is_some() {
        return None;
    }
    let bad = pod.named(|container| profile(container.security_context()).is_none());
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\"",
        containers(&bad)
    );
    Violation::new("seccompProfile", detail)
}

fn explicitly_forbidden(pod: Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut collect = |context| {
        let forbidden = forbidden_profile(context);
        values.extend(forbidden);
        forbidden.is_some()
    };
    let of_pod = collect(pod.security_context());
    let bad = pod.named(|container| collect(container.security_context()));
    let setters = setters(of_pod, &bad)?;
    let detail = format!(
        "{setters} must not set securityContext.seccompProfile.type to {}",
        join_set(&values)
    );
    Violation::new("seccompProfile", detail)
}

fn forbidden_profile(context: &Value) -> Option<&str> {
    profile(context).filter(|of| !matches!(*of, "RuntimeDefault" | "Localhost"))
}

/// The type of the profile that a security context sets.
fn profile(context: &Value) -> Option<&str> {
    let profile = context["seccompProfile"].as_object()?;
    Some(
        profile
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}
