//! The conditions of a machine. No I/O.

use insula_capi::{Initialization, paused};
use insula_operator::condition::{Condition, ConditionWriter, READY, find, seconds};
use k8s_openapi::jiff::Timestamp;

use crate::kinds::machine::Metal3Machine;
use crate::operator::conditions::mirror;

/// Whether the machine has a host.
pub(crate) const HOST: &str = "AssociateBareMetalHost";
/// Whether the Secrets of the machine are next to its host.
const META_DATA: &str = "AssociateMetal3MachineMetaData";
/// Whether the data of the machine is rendered.
const DATA: &str = "Metal3DataReady";
/// Whether the machine has a node.
const NODE: &str = "KubernetesNodeReady";

/// The machine has a host.
pub(super) const ASSOCIATED: &str = "AssociateBareMetalHostSuccess";
/// The machine gets no host.
pub(super) const FAILED: &str = "AssociateBareMetalHostFailed";
/// The machine is being deleted.
pub(super) const DELETING: &str = "Deleting";

/// The host is not provisioned yet.
pub(super) const WAITING_FOR_HOST: &str = "WaitingForBareMetalHost";

/// The state of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl State {
    pub(super) fn new(is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_true,
            reason,
            message: message.into(),
        }
    }

    pub(super) fn is_true(&self) -> bool {
        self.is_true
    }
}

/// The conditions, without their summary.
pub(super) const ALL: [&str; 4] = [HOST, META_DATA, DATA, NODE];

/// Returns whether users get an event about a condition that has changed: that the machine has a
/// host, or that something went wrong. Waiting is normal.
pub(super) fn is_reported(before: Option<&Condition>, now: &Condition) -> bool {
    let is_same =
        before.is_some_and(|before| before.status == now.status && before.reason == now.reason);
    let is_normal = match now.status.as_str() {
        "True" => now.type_ != HOST,
        _ => now.reason.starts_with("Waiting") || now.reason == DELETING,
    };
    !is_same && !is_normal
}

/// What a reconciliation found. What it did not reach is as before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub host: Option<State>,
    pub meta_data: Option<State>,
    pub data: Option<State>,
    pub node: Option<State>,
    /// Whether the machine has its provider ID.
    pub is_provisioned: bool,
    /// Why the machine is paused, if it is.
    pub paused: Option<String>,
}

/// Sets the conditions of a machine. Once it is provisioned it stays so, because Cluster API does
/// not take that back either.
pub(super) fn conclude(
    machine: &mut Metal3Machine,
    stored: &Metal3Machine,
    report: &Report,
    now: Timestamp,
) {
    let mut writer = ConditionWriter::of(machine, now);
    paused::set_condition(&mut writer, report.paused.as_deref());
    for (kind, state) in [
        (HOST, &report.host),
        (META_DATA, &report.meta_data),
        (DATA, &report.data),
        (NODE, &report.node),
    ] {
        match state {
            Some(state) if state.is_true => {
                writer.set_true(kind, state.reason, state.message.as_str());
            }
            Some(state) => writer.set_false(kind, state.reason, state.message.as_str()),
            None => {}
        }
    }
    // A machine with a host is not ready before it was checked for its node.
    let has_host = report.host.as_ref().is_some_and(|state| state.is_true);
    if has_host && find(writer.conditions, NODE).is_none() {
        writer.set_false(NODE, WAITING_FOR_HOST, "its host is not provisioned yet");
    }
    writer.summary(&ALL);
    let status = machine.status.get_or_insert_default();
    if report.is_provisioned {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
    let names = &[
        (READY, READY),
        (HOST, "AssociateBMH"),
        (DATA, DATA),
        (NODE, NODE),
    ];
    mirror(&status.conditions, &mut status.deprecated, names);
    // The time is not written alone, because each write would trigger the next one.
    if machine.status != stored.status {
        let status = machine.status.get_or_insert_default();
        status.last_updated = Some(seconds(now));
    }
}

#[cfg(test)]
mod tests;
