//! Checks of profiles of mandatory access control: AppArmor and SELinux.

use std::collections::BTreeSet;

use insula_gotext::quote;
use insula_kinds::Value;

use super::Violation;
use crate::pod_security::pod::Pod;
use crate::pod_security::text::{join_quoted, join_set, plural, setters};

/// The prefix of the annotations that set a container's AppArmor profile.
const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Every SELinux type that may be set in some version; an absent one is empty.
const SE_LINUX_TYPES: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

/// AppArmor profiles must be those of the runtime or of the host.
pub fn app_armor(pod: Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let of_pod = forbidden_app_armor_type(pod.security_context());
    values.extend(of_pod);
    let bad = pod.named(|container| {
        let forbidden = forbidden_app_armor_type(container.security_context());
        values.extend(forbidden);
        forbidden.is_some()
    });
    let annotations = forbidden_app_armor_annotations(pod);
    let noun = plural("annotation", "annotations", annotations.len());
    let annotated = (!annotations.is_empty()).then(|| noun.to_owned());
    let setters: Vec<_> = setters(of_pod.is_some(), &bad)
        .into_iter()
        .chain(annotated)
        .collect();
    if setters.is_empty() {
        return None;
    }
    let values = values
        .into_iter()
        .chain(annotations.iter().map(String::as_str));
    let values: Vec<_> = values.collect();
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        setters.join(" and "),
        join_quoted(values.iter().copied())
    );
    Violation::new(reason, detail)
}

fn forbidden_app_armor_type(context: &Value) -> Option<&str> {
    let profile = context["appArmorProfile"].as_object()?;
    let of = profile.get("type").and_then(Value::as_str);
    let of = of.unwrap_or_default();
    (!matches!(of, "RuntimeDefault" | "Localhost")).then_some(of)
}

fn forbidden_app_armor_annotations(pod: Pod<'_>) -> Vec<String> {
    let is_allowed = |profile: &str| {
        profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/")
    };
    let annotations = pod.annotations();
    let forbidden = annotations
        .filter(|(key, value)| key.starts_with(APP_ARMOR_ANNOTATION) && !is_allowed(value));
    let mut forbidden: Vec<_> = forbidden
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    forbidden.sort_unstable();
    forbidden
}

/// SELinux users and roles must not be set, and types must be those of containers.
pub fn se_linux(pod: Pod<'_>) -> Option<Violation> {
    se_linux_among(pod, &SE_LINUX_TYPES[..4])
}

/// From version 1.31 on, the type of container engines is allowed too.
pub fn se_linux_1_31(pod: Pod<'_>) -> Option<Violation> {
    se_linux_among(pod, &SE_LINUX_TYPES)
}

/// The SELinux options that are forbidden, of the pod and of its containers together.
#[derive(Default)]
struct ForbiddenOptions<'a> {
    types: BTreeSet<&'a str>,
    user: bool,
    role: bool,
}

fn se_linux_among(pod: Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut forbidden = ForbiddenOptions::default();
    let of_pod = forbidden.collect(pod.security_context(), allowed);
    let bad = pod.named(|container| forbidden.collect(container.security_context(), allowed));
    let setters = setters(of_pod, &bad)?;
    let mut options = Vec::new();
    if !forbidden.types.is_empty() {
        let noun = plural("type", "types", forbidden.types.len());
        options.push(format!("{noun} {}", join_set(&forbidden.types)));
    }
    if forbidden.user {
        options.push("user may not be set".to_owned());
    }
    if forbidden.role {
        options.push("role may not be set".to_owned());
    }
    let detail = format!(
        "{setters} set forbidden securityContext.seLinuxOptions: {}",
        options.join("; ")
    );
    Violation::new("seLinuxOptions", detail)
}

impl<'a> ForbiddenOptions<'a> {
    /// Adds the forbidden options of a security context, and returns whether it has any.
    fn collect(&mut self, context: &'a Value, allowed: &[&str]) -> bool {
        let options = &context["seLinuxOptions"];
        let option = |name: &str| options[name].as_str().unwrap_or_default();
        let of_type = options["type"].as_str().filter(|of| !allowed.contains(of));
        let (user, role) = (!option("user").is_empty(), !option("role").is_empty());
        self.types.extend(of_type);
        self.user |= user;
        self.role |= role;
        of_type.is_some() || user || role
    }
}
