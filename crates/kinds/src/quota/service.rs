//! Quota usage of services: their count, node ports and load balancers.

use super::{Amounts, ONE};
use crate::Object;
use crate::defaults::tree;
use crate::quantity::{Format, Quantity};

const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";

pub(super) fn is_used(name: &str) -> bool {
    ["services", NODE_PORTS, LOAD_BALANCERS].contains(&name)
}

pub(super) fn usage(service: &Object) -> Amounts {
    let empty = Object::new();
    let spec = tree::child(service, "spec").unwrap_or(&empty);
    let ports = tree::list(spec, "ports").len();
    let balanced = tree::text(spec, "type") == "LoadBalancer";
    let node_ports = match tree::text(spec, "type") {
        "NodePort" => ports,
        // Without allocation only explicit node ports count.
        "LoadBalancer" if spec.get("allocateLoadBalancerNodePorts") == Some(&false.into()) => {
            tree::items(spec, "ports")
                .filter(|port| tree::number(port, "nodePort") != 0)
                .count()
        }
        "LoadBalancer" => ports,
        _ => 0,
    };
    let number = |count: usize| {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        Quantity::new(count, Format::Decimal)
    };
    Amounts::from([
        ("services".to_owned(), ONE),
        (NODE_PORTS.to_owned(), number(node_ports)),
        (LOAD_BALANCERS.to_owned(), number(balanced.into())),
    ])
}
