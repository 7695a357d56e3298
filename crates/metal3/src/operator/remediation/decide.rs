//! What a remediation does next. No I/O.
//!
//! ```text
//! (none) ── Running ── Waiting ── Deleting machine
//!    │         │  ▲        │ │
//!    │         │  └─retry──┘ │
//!    └─────────┴── Failed ───┘        the host is to be off
//! ```
//!
//! Each step is one write, and each write leaves a state from which the next step follows. So a
//! remediation that is interrupted anywhere goes on with the step that was interrupted.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::kinds::remediation::{Metal3Remediation, RemediationStrategy};

/// The phase of a remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not begun.
    New,
    /// The host is switched off.
    Running,
    /// The host is switched on, and the machine has time to recover.
    Waiting,
    /// The machine has not recovered, and its owner replaces it.
    Deleting,
    /// The host is not to be switched on.
    Failed,
}

impl Phase {
    /// Returns the phase in a status. A text that is not known counts as none: all steps can be
    /// repeated.
    pub(super) fn of(remediation: &Metal3Remediation) -> Self {
        let status = remediation.status.as_ref();
        match status.and_then(|status| status.phase.as_deref()) {
            Some("Running") => Self::Running,
            Some("Waiting") => Self::Waiting,
            Some("Deleting machine") => Self::Deleting,
            Some("Failed") => Self::Failed,
            _ => Self::New,
        }
    }

    /// Returns the text in a status.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::New => "",
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Deleting => "Deleting machine",
            Self::Failed => "Failed",
        }
    }
}

/// The attempts of a remediation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempts {
    /// How often the host was restarted again.
    pub retries: i32,
    /// Whether it may be restarted once more.
    pub has_more: bool,
    /// How much of the time for the present phase is left.
    pub time_left: Duration,
}

impl Attempts {
    /// Returns the attempts of a remediation at a time.
    pub(super) fn of(remediation: &Metal3Remediation, now: Timestamp) -> Self {
        let status = remediation.status.clone().unwrap_or_default();
        let strategy = strategy(remediation);
        let retries = status.retry_count.unwrap_or_default().max(0);
        let since = status.last_remediated.map_or(now, |time| time.0);
        let passed = now.duration_since(since).unsigned_abs();
        let is_future = since > now;
        let time_left = match is_future {
            true => timeout(&strategy),
            false => timeout(&strategy).saturating_sub(passed),
        };
        Self {
            retries,
            has_more: retries < strategy.retry_limit,
            time_left,
        }
    }

    /// Returns whether the time for the present phase is over.
    fn is_expired(&self) -> bool {
        self.time_left.is_zero()
    }
}

/// Returns the strategy of a remediation, or the default one.
pub(super) fn strategy(remediation: &Metal3Remediation) -> RemediationStrategy {
    remediation.spec.strategy.clone().unwrap_or_default()
}

/// Returns how long each phase may take. A missing value is zero in `v1beta1`.
pub(super) fn timeout(strategy: &RemediationStrategy) -> Duration {
    let seconds = match strategy.timeout_seconds {
        ..=0 => RemediationStrategy::default().timeout_seconds,
        seconds => seconds,
    };
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// What is known about the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostState {
    /// Whether the Bare Metal Operator leaves it alone.
    pub is_left_alone: bool,
    /// Whether it is to be switched on, as its spec says.
    pub is_online: bool,
    /// Whether it runs something.
    pub can_restart: bool,
    /// Whether it must not be switched off.
    pub must_stay_on: bool,
    /// Whether it has the request of this attempt.
    pub is_requested: bool,
    /// Whether it has a request that has to be withdrawn.
    pub has_request: bool,
    /// Whether the request is carried out.
    pub is_done: bool,
    /// Whether it is switched on.
    pub is_on: bool,
    /// Whether it is marked as unhealthy.
    pub is_unhealthy: bool,
}

/// What is known about the node of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// The machine never had a node, or the operator may not use nodes.
    None,
    /// The workload cluster does not answer.
    Unknown,
    /// There is no such node now.
    Missing,
    /// The node exists.
    Present(NodeFacts),
}

/// What is known about a node that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeFacts {
    /// Whether the cluster evicts pods of nodes with the out-of-service taint.
    pub can_be_tainted: bool,
    /// Whether it has the taint.
    pub is_tainted: bool,
    /// Whether nothing is left on it that the taint evicts.
    pub is_drained: bool,
    /// Whether the remediation has all of its labels and annotations.
    pub is_backed_up: bool,
    /// Whether it has all labels and annotations that the remediation has.
    pub is_restored: bool,
    /// Whether it is being deleted.
    pub is_deleted: bool,
}

/// What is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub phase: Phase,
    pub attempts: Attempts,
    pub has_finalizer: bool,
    /// Whether labels and annotations of a node have to be restored.
    pub has_backup: bool,
    /// Whether the Machine's owner was asked to replace it.
    pub is_handed_over: bool,
    pub host: HostState,
    pub node: NodeState,
}

/// What a remediation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Enters a phase.
    Enter(Phase),
    /// Enters the phase `Running` once more.
    Retry,
    /// Adds the finalizer.
    AddFinalizer,
    /// Requests that the host is switched off.
    PowerOff,
    /// Withdraws the request.
    PowerOn,
    /// Has the node's pods evicted.
    Taint,
    /// Ends that.
    RemoveTaint,
    /// Records labels and annotations of the node.
    BackUp,
    /// Deletes the node, which its kubelet creates anew.
    DeleteNode,
    /// Restores labels and annotations of the node.
    Restore,
    /// Removes what was recorded, and the finalizer.
    Finish,
    /// Marks the host, so that no machine gets it.
    MarkUnhealthy,
    /// Asks the owner of the Machine to replace it.
    HandOver,
    /// Waits for a change.
    Wait(Waiting),
}

/// What a remediation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// An administrator who keeps the host from the Bare Metal Operator.
    HostLeftAlone,
    /// A host that can restart.
    Provisioned,
    /// The host, which is being switched off.
    PoweredOff,
    /// The host, which is being switched on.
    PoweredOn,
    /// The workload of the node.
    Drained,
    /// The node, which is being deleted.
    NodeDeleted,
    /// A node to restore.
    Node,
    /// The machine.
    Healthy,
    /// Nothing: it is over.
    Nothing,
}

/// Returns the next step of a remediation.
pub(super) fn next(known: &Observed) -> Step {
    match known.phase {
        Phase::New => match known.host {
            host if host.is_left_alone => Step::Wait(Waiting::HostLeftAlone),
            host if host.is_online => Step::Enter(Phase::Running),
            _ => Step::Enter(Phase::Failed),
        },
        Phase::Running => running(known),
        Phase::Waiting => waiting(known),
        Phase::Deleting | Phase::Failed => match known.host.has_request {
            true => Step::PowerOn,
            false => clean_node(known).unwrap_or(match known.has_finalizer {
                true => Step::Wait(Waiting::Node),
                false => Step::Wait(Waiting::Nothing),
            }),
        },
    }
}

/// The host is switched off. Only then is it certain that nothing of the node runs any more, and
/// its workload may run elsewhere.
fn running(known: &Observed) -> Step {
    let (host, is_expired) = (&known.host, known.attempts.is_expired());
    // A host that is not switched off in time counts as an attempt.
    let wait = |reason| match is_expired {
        true => Step::Enter(Phase::Waiting),
        false => Step::Wait(reason),
    };
    if host.is_left_alone {
        return Step::Wait(Waiting::HostLeftAlone);
    }
    if !host.is_online {
        return Step::Enter(Phase::Failed);
    }
    if !known.has_finalizer {
        return Step::AddFinalizer;
    }
    if !host.can_restart {
        return wait(Waiting::Provisioned);
    }
    if !host.is_requested {
        return Step::PowerOff;
    }
    if !host.is_done {
        return wait(Waiting::PoweredOff);
    }
    // The workload cluster may refuse what is done to the node, and the host must not stay off.
    if is_expired {
        return Step::Enter(Phase::Waiting);
    }
    let NodeState::Present(node) = known.node else {
        return Step::Enter(Phase::Waiting);
    };
    match node {
        // It has restarted already, and its workload with it.
        _ if host.must_stay_on => Step::Enter(Phase::Waiting),
        NodeFacts {
            can_be_tainted: true,
            is_tainted: false,
            ..
        } => Step::Taint,
        NodeFacts {
            can_be_tainted: true,
            is_drained: false,
            ..
        } => wait(Waiting::Drained),
        NodeFacts {
            can_be_tainted: true,
            ..
        } => Step::Enter(Phase::Waiting),
        NodeFacts {
            is_deleted: true, ..
        } => wait(Waiting::NodeDeleted),
        NodeFacts {
            is_backed_up: false,
            ..
        } => Step::BackUp,
        _ => Step::DeleteNode,
    }
}

/// The host is switched on, and the node restored. The health check deletes the remediation when
/// the machine is healthy.
fn waiting(known: &Observed) -> Step {
    let (host, is_expired) = (&known.host, known.attempts.is_expired());
    if host.has_request {
        return Step::PowerOn;
    }
    if host.is_left_alone {
        return Step::Wait(Waiting::HostLeftAlone);
    }
    if !host.is_online {
        return Step::Enter(Phase::Failed);
    }
    if host.is_on
        && let Some(step) = clean_node(known)
    {
        return step;
    }
    match host.is_on {
        _ if is_expired => expired(known),
        true => Step::Wait(Waiting::Healthy),
        false => Step::Wait(Waiting::PoweredOn),
    }
}

fn expired(known: &Observed) -> Step {
    if known.attempts.has_more {
        return Step::Retry;
    }
    // First the host: the owner may delete the machine at once, and its host must not be given to
    // the next one.
    if !known.host.is_unhealthy {
        return Step::MarkUnhealthy;
    }
    match known.is_handed_over {
        false => Step::HandOver,
        true => Step::Enter(Phase::Deleting),
    }
}

/// Returns the next step that undoes what was done to the node, and ends the hold on the
/// remediation; none if nothing is left to do, or the node is not there yet.
fn clean_node(known: &Observed) -> Option<Step> {
    match known.node {
        NodeState::Present(node) if node.is_tainted => Some(Step::RemoveTaint),
        NodeState::Present(node) if node.is_deleted => None,
        NodeState::Present(node) if !node.is_restored => Some(Step::Restore),
        NodeState::Missing if known.has_backup => None,
        NodeState::Unknown => None,
        NodeState::Present(_) | NodeState::Missing | NodeState::None => {
            known.has_finalizer.then_some(Step::Finish)
        }
    }
}

/// Returns the next step of a remediation that is being deleted: the host is not left switched
/// off, and the node is not left as it is. Overdue, it waits for the node no longer.
pub(super) fn end(known: &Observed, is_overdue: bool) -> Step {
    if known.host.has_request {
        return Step::PowerOn;
    }
    let wait = match is_overdue {
        true => Step::Finish,
        false => Step::Wait(Waiting::Node),
    };
    clean_node(known).unwrap_or(wait)
}

#[cfg(test)]
mod tests;
