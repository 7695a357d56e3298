//! The next step of the deletion of a virtual machine. No I/O.

use std::time::Duration;

use insula_operator::condition::find_in;
use k8s_openapi::jiff::Timestamp;

use super::plan::{Found, Observed, Plan, Step, after_task, bios_uuid, hidden};
use crate::kinds::VSphereVM;
use crate::operator::intervals::Intervals;
use crate::vcenter::{Machine, Object, Task};

/// Whether the guest was asked to shut down, and did.
pub(super) const SHUTDOWN: &str = "GuestSoftPowerOffSucceeded";
/// How long a guest may take to shut down.
const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns whether anything was ever started in a vCenter. It is recorded before the start.
pub(super) fn is_started(vm: &VSphereVM) -> bool {
    bios_uuid(vm).is_some() || is_recorded(vm)
}

/// Returns whether the operator itself started or saw something. `biosUUID` alone proves nothing,
/// because any user may have written it.
fn is_recorded(vm: &VSphereVM) -> bool {
    vm.status.as_ref().is_some_and(|status| {
        status.clone_mode.is_some() || status.task_ref.is_some() || status.vm_ref.is_some()
    })
}

/// Returns the next step of the deletion.
pub(super) fn plan(vm: &VSphereVM, observed: &Observed, intervals: &Intervals) -> Plan {
    if let Some(plan) = after_last_task(vm, observed, intervals) {
        return plan;
    }
    match &observed.found {
        Found::Foreign if !is_recorded(vm) => Plan::without_problem(Step::RemoveFinalizer),
        Found::Foreign => deleting(
            Step::Wait(intervals.retry),
            "the virtual machine with its UUID belongs to another owner and stays, and the state of \
             its own is not known",
        ),
        Found::Hidden(object) => deleting(Step::Wait(intervals.retry), hidden(object)),
        Found::Nothing => match pending_clone_wait(vm, observed.now, intervals) {
            Some(left) => deleting(
                Step::Wait(left.min(intervals.retry)),
                "it may still appear: the outcome of its clone is not known",
            ),
            None => Plan::without_problem(Step::RemoveFinalizer),
        },
        Found::Machine(object, machine) if machine.powered_on => {
            power_down(vm, object, machine, observed, intervals)
        }
        Found::Machine(object, _) => {
            deleting(Step::Destroy(object.clone()), "it is being destroyed")
        }
    }
}

fn deleting(step: Step, message: impl Into<String>) -> Plan {
    Plan::with_problem(step, "Deleting", message)
}

/// Returns the step for the last task, if there is one. A failure from before the deletion does
/// not matter any more.
fn after_last_task(vm: &VSphereVM, observed: &Observed, intervals: &Intervals) -> Option<Plan> {
    let provisioned = find_in(vm, "VirtualMachineProvisioned");
    let is_deleting = provisioned.is_some_and(|condition| condition.reason == "Deleting");
    let pauses = vm
        .status
        .as_ref()
        .is_some_and(|status| status.retry_after.is_some());
    let failed = matches!(observed.task, Some(Task::Failed { .. }));
    if !is_deleting && (pauses || failed) {
        return Some(Plan::without_problem(Step::EndPause));
    }
    let plan = after_task(vm, observed, intervals)?;
    Some(match plan.problem {
        Some(problem) => deleting(plan.step, problem.message),
        None => plan,
    })
}

/// Returns for how long a clone with an unknown outcome may still appear.
fn pending_clone_wait(vm: &VSphereVM, now: Timestamp, intervals: &Intervals) -> Option<Duration> {
    let status = vm.status.as_ref()?;
    status.clone_mode.as_ref()?;
    if status.vm_ref.is_some() || bios_uuid(vm).is_some() {
        return None;
    }
    let since = vm.metadata.deletion_timestamp.as_ref()?.0;
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let left = intervals.lost_clone.saturating_sub(waited);
    (!left.is_zero()).then_some(left)
}

/// Returns the step for a running virtual machine.
fn power_down(
    vm: &VSphereVM,
    object: &Object,
    machine: &Machine,
    observed: &Observed,
    intervals: &Intervals,
) -> Plan {
    let off = || {
        let step = Step::PowerOff(object.clone());
        deleting(step, "it is being powered off")
    };
    let tries = match vm.spec.machine.power_off_mode.as_deref() {
        Some("soft") => false,
        Some("trySoft") => true,
        _ => return off(),
    };
    let asked = find_in(vm, SHUTDOWN).filter(|soft| soft.status == "False");
    let Some(asked) = asked else {
        let step = Step::ShutDown(object.clone());
        return match machine.tools_running {
            true => deleting(step, "its guest is being shut down"),
            false if tries => off(),
            false => deleting(
                Step::Wait(intervals.retry),
                "its guest cannot be shut down, because VMware Tools do not run, and powerOffMode \
                 is soft",
            ),
        };
    };
    let since = asked.last_transition_time.0;
    let waited = Duration::try_from(observed.now.duration_since(since)).unwrap_or_default();
    match waited < shutdown_timeout(vm) {
        true => deleting(
            Step::Wait(intervals.tasks),
            "waiting for its guest to shut down",
        ),
        false if tries => off(),
        false => deleting(
            Step::ShutDownAgain(object.clone()),
            "its guest did not shut down in time, and powerOffMode is soft",
        ),
    }
}

/// Returns how long the guest may take to shut down.
fn shutdown_timeout(vm: &VSphereVM) -> Duration {
    let seconds = vm.spec.machine.guest_soft_power_off_timeout_seconds;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds
        .filter(|seconds| *seconds > 0)
        .map_or(DEFAULT_SHUTDOWN_TIMEOUT, Duration::from_secs)
}

#[cfg(test)]
mod tests;
