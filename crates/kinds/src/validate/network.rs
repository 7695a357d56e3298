//! Endpoints, Ingresses, NetworkPolicies and service IPs.

mod service;

use std::collections::HashSet;
use std::net::IpAddr;

pub(super) use service::{service, service_status, service_update};

use super::check::{self, Errors};
use super::meta;
use super::tree::Node;
use crate::FieldError;
use crate::text;

/// The protocols of ports.
pub(super) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Validates an Endpoints object.
pub(super) fn endpoints(object: &Node<'_>, errors: &mut Errors) {
    for subset in object.get("subsets").items() {
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| subset.get(list).is_empty()) {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(subset.required(detail));
        }
        for list in lists {
            for address in subset.get(list).items() {
                check::ip(&address.get("ip"), errors);
                check::format_if_set(&address.get("hostname"), text::dns_label, errors);
                check::format_if_set(&address.get("nodeName"), text::dns_subdomain, errors);
                endpoint_ip(&address.get("ip"), errors);
            }
        }
        let ports = subset.get("ports");
        for port in ports.items() {
            if ports.list().len() > 1 {
                check::required(&port.get("name"), errors);
            }
            check::format_if_set(&port.get("name"), text::dns_label, errors);
            check::port(&port.get("port"), errors);
            check::one_of(&port.get("protocol"), PROTOCOLS, errors);
            app_protocol(&port, errors);
        }
    }
}

fn app_protocol(port: &Node<'_>, errors: &mut Errors) {
    if port.get("appProtocol").is_set() {
        check::format(&port.get("appProtocol"), text::qualified_name, errors);
    }
}

/// Validates an IP address that is reachable from other hosts.
fn endpoint_ip(node: &Node<'_>, errors: &mut Errors) {
    let Ok(address) = node.text().parse::<IpAddr>() else {
        errors.push(node.invalid_text("must be a valid IP address"));
        return;
    };
    if address.is_unspecified() {
        let detail = format!("may not be unspecified ({})", node.text());
        errors.push(node.invalid(&detail));
    }
    if address.is_loopback() {
        let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.push(node.invalid(detail));
    }
    let (link_local, multicast) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            address.octets()[..3] == [224, 0, 0],
        ),
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            (first & 0xffc0 == 0xfe80, first & 0xff0f == 0xff02)
        }
    };
    if link_local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.push(node.invalid(detail));
    }
    if multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(node.invalid(detail));
    }
}

/// Validates an EndpointSlice.
pub(super) fn endpoint_slice(object: &Node<'_>, errors: &mut Errors) {
    let kind = object.get("addressType");
    check::one_of(&kind, &["FQDN", "IPv4", "IPv6"], errors);
    slice_ports(&object.get("ports"), errors);
    let endpoints = object.get("endpoints");
    if endpoints.list().len() > 1000 {
        errors.push(endpoints.too_many(1000));
        return;
    }
    for endpoint in endpoints.items() {
        slice_addresses(&endpoint.get("addresses"), kind.text(), errors);
        if endpoint.get("nodeName").is_set() {
            check::format(&endpoint.get("nodeName"), text::dns_subdomain, errors);
        }
        meta::labels(&endpoint.get("deprecatedTopology"), errors);
        if endpoint.get("hostname").is_set() {
            check::format(&endpoint.get("hostname"), text::dns_label, errors);
        }
        let hints = endpoint.get("hints");
        slice_hints(&hints.get("forZones"), text::label_value, errors);
        slice_hints(&hints.get("forNodes"), text::dns_subdomain, errors);
    }
}

fn slice_ports(ports: &Node<'_>, errors: &mut Errors) {
    if ports.list().len() > 20_000 {
        errors.push(ports.too_many(20_000));
        return;
    }
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        check::format_if_set(&name, text::dns_label, errors);
        if !names.insert(name.text()) {
            let place = name.path.to_string();
            errors.push(FieldError::duplicate(place, &name.text().into()));
        }
        check::one_of(&port.get("protocol"), PROTOCOLS, errors);
        app_protocol(&port, errors);
    }
}

fn slice_addresses(addresses: &Node<'_>, kind: &str, errors: &mut Errors) {
    if addresses.is_empty() {
        errors.push(addresses.required("must contain at least 1 address"));
    } else if addresses.list().len() > 100 {
        errors.push(addresses.too_many(100));
    }
    for address in addresses.items() {
        if kind == "FQDN" {
            domain_name(&address, errors);
            continue;
        }
        let before = errors.len();
        check::ip(&address, errors);
        if errors.len() > before {
            continue;
        }
        let is_v6 = address.text().contains(':');
        if (kind == "IPv4" && is_v6) || (kind == "IPv6" && !is_v6) {
            let detail = format!("must be an {kind} address");
            errors.push(address.at(addresses.path.clone()).invalid(&detail));
        }
        endpoint_ip(&address, errors);
    }
}

fn domain_name(node: &Node<'_>, errors: &mut Errors) {
    if !check::required(node, errors) {
        return;
    }
    let name = node.text().strip_suffix('.').unwrap_or(node.text());
    let messages = text::dns_subdomain(name);
    if !messages.is_empty() {
        errors.push(node.invalid_as(&name.into(), &messages.join(",")));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(node.invalid_as(&name.into(), detail));
    }
}

fn slice_hints(hints: &Node<'_>, rule: fn(&str) -> text::Messages, errors: &mut Errors) {
    if hints.list().len() > 8 {
        errors.push(hints.too_many(8));
        return;
    }
    let mut names = HashSet::new();
    for hint in hints.items() {
        let name = hint.get("name");
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
        check::format(&name, rule, errors);
    }
}

/// Validates an update of an EndpointSlice.
pub(super) fn endpoint_slice_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    check::immutable(&old.get("addressType"), &new.get("addressType"), errors);
}

/// Validates a new Ingress.
pub(super) fn ingress_create(object: &Node<'_>, errors: &mut Errors) {
    ingress(object, errors);
    let class = object.get("spec").get("ingressClassName");
    let key = "kubernetes.io/ingress.class";
    let noted = object.get("metadata").get("annotations").get(key);
    if noted.is_set() && class.is_set() && noted.text() != class.text() {
        let place = super::tree::Path::default().field("annotations").field(key);
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(noted.at(place).invalid(detail));
    }
}

/// Validates an Ingress.
pub(super) fn ingress(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let (backend, rules) = (spec.get("defaultBackend"), spec.get("rules"));
    if rules.is_empty() && !backend.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_as(rules.value(), detail));
    }
    if backend.is_set() {
        ingress_backend(&backend, errors);
    }
    for rule in rules.items() {
        ingress_rule(&rule, errors);
    }
    for entry in spec.get("tls").items() {
        for host in entry.get("hosts").items() {
            ingress_host(&host, errors);
        }
        check::format_if_set(&entry.get("secretName"), text::dns_subdomain, errors);
    }
    if spec.get("ingressClassName").is_set() {
        check::format(&spec.get("ingressClassName"), text::dns_subdomain, errors);
    }
}

fn ingress_host(host: &Node<'_>, errors: &mut Errors) {
    if host.text().contains('*') {
        check::format(host, text::wildcard_subdomain, errors);
    } else {
        check::format(host, text::dns_subdomain, errors);
    }
}

fn ingress_rule(rule: &Node<'_>, errors: &mut Errors) {
    let host = rule.get("host");
    if !host.is_empty() {
        if host.text().parse::<IpAddr>().is_ok() {
            errors.push(host.invalid("must be a DNS name, not an IP address"));
        }
        ingress_host(&host, errors);
    }
    let http = rule.get("http");
    if !http.is_set() {
        return;
    }
    check::required(&http.get("paths"), errors);
    for path in http.get("paths").items() {
        ingress_path(&path, errors);
    }
}

fn ingress_path(item: &Node<'_>, errors: &mut Errors) {
    let (path, kind) = (item.get("path"), item.get("pathType"));
    if !kind.is_set() {
        errors.push(kind.required("pathType must be specified"));
        return;
    }
    let absolute = path.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.push(path.invalid_text("must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(part) {
                    errors.push(path.invalid(&format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if path.text().ends_with(end) {
                    errors.push(path.invalid(&format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !absolute {
                errors.push(path.invalid("must be an absolute path"));
            }
        }
        _ => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(kind.not_supported(&known));
        }
    }
    ingress_backend(&item.get("backend"), errors);
}

fn ingress_backend(backend: &Node<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    let refuse = |detail| backend.invalid_as(&"".into(), detail);
    match (service.is_set(), resource.is_set()) {
        (true, true) => errors.push(refuse("cannot set both resource and service backends")),
        (false, true) => reference(&resource, errors),
        (false, false) => errors.push(refuse("resource or service backend is required")),
        (true, false) => {
            check::required_format(&service.get("name"), text::dns_label, errors);
            let port = service.get("port");
            let (name, number) = (port.get("name"), port.get("number"));
            let numbered = number.int().unwrap_or_default() != 0;
            match (!name.is_empty(), numbered) {
                (true, true) => errors.push(refuse("cannot set both port name & port number")),
                (true, false) => check::format(&name, text::port_name, errors),
                (false, true) => check::port(&number, errors),
                (false, false) => {
                    errors.push(backend.required("port name or number is required"));
                }
            }
        }
    }
}

fn reference(reference: &Node<'_>, errors: &mut Errors) {
    if reference.get("apiGroup").is_set() {
        check::format(&reference.get("apiGroup"), text::dns_subdomain, errors);
    }
    for field in ["kind", "name"] {
        check::required_format(&reference.get(field), text::path_segment, errors);
    }
}

/// Validates the status of an Ingress.
pub(super) fn ingress_status(_old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let points = new.get("status").get("loadBalancer").get("ingress");
    for point in points.items() {
        if !point.get("ip").is_empty() {
            check::ip(&point.get("ip"), errors);
        }
        load_balancer_host(&point.get("hostname"), errors);
    }
}

fn load_balancer_host(host: &Node<'_>, errors: &mut Errors) {
    check::format_if_set(host, text::dns_subdomain, errors);
    if host.text().parse::<IpAddr>().is_ok() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    }
}

/// Validates an IngressClass.
pub(super) fn ingress_class(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let controller = spec.get("controller");
    if controller.text().len() > 250 {
        errors.push(controller.too_long(250));
    }
    prefixed_path(&controller, errors);
    let parameters = spec.get("parameters");
    if !parameters.is_set() {
        return;
    }
    reference(&parameters, errors);
    let (scope, namespace) = (parameters.get("scope"), parameters.get("namespace"));
    match scope.text() {
        "" => errors.push(scope.required("")),
        "Namespace" if namespace.is_set() => check::format(&namespace, text::dns_label, errors),
        "Namespace" => {
            errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        "Cluster" => {
            if namespace.is_set() {
                errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
            }
        }
        _ => errors.push(scope.not_supported(&["Cluster", "Namespace"])),
    }
}

fn prefixed_path(node: &Node<'_>, errors: &mut Errors) {
    if !check::required(node, errors) {
        return;
    }
    match node.text().split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for message in text::dns_subdomain(host) {
                errors.push(node.invalid_as(&host.into(), &message));
            }
            let allowed =
                |byte: u8| byte.is_ascii_alphanumeric() || br"/-._~%!$&'()*+,;=:".contains(&byte);
            if !path.bytes().all(allowed) {
                let expression = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
                let detail = text::pattern("Invalid path", expression, &[]);
                errors.push(node.invalid_as(&path.into(), &detail));
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(node.invalid(detail));
        }
    }
}

/// Validates an update of an IngressClass.
pub(super) fn ingress_class_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (old, new) = (old.get("spec"), new.get("spec"));
    check::immutable(&old.get("controller"), &new.get("controller"), errors);
}

/// Validates a NetworkPolicy.
pub(super) fn network_policy(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    meta::selector(&spec.get("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.get(direction).items() {
            for port in rule.get("ports").items() {
                policy_port(&port, errors);
            }
            for peer in rule.get(peers).items() {
                policy_peer(&peer, errors);
            }
        }
    }
    let types = spec.get("policyTypes");
    if types.list().len() > 2 {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    for kind in types.items() {
        check::one_of_if_set(&kind, &["Ingress", "Egress"], errors);
    }
}

fn policy_port(item: &Node<'_>, errors: &mut Errors) {
    check::one_of_if_set(&item.get("protocol"), &["TCP", "UDP", "SCTP"], errors);
    let (port, end) = (item.get("port"), item.get("endPort"));
    let detail = if !port.is_set() {
        "may not be specified when `port` is not specified"
    } else if let Some(first) = port.int() {
        check::port(&port, errors);
        if end.int().is_some_and(|last| last < first) {
            let detail = "must be greater than or equal to `port`";
            errors.push(end.invalid_as(port.value(), detail));
        }
        if end.is_set() {
            check::port(&end, errors);
        }
        return;
    } else {
        "may not be specified when `port` is non-numeric"
    };
    if end.is_set() {
        errors.push(end.invalid(detail));
    }
    if port.is_set() {
        check::format(&port, text::port_name, errors);
    }
}

fn policy_peer(peer: &Node<'_>, errors: &mut Errors) {
    let mut selects = false;
    for field in ["podSelector", "namespaceSelector"] {
        selects |= peer.get(field).is_set();
        meta::selector(&peer.get(field), errors);
    }
    let block = peer.get("ipBlock");
    if block.is_set() {
        ip_block(&block, errors);
    }
    match (selects, block.is_set()) {
        (false, false) => errors.push(peer.required("must specify a peer")),
        (true, true) => {
            let detail = "may not specify both ipBlock and another peer";
            errors.push(peer.forbidden(detail));
        }
        _ => {}
    }
}

fn ip_block(block: &Node<'_>, errors: &mut Errors) {
    let cidr = block.get("cidr");
    if !check::required(&cidr, errors) {
        return;
    }
    check::cidr(&cidr, errors);
    let Some(whole) = check::parse_cidr(cidr.text()) else {
        return;
    };
    for except in block.get("except").items() {
        check::cidr(&except, errors);
        let Some(part) = check::parse_cidr(except.text()) else {
            continue;
        };
        if !(whole.contains(&part) && part.prefix_len() > whole.prefix_len()) {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

/// An IPAddress.
pub(super) fn ip_address(object: &Node<'_>, errors: &mut Errors) {
    let parent = object.get("spec").get("parentRef");
    if !parent.is_set() {
        errors.push(parent.required(""));
        return;
    }
    check::format_if_set(&parent.get("group"), text::dns_subdomain, errors);
    for field in ["resource", "name"] {
        check::required_format(&parent.get(field), text::path_segment, errors);
    }
    check::format_if_set(&parent.get("namespace"), text::path_segment, errors);
}

/// Validates an update of an IPAddress.
pub(super) fn ip_address_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let parent = new.get("spec").get("parentRef");
    if parent.same(&old.get("spec").get("parentRef")) {
        return;
    }
    let text = |field| serde_json::Value::from(parent.get(field).text());
    let printed = format!(
        r#"{{"Group":{},"Resource":{},"Namespace":{},"Name":{}}}"#,
        text("group"),
        text("resource"),
        text("namespace"),
        text("name")
    );
    let place = parent.path.to_string();
    errors.push(FieldError::invalid_printed(
        place,
        &printed,
        check::IMMUTABLE,
    ));
}

/// Validates a ServiceCIDR.
pub(super) fn service_cidr(object: &Node<'_>, errors: &mut Errors) {
    let cidrs = object.get("spec").get("cidrs");
    if cidrs.is_empty() {
        errors.push(cidrs.required("at least one CIDR required"));
        return;
    }
    if cidrs.list().len() > 2 {
        errors.push(cidrs.invalid("may only hold up to 2 values"));
        return;
    }
    for cidr in cidrs.items() {
        check::cidr(&cidr, errors);
    }
    let families: HashSet<_> = cidrs
        .items()
        .map(|cidr| cidr.text().contains(':'))
        .collect();
    if cidrs.list().len() > families.len() {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.push(cidrs.invalid(detail));
    }
}

/// Validates an update of a ServiceCIDR.
pub(super) fn service_cidr_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (had, has) = (old.get("spec").get("cidrs"), new.get("spec").get("cidrs"));
    match (had.list().len(), has.list().len()) {
        (before, after) if before == after => {
            for (old, new) in had.items().zip(has.items()) {
                check::immutable(&old, &new, errors);
            }
        }
        (1, 2) => {
            if let (Some(old), Some(new)) = (had.items().next(), has.items().next()) {
                check::immutable(&old, &new, errors);
            }
            service_cidr(new, errors);
        }
        _ => errors.push(has.invalid(check::IMMUTABLE)),
    }
}
