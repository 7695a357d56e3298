//! Which host a machine searches for, and why there is none. No I/O.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::hosts::choose::{ReuseGroup, Search};
use crate::hosts::consumer::Consumer;
use crate::hosts::selector::{InvalidSelector, Selector};
use crate::kinds::host::{BareMetalHost, ProvisioningState};
use crate::kinds::machine::Metal3Machine;
use crate::names::{HOST_PAUSED, HOST_UNHEALTHY, HOST_UNHEALTHY_FORMER, NODE_REUSE};

/// Returns which host a machine searches for.
///
/// # Errors
///
/// If its selector is invalid.
pub(super) fn search(
    machine: &Metal3Machine,
    consumer: Consumer,
    reuse: Option<ReuseGroup>,
) -> Result<Search, InvalidSelector> {
    let none = BTreeMap::new();
    let selector = machine.spec.host_selector.as_ref();
    let labels = selector.map_or(&none, |selector| &selector.match_labels);
    let expressions = selector.map(|selector| selector.match_expressions.iter());
    let expressions = expressions.into_iter().flatten().map(|one| {
        let values = one.values.as_slice();
        (one.key.as_str(), one.operator.as_str(), values)
    });
    Ok(Search {
        machine: consumer,
        selector: Selector::new(labels, expressions)?,
        reuse,
        failure_domain: machine.spec.failure_domain.clone(),
    })
}

/// Why a machine cannot get a host, in the order in which reasons are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    NotSelected,
    InUse,
    Reserved,
    Deleted,
    Failed,
    Unhealthy,
    Paused,
    NotAvailable,
}

impl Obstacle {
    fn text(self) -> &'static str {
        match self {
            Self::NotSelected => "not selected by hostSelector",
            Self::InUse => "in use",
            Self::Reserved => "kept for other machines",
            Self::Deleted => "being deleted",
            Self::Failed => "with an error",
            Self::Unhealthy => "marked as unhealthy",
            Self::Paused => "paused",
            Self::NotAvailable => "not available yet",
        }
    }
}

/// Returns a sentence about why none of these hosts can be used.
pub(super) fn no_host<'a>(
    hosts: impl IntoIterator<Item = &'a BareMetalHost>,
    search: &Search,
    namespace: &str,
) -> String {
    let mut obstacles: BTreeMap<Obstacle, usize> = BTreeMap::new();
    for host in hosts {
        *obstacles.entry(obstacle(host, search)).or_default() += 1;
    }
    let total: usize = obstacles.values().sum();
    if total == 0 {
        return format!("no available host: there are no hosts in namespace {namespace}");
    }
    let parts = obstacles.iter();
    let parts: Vec<_> = parts
        .map(|(obstacle, count)| format!("{count} {}", obstacle.text()))
        .collect();
    let hosts = if total == 1 { "host" } else { "hosts" };
    format!(
        "no available host: of {total} {hosts} in namespace {namespace}, {}",
        parts.join(", ")
    )
}

fn obstacle(host: &BareMetalHost, search: &Search) -> Obstacle {
    let has_mark = |marks: &[&str]| {
        let annotations = host.annotations();
        marks.iter().any(|mark| annotations.contains_key(*mark))
    };
    let status = host.status.as_ref();
    if !search.selector.selects(host.metadata.labels.as_ref()) {
        Obstacle::NotSelected
    } else if host.labels().contains_key(NODE_REUSE) {
        Obstacle::Reserved
    } else if host.spec.consumer_ref.is_some() {
        Obstacle::InUse
    } else if host.metadata.deletion_timestamp.is_some() {
        Obstacle::Deleted
    } else if status.is_some_and(|status| !status.error_message.is_empty()) {
        Obstacle::Failed
    } else if has_mark(&[HOST_UNHEALTHY, HOST_UNHEALTHY_FORMER]) {
        Obstacle::Unhealthy
    } else if has_mark(&[HOST_PAUSED]) && host.state() == ProvisioningState::Available {
        Obstacle::Paused
    } else {
        Obstacle::NotAvailable
    }
}

#[cfg(test)]
mod tests;
