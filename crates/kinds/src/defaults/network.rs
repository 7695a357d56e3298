//! Defaults of Services, endpoints and network policies.

use serde_json::json;

use super::{Rule, tree};
use crate::Object;

pub(super) const RULES: &[Rule] = &[
    Rule::run("api.core.v1.Service", service),
    Rule::run("api.core.v1.ServicePort", service_port),
    Rule::set("api.core.v1.EndpointPort", &[("protocol", r#""TCP""#)]),
    Rule::set(
        "api.discovery.v1.EndpointPort",
        &[("name", r#""""#), ("protocol", r#""TCP""#)],
    ),
    Rule::set(
        "api.networking.v1.NetworkPolicyPort",
        &[("protocol", r#""TCP""#)],
    ),
    Rule::run("api.networking.v1.NetworkPolicySpec", network_policy),
    Rule::set(
        "api.networking.v1.IngressClassParametersReference",
        &[("scope", r#""Cluster""#)],
    ),
];

fn service(service: &mut Object) {
    let spec = tree::child_mut(service, "spec");
    session_affinity(spec);
    tree::fill_empty(spec, "type", "ClusterIP");
    if is_externally_reachable(spec) {
        tree::fill_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    let kind = tree::text(spec, "type").to_owned();
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        tree::fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        tree::fill(spec, "allocateLoadBalancerNodePorts", true);
        load_balancer_status(service);
    }
}

fn session_affinity(spec: &mut Object) {
    tree::fill_empty(spec, "sessionAffinity", "None");
    match tree::text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = tree::child(spec, "sessionAffinityConfig");
            let client = config.and_then(|config| tree::child(config, "clientIP"));
            if !client.is_some_and(|client| tree::is_present(client, "timeoutSeconds")) {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
}

/// Whether the service receives traffic from outside the cluster.
pub(crate) fn is_externally_reachable(spec: &Object) -> bool {
    match tree::text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !tree::is_empty(spec, "externalIPs"),
        _ => false,
    }
}

fn load_balancer_status(service: &mut Object) {
    let balancer = tree::existing_mut(service, "status")
        .and_then(|status| tree::existing_mut(status, "loadBalancer"));
    for ingress in balancer
        .into_iter()
        .flat_map(|balancer| tree::items_mut(balancer, "ingress"))
    {
        if !tree::is_empty(ingress, "ip") {
            tree::fill(ingress, "ipMode", "VIP");
        }
    }
}

fn service_port(port: &mut Object) {
    if tree::is_empty(port, "targetPort") {
        let number = tree::number(port, "port");
        port.insert("targetPort".to_owned(), number.into());
    }
}

fn network_policy(spec: &mut Object) {
    if tree::is_empty(spec, "policyTypes") {
        let types = match tree::is_empty(spec, "egress") {
            true => json!(["Ingress"]),
            false => json!(["Ingress", "Egress"]),
        };
        spec.insert("policyTypes".to_owned(), types);
    }
}
