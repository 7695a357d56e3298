//! Security contexts of pods and containers.

use std::collections::HashSet;

use super::Context;
use crate::FieldError;
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Validates the security context of a pod.
pub(super) fn pod(spec: &Node<'_>, errors: &mut Errors) {
    let context = spec.get("securityContext");
    if !context.is_set() {
        return;
    }
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        check::posix_id(&context.get(field), errors);
    }
    for group in context.get("supplementalGroups").items() {
        check::posix_id(&group, errors);
    }
    let shared = spec.get("shareProcessNamespace");
    if shared.is_true() && spec.get("hostPID").is_true() {
        let shared = shared.at(context.path.field("shareProcessNamespace"));
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(shared.invalid(detail));
    }
    sysctls(spec, &context.get("sysctls"), errors);
    let policies = ["Always", "OnRootMismatch"];
    check::one_of_if_set(&context.get("fsGroupChangePolicy"), &policies, errors);
    seccomp(&context.get("seccompProfile"), errors);
    app_armor(&context.get("appArmorProfile"), errors);
    let policies = ["Merge", "Strict"];
    check::one_of_if_set(&context.get("supplementalGroupsPolicy"), &policies, errors);
    let policies = ["MountOption", "Recursive"];
    check::one_of_if_set(&context.get("seLinuxChangePolicy"), &policies, errors);
}

/// Validates the security context of a container.
pub(super) fn container(context: &Node<'_>, pod: &Context<'_>, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    check::posix_id(&context.get("runAsUser"), errors);
    check::posix_id(&context.get("runAsGroup"), errors);
    let mount = context.get("procMount");
    check::one_of_if_set(&mount, &["Default", "Unmasked"], errors);
    if pod.host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    seccomp(&context.get("seccompProfile"), errors);
    escalation(context, errors);
    app_armor(&context.get("appArmorProfile"), errors);
}

fn escalation(context: &Node<'_>, errors: &mut Errors) {
    if context.get("allowPrivilegeEscalation").value().as_bool() != Some(false) {
        return;
    }
    if context.get("privileged").is_true() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(invalid_context(context, detail));
    }
    for capability in context.get("capabilities").get("add").items() {
        if capability.text() == "CAP_SYS_ADMIN" {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(invalid_context(context, detail));
        }
    }
}

/// Returns an error with the context as Go prints it, by Go field names.
fn invalid_context(context: &Node<'_>, detail: &str) -> FieldError {
    let fields = [
        ("capabilities", "Capabilities"),
        ("privileged", "Privileged"),
        ("seLinuxOptions", "SELinuxOptions"),
        ("windowsOptions", "WindowsOptions"),
        ("runAsUser", "RunAsUser"),
        ("runAsGroup", "RunAsGroup"),
        ("runAsNonRoot", "RunAsNonRoot"),
        ("readOnlyRootFilesystem", "ReadOnlyRootFilesystem"),
        ("allowPrivilegeEscalation", "AllowPrivilegeEscalation"),
        ("procMount", "ProcMount"),
        ("seccompProfile", "SeccompProfile"),
        ("appArmorProfile", "AppArmorProfile"),
    ];
    let print = |(name, printed)| {
        let node = context.get(name);
        if name == "capabilities" && node.is_set() {
            let (add, drop) = (node.get("add"), node.get("drop"));
            let (add, drop) = (add.value(), drop.value());
            return format!(r#""{printed}":{{"Add":{add},"Drop":{drop}}}"#);
        }
        format!(r#""{printed}":{}"#, node.value())
    };
    let printed = format!("{{{}}}", fields.map(print).join(","));
    FieldError::invalid_printed(context.path.to_string(), &printed, detail)
}

fn sysctls(spec: &Node<'_>, sysctls: &Node<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.get("name");
        if check::required(&name, errors) {
            if !is_sysctl(name.text()) {
                let detail = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
                errors.push(name.invalid(detail));
            } else if names.contains(name.text()) {
                errors.push(name.duplicate());
            }
        }
        let plain = name.text().replace('/', ".");
        let shared = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
        if spec.get("hostNetwork").is_true() && plain.starts_with("net.") {
            errors.push(name.invalid("may not be specified when 'hostNetwork' is true"));
        } else if spec.get("hostIPC").is_true() && shared.iter().any(|of| plain.starts_with(of)) {
            errors.push(name.invalid("may not be specified when 'hostIPC' is true"));
        }
        names.insert(name.text());
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        edge(bytes.first()) && edge(bytes.last()) && segment.bytes().all(inner)
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

fn seccomp(profile: &Node<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    if kind.is_empty() {
        errors.push(kind.required("type is required when seccompProfile is set"));
    } else {
        check::one_of_if_set(&kind, PROFILES, errors);
    }
    if kind.text() != "Localhost" {
        if local.is_set() {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(local.invalid_as(profile.value(), detail));
        }
    } else if local.is_set() {
        check::relative_path(&local, errors);
    } else {
        errors.push(local.required("must be set when seccomp type is Localhost"));
    }
}

fn app_armor(profile: &Node<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.get("type"), profile.get("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            if local.text().trim() != local.text() {
                errors.push(local.invalid("must not be padded with whitespace"));
            } else if local.is_empty() {
                errors.push(local.required("must be set when AppArmor type is Localhost"));
            }
            if local.text().len() > 4095 {
                errors.push(local.too_long(4095));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errors.push(local.invalid("can only be set when AppArmor type is Localhost"));
            }
        }
        "" => errors.push(kind.required("type is required when appArmorProfile is set")),
        _ => errors.push(kind.not_supported(PROFILES)),
    }
}
