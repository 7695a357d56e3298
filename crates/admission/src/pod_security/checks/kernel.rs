//! Checks of what a pod changes or sees of the kernel: sysctls and `/proc`.

use std::collections::BTreeSet;

use super::{Violation, unless_user_namespace};
use crate::pod_security::pod::{Pod, items};
use crate::pod_security::text::{containers, join_set};

/// The sysctls that affect only the pod, in the order in which they became allowed.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Pods may set five sysctls.
pub fn sysctls(pod: Pod<'_>) -> Option<Violation> {
    sysctls_among(pod, &SAFE_SYSCTLS[..5])
}

/// From version 1.27 on also that of reserved ports.
pub fn sysctls_1_27(pod: Pod<'_>) -> Option<Violation> {
    sysctls_among(pod, &SAFE_SYSCTLS[..6])
}

/// From version 1.29 on also those of TCP timeouts.
pub fn sysctls_1_29(pod: Pod<'_>) -> Option<Violation> {
    sysctls_among(pod, &SAFE_SYSCTLS[..10])
}

/// From version 1.32 on also those of TCP buffers.
pub fn sysctls_1_32(pod: Pod<'_>) -> Option<Violation> {
    sysctls_among(pod, &SAFE_SYSCTLS)
}

fn sysctls_among(pod: Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let set = items(&pod.security_context()["sysctls"]);
    let names = set.map(|sysctl| sysctl["name"].as_str().unwrap_or_default());
    let forbidden: Vec<_> = names.filter(|name| !allowed.contains(name)).collect();
    if forbidden.is_empty() {
        return None;
    }
    Violation::new("forbidden sysctls", forbidden.join(", "))
}

/// Containers must not unmask paths below `/proc`.
pub fn proc_mount(pod: Pod<'_>) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let bad = pod.named(|container| {
        let mount = container.security_context()["procMount"].as_str();
        let unmasked = mount.filter(|mount| *mount != "Default");
        forbidden.extend(unmasked);
        unmasked.is_some()
    });
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.procMount to {}",
        containers(&bad),
        join_set(&forbidden)
    );
    Violation::new("procMount", detail)
}

/// The same, except in pods with a user namespace of their own.
pub fn proc_mount_unless_user_namespace(pod: Pod<'_>) -> Option<Violation> {
    unless_user_namespace(pod, proc_mount)
}
