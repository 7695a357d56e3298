//! Services: IPs and ports are allocated by the server and kept for life.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::CreateContext;
use crate::Object;
use crate::defaults::{is_externally_reachable, tree};

const NONE: &str = "None";

pub(super) fn create(service: &mut Object, with: &mut CreateContext<'_>) {
    let spec = tree::child_mut(service, "spec");
    if !tree::is_empty(spec, "clusterIP") && tree::is_empty(spec, "clusterIPs") {
        let address = tree::text(spec, "clusterIP").to_owned();
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
    if tree::text(spec, "type") == "ExternalName" {
        spec.remove("internalTrafficPolicy");
    }
    allocate(service, with);
}

/// Allocates the IPs and ports that the service's type needs and that it does not have.
/// [`super::create`] does this itself; after an update it serves a new type.
pub fn allocate(service: &mut Object, with: &mut CreateContext<'_>) {
    let spec = tree::child_mut(service, "spec");
    if needs_address(spec) {
        if tree::is_empty(spec, "clusterIP") {
            let address = (with.cluster_ip)();
            spec.insert("clusterIPs".to_owned(), json!([address]));
            spec.insert("clusterIP".to_owned(), address.into());
        }
        set_ip_families(spec, Some(with.ip_family));
    }
    allocate_ports(spec, with);
    if needs_health_check(spec) && tree::is_empty(spec, "healthCheckNodePort") {
        let port = (with.node_port)();
        spec.insert("healthCheckNodePort".to_owned(), port.into());
    }
}

pub(super) fn update(old: &Object, service: &mut Object) {
    let empty = Object::new();
    let before = tree::child(old, "spec").unwrap_or(&empty);
    let spec = tree::child_mut(service, "spec");
    keep_allocated(before, spec);
    sync_cluster_ips(before, spec);
    if needs_address(spec) && !tree::is_empty(spec, "clusterIP") {
        if !tree::is_present(spec, "ipFamilyPolicy") {
            tree::copy(before, spec, "ipFamilyPolicy");
        }
        release_secondary(before, spec);
        // Only a headless service has no addresses that tell their family. One that had none before
        // gets the server's when it is allocated what it lacks.
        let family = tree::list(before, "ipFamilies").first();
        set_ip_families(spec, family.and_then(Value::as_str));
    }
    release_unneeded(before, spec);
    if tree::text(spec, "type") == "ExternalName" {
        spec.remove("internalTrafficPolicy");
    }
    if tree::text(spec, "type") != "LoadBalancer"
        && let Some(status) = tree::existing_mut(service, "status")
    {
        status.remove("loadBalancer");
    }
}

/// Restores allocated values that the client left out.
fn keep_allocated(before: &Object, spec: &mut Object) {
    if needs_address(before) && needs_address(spec) {
        for field in ["clusterIP", "clusterIPs"] {
            if tree::is_empty(spec, field) {
                tree::copy(before, spec, field);
            }
        }
    }
    if needs_node_ports(before) && needs_node_ports(spec) {
        keep_ports(before, spec);
    }
    if needs_health_check(before)
        && needs_health_check(spec)
        && tree::is_empty(spec, "healthCheckNodePort")
    {
        tree::copy(before, spec, "healthCheckNodePort");
    }
}

/// Restores node ports by port name, except numbers that another port of the service has
/// taken over.
fn keep_ports(before: &Object, spec: &mut Object) {
    let taken = node_ports(spec);
    let given: BTreeMap<&str, i64> = tree::items(before, "ports")
        .map(|port| (tree::text(port, "name"), tree::number(port, "nodePort")))
        .collect();
    for port in tree::items_mut(spec, "ports") {
        let number = given.get(tree::text(port, "name")).copied();
        let number = number.filter(|number| *number != 0 && !taken.contains(number));
        if let Some(number) = number {
            tree::fill_empty(port, "nodePort", number);
        }
    }
}

/// Keeps `clusterIP` and the first of `clusterIPs` in sync.
fn sync_cluster_ips(before: &Object, spec: &mut Object) {
    let (was, is) = (
        tree::text(before, "clusterIP"),
        tree::text(spec, "clusterIP"),
    );
    if was == is || !same_list(before, spec, "clusterIPs") {
        return;
    }
    if is.is_empty() {
        spec.remove("clusterIPs");
    } else {
        let address = is.to_owned();
        spec.insert("clusterIPs".to_owned(), json!([address]));
    }
}

/// Releases the second address and family of a service that becomes single-stack.
fn release_secondary(before: &Object, spec: &mut Object) {
    if tree::text(spec, "ipFamilyPolicy") != "SingleStack" {
        return;
    }
    for field in ["clusterIPs", "ipFamilies"] {
        if same_list(before, spec, field)
            && let Some(Value::Array(list)) = spec.get_mut(field)
        {
            list.truncate(1);
        }
    }
}

/// Releases values that a new type does not use, unless the client changed them, which
/// validation rejects later.
fn release_unneeded(before: &Object, spec: &mut Object) {
    let same = |spec: &Object, field: &str| {
        before.get(field).filter(|value| !tree::is_zero(value))
            == spec.get(field).filter(|value| !tree::is_zero(value))
    };
    if needs_address(before) && !needs_address(spec) {
        if same(spec, "clusterIP") && same_list(before, spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, field) {
                spec.remove(field);
            }
        }
    }
    if has_ports(before) && !has_ports(spec) && node_ports(spec).is_subset(&node_ports(before)) {
        for port in tree::items_mut(spec, "ports") {
            port.remove("nodePort");
        }
    }
    let balanced = |spec: &Object| tree::text(spec, "type") == "LoadBalancer";
    for (field, needs) in [
        (
            "healthCheckNodePort",
            needs_health_check as fn(&Object) -> bool,
        ),
        ("allocateLoadBalancerNodePorts", balanced),
        ("loadBalancerClass", balanced),
        ("externalTrafficPolicy", is_externally_reachable),
    ] {
        if needs(before) && !needs(spec) && same(spec, field) {
            spec.remove(field);
        }
    }
}

/// Sets the IP families from the IPs; of a service without IPs, to the server's.
fn set_ip_families(spec: &mut Object, ip_family: Option<&str>) {
    let headless = tree::text(spec, "clusterIP") == NONE;
    let free = headless && tree::is_empty(spec, "selector");
    // Without a selector the endpoints may have any family, so the service is dual-stack.
    let policy = if free {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    tree::fill(spec, "ipFamilyPolicy", policy);
    let mut families: Vec<Value> = tree::list(spec, "ipFamilies").to_vec();
    if !headless {
        let addresses = tree::list(spec, "clusterIPs").iter();
        let addresses = addresses.filter_map(Value::as_str).skip(families.len());
        families.extend(addresses.map(|address| Value::from(family(address))));
    }
    if families.is_empty() {
        let Some(family) = ip_family else {
            return;
        };
        families.push(family.into());
    }
    let single = tree::text(spec, "ipFamilyPolicy") == "SingleStack";
    if free && !single && families.len() == 1 {
        let other = if families[0] == "IPv4" {
            "IPv6"
        } else {
            "IPv4"
        };
        families.push(other.into());
    }
    spec.insert("ipFamilies".to_owned(), families.into());
}

fn family(address: &str) -> &'static str {
    if address.contains(':') {
        "IPv6"
    } else {
        "IPv4"
    }
}

/// Allocates node ports. Ports with the same number and different protocols share one.
fn allocate_ports(spec: &mut Object, with: &mut CreateContext<'_>) {
    if !needs_node_ports(spec) {
        return;
    }
    let mut given: BTreeMap<i64, i64> = BTreeMap::new();
    for port in tree::items(spec, "ports") {
        let number = tree::number(port, "nodePort");
        if number != 0 {
            given.entry(tree::number(port, "port")).or_insert(number);
        }
    }
    for port in tree::items_mut(spec, "ports") {
        if tree::is_empty(port, "nodePort") {
            let number = given
                .entry(tree::number(port, "port"))
                .or_insert_with(|| (with.node_port)().into());
            port.insert("nodePort".to_owned(), (*number).into());
        }
    }
}

fn needs_address(spec: &Object) -> bool {
    tree::text(spec, "type") != "ExternalName"
}

fn has_ports(spec: &Object) -> bool {
    matches!(tree::text(spec, "type"), "NodePort" | "LoadBalancer")
}

/// Whether the service needs node ports; a load balancer may do without.
fn needs_node_ports(spec: &Object) -> bool {
    let without = spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    match tree::text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => !without,
        _ => false,
    }
}

fn needs_health_check(spec: &Object) -> bool {
    tree::text(spec, "type") == "LoadBalancer"
        && tree::text(spec, "externalTrafficPolicy") == "Local"
}

fn node_ports(spec: &Object) -> BTreeSet<i64> {
    tree::items(spec, "ports")
        .map(|port| tree::number(port, "nodePort"))
        .filter(|number| *number != 0)
        .collect()
}

fn same_list(left: &Object, right: &Object, field: &str) -> bool {
    tree::list(left, field) == tree::list(right, field)
}

/// Drops the deprecated topology map, and moves a node name that only it holds to
/// `nodeName`.
pub(super) fn drop_topology(slice: &mut Object, old: Option<&Object>) {
    const HOST: &str = "kubernetes.io/hostname";
    let endpoints = |slice: &Object| tree::list(slice, "endpoints").to_vec();
    if old.is_some_and(|old| endpoints(old) == endpoints(slice)) {
        return;
    }
    let host = |endpoint: &Object| {
        let topology = tree::child(endpoint, "deprecatedTopology")?;
        Some(tree::text(topology, HOST).to_owned()).filter(|host| !host.is_empty())
    };
    let known: BTreeSet<String> = old
        .into_iter()
        .flat_map(|old| tree::items(old, "endpoints").filter_map(host))
        .collect();
    for endpoint in tree::items_mut(slice, "endpoints") {
        if let Some(host) = host(endpoint).filter(|host| known.contains(host)) {
            tree::fill(endpoint, "nodeName", host);
        }
        endpoint.remove("deprecatedTopology");
    }
}
