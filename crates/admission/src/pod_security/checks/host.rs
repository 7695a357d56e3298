//! Checks of what a pod shares with its host: namespaces, ports, addresses, Windows processes.

use std::collections::BTreeSet;

use insula_kinds::Value;

use super::Violation;
use crate::pod_security::pod::{Container, Pod, items};
use crate::pod_security::text::{containers, join_set, plural, setters};

/// Pods must not share namespaces with the host.
pub fn namespaces(pod: Pod<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared = fields.filter(|field| pod.spec()[*field] == true);
    let shared: Vec<_> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() {
        return None;
    }
    Violation::new("host namespaces", shared.join(", "))
}

/// Containers must not listen on ports of the host.
pub fn ports(pod: Pod<'_>) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let bad = pod.named(|container| {
        let ports = items(container.member("ports"));
        let ports = ports.filter_map(|port| port["hostPort"].as_i64());
        let ports: Vec<_> = ports.filter(|port| *port != 0).collect();
        forbidden.extend(ports.iter().map(i64::to_string));
        !ports.is_empty()
    });
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {}",
        containers(&bad),
        plural("uses", "use", bad.len()),
        plural("hostPort", "hostPorts", forbidden.len()),
        Vec::from_iter(forbidden).join(", ")
    );
    Violation::new("hostPort", detail)
}

/// Probes and lifecycle handlers must not connect to other hosts than the pod.
pub fn probes(pod: Pod<'_>) -> Option<Violation> {
    let mut forbidden = BTreeSet::new();
    let bad = pod.named(|container| {
        let hosts = handler_hosts(container);
        forbidden.extend(hosts.iter().copied());
        !hosts.is_empty()
    });
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<_> = BTreeSet::from_iter(bad).into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&bad),
        plural("uses", "use", bad.len()),
        plural(
            "probe or lifecycle host",
            "probe or lifecycle hosts",
            forbidden.len()
        ),
        join_set(&forbidden)
    );
    Violation::new("probe or lifecycle host", detail)
}

/// Neither the pod nor its containers may run as processes of a Windows host.
pub fn windows_process(pod: Pod<'_>) -> Option<Violation> {
    let is_host_process = |context: &Value| context["windowsOptions"]["hostProcess"] == true;
    let bad = pod.named(|container| is_host_process(container.security_context()));
    let setters = setters(is_host_process(pod.security_context()), &bad)?;
    let detail = format!("{setters} must not set securityContext.windowsOptions.hostProcess=true");
    Violation::new("hostProcess", detail)
}

/// The hosts that probes and lifecycle handlers of a container name.
fn handler_hosts(container: Container<'_>) -> Vec<&str> {
    let lifecycle = container.member("lifecycle");
    let handlers = [
        container.member("livenessProbe"),
        container.member("readinessProbe"),
        container.member("startupProbe"),
        &lifecycle["postStart"],
        &lifecycle["preStop"],
    ];
    let actions = handlers
        .into_iter()
        .flat_map(|handler| [&handler["httpGet"], &handler["tcpSocket"]]);
    let hosts = actions.filter_map(|action| action["host"].as_str());
    hosts.filter(|host| !host.is_empty()).collect()
}
