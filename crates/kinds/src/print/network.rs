//! Services, endpoints, ingresses and network policies.

use std::collections::BTreeSet;

use super::row::{At, Row, with_more};
use super::selector;
use crate::Value;

const NONE: &str = "<none>";

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let cluster_ip = row.at("spec.clusterIPs").items().next();
    let ports: Vec<_> = row.at("spec.ports").items().map(port).collect();
    let ports = match ports.is_empty() {
        true => NONE.to_owned(),
        false => ports.join(","),
    };
    vec![
        row.name(),
        row.text("spec.type"),
        Value::from(cluster_ip.map_or(NONE, At::text)),
        Value::from(external_ip(row)),
        Value::from(ports),
        row.age(),
        Value::from(row.at("spec.selector").labels()),
    ]
}

fn port(port: At<'_>) -> String {
    let number = port.get("port").number();
    let protocol = port.get("protocol").text();
    match port.get("nodePort").number() {
        node @ 1.. => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(row: &Row<'_>) -> String {
    let external = row.at("spec.externalIPs").joined();
    let balancer = || addresses(row.at("status.loadBalancer.ingress"));
    let (own, missing) = match row.at("spec.type").text() {
        "ClusterIP" | "NodePort" => (String::new(), NONE),
        "LoadBalancer" => (balancer(), "<pending>"),
        "ExternalName" => return row.at("spec.externalName").text().to_owned(),
        _ => return "<unknown>".to_owned(),
    };
    match (own.is_empty(), external.is_empty()) {
        (true, true) => missing.to_owned(),
        (true, false) => external,
        (false, true) => own,
        (false, false) => format!("{own},{external}"),
    }
}

/// Returns the addresses of a load balancer, without duplicates, in order.
fn addresses(ingress: At<'_>) -> String {
    let addresses = ingress.items().map(|entry| {
        let name = entry.get("hostname").text();
        entry.get("ip").text_or(name)
    });
    let addresses: BTreeSet<_> = addresses.filter(|address| !address.is_empty()).collect();
    let addresses: Vec<_> = addresses.into_iter().collect();
    addresses.join(",")
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let ports = match row.at("spec.tls").len() {
        0 => "80",
        _ => "80, 443",
    };
    vec![
        row.name(),
        Value::from(row.at("spec.ingressClassName").set_or(NONE)),
        Value::from(hosts(row.at("spec.rules"))),
        Value::from(addresses(row.at("status.loadBalancer.ingress"))),
        Value::from(ports),
        row.age(),
    ]
}

fn hosts(rules: At<'_>) -> String {
    const MAX_HOSTS: usize = 3;
    let mut shown = Vec::new();
    let mut more = false;
    for rule in rules.items() {
        let host = rule.get("host").text();
        more |= shown.len() == MAX_HOSTS;
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.join(","), more) {
        (hosts, _) if hosts.is_empty() => "*".to_owned(),
        // As in kubectl, the count includes rules without a host.
        (hosts, true) => format!("{hosts} + {} more...", rules.len() - MAX_HOSTS),
        (hosts, false) => hosts,
    }
}

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let mut name = row.at("metadata.name").text().to_owned();
    if row.annotation("ingressclass.kubernetes.io/is-default-class") == "true" {
        name.push_str(" (default)");
    }
    let parameters = row.at("spec.parameters").if_exists();
    let parameters = parameters.map_or(NONE.to_owned(), |parameters| {
        let kind = parameters.get("kind").text();
        let name = parameters.get("name").text();
        match parameters.get("apiGroup").if_exists() {
            Some(group) => format!("{kind}.{}/{name}", group.text()),
            None => format!("{kind}/{name}"),
        }
    });
    vec![
        Value::from(name),
        row.text("spec.controller"),
        Value::from(parameters),
        row.age(),
    ]
}

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let subsets = row.at("subsets");
    let shown = match subsets.len() {
        0 => NONE.to_owned(),
        _ => with_more(subsets.items().flat_map(subset).collect(), 3, ","),
    };
    vec![row.name(), Value::from(shown), row.age()]
}

/// Returns all addresses of the subset at every port of it.
fn subset(subset: At<'_>) -> Vec<String> {
    let ips = || {
        let addresses = subset.get("addresses").items();
        addresses.map(|address| address.get("ip").text())
    };
    if subset.get("ports").len() == 0 {
        return ips().map(str::to_owned).collect();
    }
    let ports = subset.get("ports").items();
    ports
        .map(|port| port.get("port").number())
        .flat_map(|port| ips().map(move |ip| host_and_port(ip, port)))
        .collect()
}

fn host_and_port(ip: &str, port: i64) -> String {
    match ip.contains(':') {
        true => format!("[{ip}]:{port}"),
        false => format!("{ip}:{port}"),
    }
}

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let ports = row.at("ports").items().map(slice_port).collect();
    let endpoints = row.at("endpoints").items();
    let addresses = endpoints.flat_map(|endpoint| endpoint.get("addresses").items());
    let addresses = addresses.map(|address| address.text().to_owned()).collect();
    vec![
        row.name(),
        row.text("addressType"),
        Value::from(joined_or_unset(ports)),
        Value::from(joined_or_unset(addresses)),
        row.age(),
    ]
}

/// Returns the port's number, or its name; `*` if it has neither.
fn slice_port(port: At<'_>) -> String {
    let number = port.get("port");
    match number.exists() {
        true => number.number().to_string(),
        false => port.get("name").set_or("*").to_owned(),
    }
}

fn joined_or_unset(texts: Vec<String>) -> String {
    match with_more(texts, 3, ",") {
        text if text.is_empty() => "<unset>".to_owned(),
        text => text,
    }
}

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    let selector = selector::or_none(row.at("spec.podSelector"));
    vec![row.name(), Value::from(selector), row.age()]
}

pub(super) fn service_cidr(row: &Row<'_>) -> Vec<Value> {
    let cidrs = row.at("spec.cidrs").joined();
    vec![row.name(), Value::from(cidrs), row.age()]
}

pub(super) fn ip_address(row: &Row<'_>) -> Vec<Value> {
    let parent = row.at("spec.parentRef").if_exists();
    let parent = parent.map_or(NONE.to_owned(), |parent| {
        let resource = parent.get("resource").text();
        let resource = match parent.get("group").text() {
            "" => resource.to_lowercase(),
            group => format!("{resource}.{group}").to_lowercase(),
        };
        let name = parent.get("name").text();
        match parent.get("namespace").text() {
            "" => format!("{resource}/{name}"),
            namespace => format!("{resource}/{namespace}/{name}"),
        }
    });
    vec![row.name(), Value::from(parent)]
}
