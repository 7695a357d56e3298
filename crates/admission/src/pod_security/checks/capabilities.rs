//! Checks of privileges: privileged containers, privilege escalation, capabilities.

use std::collections::BTreeSet;

use insula_kinds::Value;

use super::Violation;
use crate::pod_security::pod::{Container, Pod, strings};
use crate::pod_security::text::{containers, join_set};

/// The capabilities that container runtimes give by default.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Containers must not be privileged.
pub fn privileged(pod: Pod<'_>) -> Option<Violation> {
    let bad = pod.named(|container| container.security_context()["privileged"] == true);
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.privileged=true",
        containers(&bad)
    );
    Violation::new("privileged", detail)
}

/// Containers must not let their processes gain privileges.
pub fn privilege_escalation(pod: Pod<'_>) -> Option<Violation> {
    let bad =
        pod.named(|container| container.security_context()["allowPrivilegeEscalation"] != false);
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must set securityContext.allowPrivilegeEscalation=false",
        containers(&bad)
    );
    Violation::new("allowPrivilegeEscalation != false", detail)
}

/// Containers must not add capabilities that are not given by default.
pub fn baseline(pod: Pod<'_>) -> Option<Violation> {
    let is_allowed = |capability: &str| DEFAULT_CAPABILITIES.contains(&capability);
    let detail = forbidden_additions(pod, is_allowed)?;
    Violation::new("non-default capabilities", detail)
}

/// Containers must drop all capabilities, and may add only one.
pub fn restricted(pod: Pod<'_>) -> Option<Violation> {
    let keeps_some = |container: Container<'_>| {
        let dropped = &capabilities(container)["drop"];
        !strings(dropped).any(|capability| capability == "ALL")
    };
    let missing = pod.named(keeps_some);
    let missing = (!missing.is_empty()).then(|| {
        format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            containers(&missing)
        )
    });
    let added = forbidden_additions(pod, |capability| capability == "NET_BIND_SERVICE");
    let details: Vec<_> = missing.into_iter().chain(added).collect();
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

fn forbidden_additions(pod: Pod<'_>, is_allowed: impl Fn(&str) -> bool) -> Option<String> {
    let mut forbidden = BTreeSet::new();
    let bad = pod.named(|container| {
        let added = strings(&capabilities(container)["add"]);
        let added: Vec<_> = added.filter(|added| !is_allowed(added)).collect();
        forbidden.extend(added.iter().copied());
        !added.is_empty()
    });
    if bad.is_empty() {
        return None;
    }
    Some(format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers(&bad),
        join_set(&forbidden)
    ))
}

fn capabilities(container: Container<'_>) -> &Value {
    &container.security_context()["capabilities"]
}
