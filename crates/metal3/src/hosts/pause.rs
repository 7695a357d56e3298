//! Annotations for moves to another management cluster.
//!
//! A host that moves with its cluster must be paused, with a copy of its status, before the move.
//! A host that is reached with a credential of its own stays where it is, and gets none of these
//! annotations.

use std::collections::BTreeMap;

use insula_capi::names::CLUSTER_LABEL;
use serde_json::Value;

use super::consumer::Consumer;
use crate::kinds::host::BareMetalHost;
use crate::names::{BLOCK_MOVE, HOST_PAUSED, HOST_PAUSED_BY, HOST_STATUS};

/// Whether a host is moved together with the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMove {
    /// It is, since both are in one namespace of one cluster.
    WithMachine,
    /// It is not, since the machine reaches it with an identity.
    Never,
}

/// Whether the cluster is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It is reconciled.
    Running,
    /// It is paused, as before a move.
    Paused,
}

/// One change of the annotations of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A move waits from now on.
    BlockMove,
    /// The Bare Metal Operator stops, and the status is copied.
    Pause,
    /// The status of a host that a user has paused is copied: without it, the Bare Metal Operator
    /// of the target would take a host in use for a new one.
    CopyStatus,
    /// A move need not wait any more.
    AllowMove,
    /// The Bare Metal Operator continues.
    Resume,
}

/// Returns the next change; none if nothing has to change. Each is a request of its own, because
/// a move may look at the host at any time.
pub fn next_step(
    host: &BareMetalHost,
    machine: &Consumer,
    cluster: &str,
    state: ClusterState,
    host_move: HostMove,
) -> Option<Step> {
    if host_move == HostMove::Never || !machine.has(host) {
        return None;
    }
    let none = BTreeMap::new();
    let annotations = host.metadata.annotations.as_ref().unwrap_or(&none);
    let is_blocked = annotations.contains_key(BLOCK_MOVE);
    let block = (!is_blocked).then_some(Step::BlockMove);
    match (state, annotations.get(HOST_PAUSED)) {
        (ClusterState::Paused, Some(_)) if lacks_status_copy(host) => Some(Step::CopyStatus),
        (ClusterState::Paused, Some(_)) => is_blocked.then_some(Step::AllowMove),
        (ClusterState::Paused, None) if is_blocked => Some(Step::Pause),
        (ClusterState::Running, Some(by)) => {
            let labels = host.metadata.labels.as_ref();
            let of_cluster = labels.and_then(|labels| labels.get(CLUSTER_LABEL));
            let is_own = by == HOST_PAUSED_BY && of_cluster.is_some_and(|name| name == cluster);
            match is_own {
                true => Some(Step::Resume),
                // A pause of a user is respected. Its status has to be copied before a move.
                false if by != HOST_PAUSED_BY => block,
                false => None,
            }
        }
        (_, None) => block,
    }
}

/// Returns whether a host has a status, and no copy of it that would survive a move.
pub(crate) fn lacks_status_copy(host: &BareMetalHost) -> bool {
    let annotations = host.metadata.annotations.as_ref();
    let is_copied = annotations.is_some_and(|all| all.contains_key(HOST_STATUS));
    host.status.is_some() && !is_copied
}

/// Changes the annotations of a host.
pub fn apply(host: &mut BareMetalHost, step: Step) {
    let status = host.status.as_ref().map(status_copy);
    let annotations = host.metadata.annotations.get_or_insert_default();
    let mut put = |key: &str, value: String| annotations.insert(key.to_owned(), value);
    match step {
        Step::BlockMove => {
            put(BLOCK_MOVE, String::new());
        }
        Step::Pause | Step::CopyStatus => {
            if step == Step::Pause {
                put(HOST_PAUSED, HOST_PAUSED_BY.to_owned());
            }
            // After a move the copy may be all that is known of the status: an empty one would make
            // the Bare Metal Operator provision a host in use again.
            if let Some(status) = status {
                put(HOST_STATUS, status);
            }
        }
        Step::AllowMove => {
            annotations.remove(BLOCK_MOVE);
        }
        Step::Resume => {
            annotations.remove(HOST_PAUSED);
        }
    }
}

/// Returns the status without the hardware, which the HardwareData of the host has.
pub(crate) fn status_copy(status: &crate::kinds::host::BareMetalHostStatus) -> String {
    // Every key of a status is a string, as JSON requires.
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.remove("hardware");
    }
    value.to_string()
}
