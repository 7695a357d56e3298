//! Services.

use std::collections::HashSet;

use serde_json::json;

use super::{PROTOCOLS, app_protocol, endpoint_ip, load_balancer_host};
use crate::FieldError;
use crate::text;
use crate::validate::check::{self, Errors};
use crate::validate::meta;
use crate::validate::tree::{Node, Path};

const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const SET_ONCE: &str = "may not change once set";

fn is_headless(spec: &Node<'_>) -> bool {
    let addresses = spec.get("clusterIPs");
    addresses.list().len() == 1 && addresses.list()[0] == "None"
}

/// Validates a Service.
pub(in crate::validate) fn service(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let (kind, ports) = (spec.get("type"), spec.get("ports"));
    let headless = is_headless(&spec);
    if ports.is_empty() && !headless && kind.text() != "ExternalName" {
        errors.push(ports.required(""));
    }
    match kind.text() {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {} services", kind.text());
            let first = spec.path.field("clusterIPs").index(0);
            errors.push(kind.at(first).invalid_as(&"None".into(), &detail));
        }
        "ExternalName" => external_name(&spec, errors),
        _ => {}
    }
    service_ports(&ports, errors);
    meta::labels(&spec.get("selector"), errors);
    session_affinity(&spec, errors);
    cluster_ips(&spec, errors);
    for address in spec.get("externalIPs").items() {
        let before = errors.len();
        check::ip(&address, errors);
        if errors.len() == before {
            endpoint_ip(&address, errors);
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    check::one_of(&kind, &kinds, errors);
    unique_ports(&spec, errors);
    load_balancer(object, &spec, errors);
    traffic(&spec, errors);
}

fn external_name(spec: &Node<'_>, errors: &mut Errors) {
    let detail = "may not be set for ExternalName services";
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec.get(field).is_empty() {
            errors.push(spec.get(field).forbidden(detail));
        }
    }
    let name = spec.get("externalName");
    let plain = name.text().strip_suffix('.').unwrap_or(name.text());
    if plain.is_empty() {
        errors.push(name.required(""));
    } else {
        for message in text::dns_subdomain(plain) {
            errors.push(name.invalid_as(&plain.into(), &message));
        }
    }
}

fn service_ports(ports: &Node<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.is_empty() {
            check::format(&name, text::dns_label, errors);
            if !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
        } else if ports.list().len() > 1 {
            errors.push(name.required(""));
        }
        check::port(&port.get("port"), errors);
        check::one_of(&port.get("protocol"), PROTOCOLS, errors);
        check::port_or_name(&port.get("targetPort"), errors);
        app_protocol(&port, errors);
    }
}

fn session_affinity(spec: &Node<'_>, errors: &mut Errors) {
    let (affinity, config) = (
        spec.get("sessionAffinity"),
        spec.get("sessionAffinityConfig"),
    );
    check::one_of(&affinity, &["ClientIP", "None"], errors);
    if affinity.text() == "None" && config.is_set() {
        let detail = "must not be set when session affinity is None";
        errors.push(config.forbidden(detail));
    }
    if affinity.text() != "ClientIP" {
        return;
    }
    let client = config.get("clientIP");
    let timeout = client.get("timeoutSeconds");
    for node in [&config, &client, &timeout] {
        if !node.is_set() {
            errors.push(node.required("when session affinity type is ClientIP"));
            return;
        }
    }
    if !(1..=86400).contains(&timeout.int().unwrap_or_default()) {
        errors.push(timeout.invalid("must be greater than 0 and less than 86400"));
    }
}

fn cluster_ips(spec: &Node<'_>, errors: &mut Errors) {
    if spec.get("type").text() == "ExternalName" {
        return;
    }
    let (one, all) = (spec.get("clusterIP"), spec.get("clusterIPs"));
    let first = all.list().first().and_then(|first| first.as_str());
    match (one.text(), first) {
        ("", Some(_)) => {
            errors.push(all.invalid("must be empty when `clusterIP` is not specified"));
        }
        ("", None) => {}
        (_, None) => errors.push(all.required("")),
        (one, Some(first)) if one != first => {
            errors.push(all.invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = spec.get("ipFamilies");
    let mut seen = HashSet::new();
    for family in families.items() {
        check::one_of_if_set(&family, &["IPv4", "IPv6"], errors);
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    check::one_of_if_set(&spec.get("ipFamilyPolicy"), &policies, errors);
    addresses(spec, &all, &families, errors);
}

fn addresses(spec: &Node<'_>, all: &Node<'_>, families: &Node<'_>, errors: &mut Errors) {
    let before = errors.len();
    for (index, address) in all.items().enumerate() {
        if index > 0 || address.text() != "None" {
            check::ip(&address, errors);
        } else if all.list().len() > 1 {
            errors.push(all.invalid("'None' must be the first and only value"));
        }
    }
    let faulty = errors.len() > before;
    if all.list().len() > 2 {
        errors.push(all.invalid("may only hold up to 2 values"));
    }
    if faulty {
        return;
    }
    let kinds: HashSet<_> = all
        .items()
        .map(|address| address.text().contains(':'))
        .collect();
    if all.list().len() > 1 && kinds.len() < 2 {
        errors.push(all.invalid("may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    for (index, (address, family)) in all.items().zip(families.items()).enumerate() {
        let is_v6 = address.text().contains(':');
        if (family.text() == "IPv4" && is_v6) || (family.text() == "IPv6" && !is_v6) {
            let family = family.text();
            let detail =
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(address.invalid(&detail));
        }
    }
}

fn unique_ports(spec: &Node<'_>, errors: &mut Errors) {
    let ports = spec.get("ports");
    let number = |port: &Node<'_>, field| port.get(field).int().unwrap_or_default();
    if spec.get("type").text() == "ClusterIP" {
        for port in ports.items().filter(|port| number(port, "nodePort") != 0) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(port.get("nodePort").forbidden(detail));
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items().filter(|port| number(port, "nodePort") != 0) {
        if !seen.insert((port.get("protocol").text(), number(&port, "nodePort"))) {
            errors.push(port.get("nodePort").duplicate());
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.get("protocol").text(), number(&port, "port"));
        if !seen.insert((protocol, number)) {
            // Go prints the whole struct, of which only two fields are set.
            let printed = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                json!(protocol)
            );
            errors.push(FieldError::duplicate_printed(
                port.path.to_string(),
                &printed,
            ));
        }
    }
}

fn load_balancer(object: &Node<'_>, spec: &Node<'_>, errors: &mut Errors) {
    let is_balancer = spec.get("type").text() == "LoadBalancer";
    let place = spec.path.field("LoadBalancerSourceRanges");
    let ranges = spec.get("loadBalancerSourceRanges").at(place);
    let key = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let noted = object.get("metadata").get("annotations").entry(key);
    if !ranges.is_empty() {
        if !is_balancer {
            errors.push(ranges.forbidden(ONLY_LOAD_BALANCER));
        }
        ranges.items().for_each(|range| check::cidr(&range, errors));
    } else if noted.is_set() && !is_balancer {
        errors.push(noted.forbidden(ONLY_LOAD_BALANCER));
    }
    let allocate = spec.get("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !is_balancer {
        errors.push(allocate.forbidden(ONLY_LOAD_BALANCER));
    }
    if is_balancer && !allocate.is_set() {
        let place = Path::default().field("allocateLoadBalancerNodePorts");
        errors.push(allocate.at(place).required(""));
    }
    load_balancer_class(spec, errors);
}

fn load_balancer_class(spec: &Node<'_>, errors: &mut Errors) {
    let class = spec.get("loadBalancerClass");
    if !class.is_set() {
        return;
    }
    if spec.get("type").text() == "LoadBalancer" {
        check::format(&class, text::qualified_name, errors);
    } else {
        errors.push(class.forbidden(ONLY_LOAD_BALANCER));
    }
}

fn traffic(spec: &Node<'_>, errors: &mut Errors) {
    let (kind, external) = (spec.get("type").text(), spec.get("externalTrafficPolicy"));
    let outside = matches!(kind, "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.get("externalIPs").is_empty());
    if outside {
        check::one_of(&external, &["Cluster", "Local"], errors);
    } else if !external.is_empty() {
        errors.push(external.invalid("may only be set for externally-accessible services"));
    }
    let health = spec.get("healthCheckNodePort");
    let checked = kind == "LoadBalancer" && external.text() == "Local";
    match (checked, health.int().unwrap_or_default()) {
        (false, 0) => {}
        (false, _) => errors.push(health.invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
        // The server allocates a port.
        (true, 0) => {}
        (true, _) => check::port(&health, errors),
    }
    let internal = spec.get("internalTrafficPolicy");
    if !internal.is_set() && matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.push(internal.required(""));
    }
    check::one_of_if_set(&internal, &["Cluster", "Local"], errors);
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    check::one_of_if_set(&spec.get("trafficDistribution"), &distributions, errors);
}

/// Validates an update of a Service.
pub(in crate::validate) fn service_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (before, after) = (old.get("spec"), new.get("spec"));
    let is = |spec: &Node<'_>, kind| spec.get("type").text() == kind;
    if !is(&before, "ExternalName") && !is(&after, "ExternalName") {
        cluster_ips_update(&before, &after, errors);
        ip_families_update(&before, &after, errors);
    }
    let class = after.get("loadBalancerClass");
    if is(&before, "LoadBalancer")
        && is(&after, "LoadBalancer")
        && !class.same(&before.get("loadBalancerClass"))
    {
        errors.push(class.invalid(SET_ONCE));
    }
    load_balancer_class(&after, errors);
    let checked = |spec: &Node<'_>| {
        is(spec, "LoadBalancer") && spec.get("externalTrafficPolicy").text() == "Local"
    };
    let health = after.get("healthCheckNodePort");
    if checked(&before) && checked(&after) && !health.same(&before.get("healthCheckNodePort")) {
        errors.push(health.forbidden(check::IMMUTABLE));
    }
    service(new, errors);
}

fn cluster_ips_update(before: &Node<'_>, after: &Node<'_>, errors: &mut Errors) {
    if is_headless(before) && is_headless(after) {
        return;
    }
    let (old, new) = (before.get("clusterIPs"), after.get("clusterIPs"));
    let refuse = |index, detail: &str| {
        let place = new.path.index(index).to_string();
        FieldError::invalid(place, new.value(), detail)
    };
    let (had, has) = (old.list(), new.list());
    if had.len() == has.len() {
        for index in (0..had.len()).filter(|index| had[*index] != has[*index]) {
            errors.push(refuse(index, SET_ONCE));
        }
        return;
    }
    if had.len() > has.len() && has.is_empty() {
        errors.push(refuse(0, "primary clusterIP can not be unset"));
    }
    if !had.is_empty() && !has.is_empty() && had[0] != has[0] {
        errors.push(refuse(0, SET_ONCE));
    }
    let policy = after.get("ipFamilyPolicy");
    if had.len() > has.len() && has.len() == 1 && policy.text() != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.push(policy.invalid(detail));
    }
}

fn ip_families_update(before: &Node<'_>, after: &Node<'_>, errors: &mut Errors) {
    if is_headless(before) || is_headless(after) {
        return;
    }
    let (old, new) = (before.get("ipFamilies"), after.get("ipFamilies"));
    let (had, has) = (old.list(), new.list());
    let place = new.path.index(0);
    if had.len() == has.len() {
        for _ in had.iter().zip(has).filter(|(had, has)| had != has) {
            errors.push(new.at(place.clone()).invalid(SET_ONCE));
        }
    } else if !had.is_empty() && !has.is_empty() && had[0] != has[0] {
        let addresses = after.get("clusterIPs");
        errors.push(addresses.at(place).invalid(SET_ONCE));
    }
}

/// Validates the status of a Service.
pub(in crate::validate) fn service_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let points = new.get("status").get("loadBalancer").get("ingress");
    if new.get("spec").get("type").text() != "LoadBalancer" && !points.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(points.forbidden(detail));
        return;
    }
    for point in points.items() {
        let (address, mode) = (point.get("ip"), point.get("ipMode"));
        if !address.is_empty() {
            check::ip(&address, errors);
        }
        match (mode.is_set(), !address.is_empty()) {
            (false, true) => errors.push(mode.required("must be specified when `ip` is set")),
            (true, false) => {
                errors.push(mode.forbidden("may not be specified when `ip` is not set"));
            }
            _ => check::one_of_if_set(&mode, &["Proxy", "VIP"], errors),
        }
        load_balancer_host(&point.get("hostname"), errors);
    }
}
