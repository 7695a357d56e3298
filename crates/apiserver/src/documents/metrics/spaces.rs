//! The metrics of the spaces that use most: ten at most of each resource, and only those that use
//! much, so that there is no series for every tenant.

use std::fmt::Write;

use insula_core::Space;

use crate::flow_control::FlowControl;
use crate::flow_control::connection_tracker::ConnectionTracker;
use crate::registry::Registry;

/// The most spaces that are named for each resource.
const COSTLIEST: usize = 10;

/// The use from which on a space is named.
const MIN_WATCHES: u64 = 100;
const MIN_CONNECTIONS: u64 = 20;
const MIN_STORED_BYTES: u64 = 16 << 20;

/// Writes the metrics of the costliest spaces.
pub(super) fn write(
    text: &mut String,
    registry: &Registry,
    flow_control: &FlowControl,
    connections: &ConnectionTracker,
) {
    let (rejected, rejected_by_space) = flow_control.rate_limited(COSTLIEST);
    write!(
        text,
        "# HELP insula_rate_limited_total Requests rejected with 429 for the rate of their tenant.\n\
         # TYPE insula_rate_limited_total counter\n\
         insula_rate_limited_total {rejected}\n"
    )
    .ok();
    let widen = |spaces: Vec<(Space, u32)>| -> Vec<(Space, u64)> {
        let spaces = spaces.into_iter();
        spaces.map(|(space, used)| (space, used.into())).collect()
    };
    for (name, kind, help, spaces, min) in [
        (
            "rate_limited_total",
            "counter",
            "Requests rejected with 429 for the rate of their tenant, of the tenants with most.",
            rejected_by_space,
            1,
        ),
        (
            "watches",
            "gauge",
            "Open watches of the spaces with most.",
            widen(flow_control.most_watches(COSTLIEST)),
            MIN_WATCHES,
        ),
        (
            "connections",
            "gauge",
            "Open connections of the spaces with most.",
            widen(connections.costliest(COSTLIEST)),
            MIN_CONNECTIONS,
        ),
        (
            "stored_bytes",
            "gauge",
            "Bytes that the objects of a tenant take in the store, of the tenants with most.",
            most_stored(registry),
            MIN_STORED_BYTES,
        ),
    ] {
        let name = format!("insula_space_{name}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
        for (space, value) in spaces.into_iter().filter(|(_, value)| *value >= min) {
            writeln!(text, "{name}{{space=\"{space}\"}} {value}").ok();
        }
    }
}

fn most_stored(registry: &Registry) -> Vec<(Space, u64)> {
    let usages = registry.cache().usages().into_iter();
    let mut stored: Vec<_> = usages.map(|(space, usage)| (space, usage.bytes)).collect();
    stored.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    stored.truncate(COSTLIEST);
    stored
}
