//! The steps of a remediation.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::ToSpan;

use super::*;
use crate::kinds::remediation::{Metal3RemediationSpec, Metal3RemediationStatus};

const MINUTE: Duration = Duration::from_secs(60);

/// A host that is on, and runs something.
const ON: HostState = HostState {
    is_left_alone: false,
    is_online: true,
    can_restart: true,
    must_stay_on: false,
    is_requested: false,
    has_request: false,
    is_done: false,
    is_on: true,
    is_unhealthy: false,
};
/// A host that is being switched off.
const REQUESTED: HostState = HostState {
    is_requested: true,
    has_request: true,
    ..ON
};
/// A host that is off.
const OFF: HostState = HostState {
    is_done: true,
    is_on: false,
    ..REQUESTED
};
/// A node of a cluster that acts on the taint.
const NODE: NodeFacts = NodeFacts {
    can_be_tainted: true,
    is_tainted: false,
    is_drained: false,
    is_backed_up: false,
    is_restored: true,
    is_deleted: false,
};
/// A node of an older cluster.
const OLD_NODE: NodeFacts = NodeFacts {
    can_be_tainted: false,
    ..NODE
};

fn known(phase: Phase, host: HostState, node: NodeState) -> Observed {
    Observed {
        phase,
        attempts: Attempts {
            retries: 0,
            has_more: true,
            time_left: MINUTE,
        },
        has_finalizer: true,
        has_backup: false,
        is_handed_over: false,
        host,
        node,
    }
}

fn expired(mut known: Observed) -> Observed {
    known.attempts.time_left = Duration::ZERO;
    known
}

#[test]
fn m01_host_is_switched_off_before_the_node_is_given_up() {
    use NodeState::{Missing, None, Present, Unknown};
    let wait = Step::Wait;
    let waiting = Step::Enter(Phase::Waiting);
    let tainted = NodeFacts {
        is_tainted: true,
        ..NODE
    };
    let drained = NodeFacts {
        is_drained: true,
        ..tainted
    };
    let backed_up = NodeFacts {
        is_backed_up: true,
        ..OLD_NODE
    };
    let deleted = NodeFacts {
        is_deleted: true,
        ..backed_up
    };
    for (host, node, expected) in [
        (ON, Present(NODE), Step::PowerOff),
        (REQUESTED, Present(NODE), wait(Waiting::PoweredOff)),
        (OFF, Present(NODE), Step::Taint),
        (OFF, Present(tainted), wait(Waiting::Drained)),
        (OFF, Present(drained), waiting),
        (OFF, Present(OLD_NODE), Step::BackUp),
        (OFF, Present(backed_up), Step::DeleteNode),
        (OFF, Present(deleted), wait(Waiting::NodeDeleted)),
        // A node that is not there, or cannot be reached, does not keep the host off.
        (OFF, Missing, waiting),
        (OFF, Unknown, waiting),
        (OFF, None, waiting),
    ] {
        let known = known(Phase::Running, host, node);
        assert_eq!(next(&known), expected, "{known:?}");
    }
}

#[test]
fn m01_first_steps_are_the_phase_and_the_finalizer() {
    let mut known = known(Phase::New, ON, NodeState::None);
    known.has_finalizer = false;
    assert_eq!(next(&known), Step::Enter(Phase::Running));
    known.phase = Phase::Running;
    assert_eq!(next(&known), Step::AddFinalizer);
}

#[test]
fn m03_workload_of_a_host_that_must_stay_on_is_not_evicted() {
    let mut host = OFF;
    (host.must_stay_on, host.is_on) = (true, true);
    let known = known(Phase::Running, host, NodeState::Present(NODE));
    assert_eq!(next(&known), Step::Enter(Phase::Waiting));
}

#[test]
fn m01_node_is_restored_after_the_host_is_on() {
    use NodeState::{Missing, None, Present, Unknown};
    let tainted = NodeFacts {
        is_tainted: true,
        ..NODE
    };
    let lacking = NodeFacts {
        is_restored: false,
        ..OLD_NODE
    };
    let mut booting = ON;
    booting.is_on = false;
    for (host, node, has_backup, expected) in [
        (OFF, Present(tainted), false, Step::PowerOn),
        (
            booting,
            Present(tainted),
            false,
            Step::Wait(Waiting::PoweredOn),
        ),
        (ON, Present(tainted), false, Step::RemoveTaint),
        (ON, Present(lacking), true, Step::Restore),
        (ON, Present(OLD_NODE), true, Step::Finish),
        (ON, Present(NODE), false, Step::Finish),
        (ON, None, false, Step::Finish),
        (ON, Missing, false, Step::Finish),
        (ON, Missing, true, Step::Wait(Waiting::Healthy)),
        (ON, Unknown, false, Step::Wait(Waiting::Healthy)),
    ] {
        let mut known = known(Phase::Waiting, host, node);
        known.has_backup = has_backup;
        assert_eq!(next(&known), expected, "{known:?}");
    }
    let mut done = known(Phase::Waiting, ON, Present(NODE));
    done.has_finalizer = false;
    assert_eq!(next(&done), Step::Wait(Waiting::Healthy));
}

#[test]
fn m02_machine_that_stays_unhealthy_is_retried_and_then_handed_over() {
    let mut known = expired(known(Phase::Waiting, ON, NodeState::Present(NODE)));
    known.has_finalizer = false;
    assert_eq!(next(&known), Step::Retry);
    known.attempts.has_more = false;
    assert_eq!(next(&known), Step::MarkUnhealthy);
    known.host.is_unhealthy = true;
    assert_eq!(next(&known), Step::HandOver);
    known.is_handed_over = true;
    assert_eq!(next(&known), Step::Enter(Phase::Deleting));
    known.phase = Phase::Deleting;
    assert_eq!(next(&known), Step::Wait(Waiting::Nothing));
}

#[test]
fn m02_host_that_does_not_do_what_is_requested_counts_as_an_attempt() {
    let waiting = Step::Enter(Phase::Waiting);
    let mut not_provisioned = ON;
    not_provisioned.can_restart = false;
    let tainted = NodeFacts {
        is_tainted: true,
        ..NODE
    };
    for (host, node) in [
        (REQUESTED, NodeState::None),
        (not_provisioned, NodeState::None),
        (OFF, NodeState::Present(tainted)),
    ] {
        assert_eq!(next(&expired(known(Phase::Running, host, node))), waiting);
    }
    let mut booting = ON;
    booting.is_on = false;
    let never_on = expired(known(Phase::Waiting, booting, NodeState::Unknown));
    assert_eq!(next(&never_on), Step::Retry);
    // The request is made, however long the host could not be reached.
    let late = expired(known(Phase::Running, ON, NodeState::None));
    assert_eq!(next(&late), Step::PowerOff);
}

#[test]
fn m05_host_that_is_to_be_off_is_not_remediated() {
    let mut offline = ON;
    offline.is_online = false;
    for phase in [Phase::New, Phase::Running, Phase::Waiting] {
        let known = known(phase, offline, NodeState::None);
        assert_eq!(next(&known), Step::Enter(Phase::Failed), "{phase:?}");
    }
    let mut requested = offline;
    (requested.is_requested, requested.has_request) = (true, true);
    let mut failed = known(Phase::Failed, requested, NodeState::Missing);
    assert_eq!(next(&failed), Step::PowerOn);
    failed.host = offline;
    failed.has_backup = true;
    assert_eq!(next(&failed), Step::Wait(Waiting::Node));
    failed.node = NodeState::Present(NODE);
    assert_eq!(next(&failed), Step::Finish);
    failed.has_finalizer = false;
    assert_eq!(next(&failed), Step::Wait(Waiting::Nothing));
}

#[test]
fn m05_host_that_is_left_alone_is_waited_for_without_end() {
    let mut host = ON;
    host.is_left_alone = true;
    for phase in [Phase::New, Phase::Running, Phase::Waiting] {
        let known = expired(known(phase, host, NodeState::None));
        assert_eq!(
            next(&known),
            Step::Wait(Waiting::HostLeftAlone),
            "{phase:?}"
        );
    }
}

#[test]
fn m04_deleted_remediation_leaves_no_host_off_and_no_node_tainted() {
    use NodeState::{Missing, None, Present, Unknown};
    let tainted = NodeFacts {
        is_tainted: true,
        ..NODE
    };
    let wait = Step::Wait(Waiting::Node);
    for (host, node, has_backup, is_overdue, expected) in [
        (OFF, Present(tainted), false, false, Step::PowerOn),
        (ON, Present(tainted), false, true, Step::RemoveTaint),
        (ON, Missing, true, false, wait),
        (ON, Missing, true, true, Step::Finish),
        (ON, Missing, false, false, Step::Finish),
        (ON, Unknown, false, false, wait),
        (ON, Unknown, false, true, Step::Finish),
        (HostState::default(), None, true, false, Step::Finish),
    ] {
        let mut known = known(Phase::Running, host, node);
        known.has_backup = has_backup;
        assert_eq!(end(&known, is_overdue), expected, "{known:?}");
    }
}

#[test]
fn m02_time_and_retries_are_those_of_strategy_and_status() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let ago = |seconds: i64| Some(Time(now - seconds.seconds()));
    for (limit, timeout, count, last, expected) in [
        (1, 100, Option::None, Option::None, (0, true, 100)),
        (1, 100, Some(1), ago(30), (1, false, 70)),
        (2, 100, Some(1), ago(100), (1, true, 0)),
        (2, 100, Some(3), ago(5000), (3, false, 0)),
        // Missing values of v1beta1.
        (0, 0, Option::None, ago(0), (0, false, 600)),
        // A clock that was set back.
        (1, 100, Some(-1), ago(-1000), (0, true, 100)),
    ] {
        let remediation = Metal3Remediation {
            spec: Metal3RemediationSpec {
                strategy: Some(RemediationStrategy {
                    retry_limit: limit,
                    timeout_seconds: timeout,
                    ..RemediationStrategy::default()
                }),
            },
            status: Some(Metal3RemediationStatus {
                retry_count: count,
                last_remediated: last,
                ..Metal3RemediationStatus::default()
            }),
            ..Metal3Remediation::default()
        };
        let found = Attempts::of(&remediation, now);
        let seconds = i32::try_from(found.time_left.as_secs()).unwrap();
        assert_eq!((found.retries, found.has_more, seconds), expected);
    }
}

#[test]
fn m01_phases_have_their_texts() {
    for phase in [
        Phase::New,
        Phase::Running,
        Phase::Waiting,
        Phase::Deleting,
        Phase::Failed,
    ] {
        let mut remediation = Metal3Remediation::default();
        let status = remediation.status.get_or_insert_default();
        status.phase = Some(phase.as_str().to_owned());
        assert_eq!(Phase::of(&remediation), phase);
    }
    assert_eq!(Phase::of(&Metal3Remediation::default()), Phase::New);
}

#[test]
fn m04_host_does_not_stay_off_if_its_node_cannot_be_written() {
    let present = |facts| known(Phase::Running, OFF, NodeState::Present(facts));
    assert_eq!(next(&present(NODE)), Step::Taint);
    assert_eq!(next(&present(OLD_NODE)), Step::BackUp);
    for facts in [NODE, OLD_NODE] {
        let step = next(&expired(present(facts)));
        assert_eq!(step, Step::Enter(Phase::Waiting));
    }
}
