//! Checks of the users that containers run as.

use insula_kinds::Value;

use super::Violation;
use crate::pod_security::pod::Pod;
use crate::pod_security::text::{containers, setters};

/// Containers must be prevented from running as root, by the pod or by each of them.
pub fn run_as_non_root(pod: Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let non_root = |context: &Value| context["runAsNonRoot"].as_bool();
    let of_pod = non_root(pod.security_context());
    let bad = pod.named(|container| non_root(container.security_context()) == Some(false));
    if let Some(setters) = setters(of_pod == Some(false), &bad) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Violation::new(REASON, detail);
    }
    if of_pod == Some(true) {
        return None;
    }
    let bad = pod.named(|container| non_root(container.security_context()).is_none());
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.runAsNonRoot=true",
        containers(&bad)
    );
    Violation::new(REASON, detail)
}

/// Neither the pod nor its containers may choose the user root.
pub fn run_as_user(pod: Pod<'_>) -> Option<Violation> {
    let is_root = |context: &Value| context["runAsUser"] == 0;
    let bad = pod.named(|container| is_root(container.security_context()));
    let setters = setters(is_root(pod.security_context()), &bad)?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}
