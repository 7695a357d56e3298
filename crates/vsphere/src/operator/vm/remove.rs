//! The next step of the deletion of a virtual machine. No I/O.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::plan::{Act, Found, Plan, Say, Seen, after_task, bios_uuid, hidden};
use crate::kinds::VSphereVM;
use crate::operator::pace::Pace;
use crate::vcenter::{Machine, Object, Task};

/// Whether the guest was asked to shut down, and did.
pub(super) const SOFT: &str = "GuestSoftPowerOffSucceeded";
/// How long a guest may take to shut down.
const SOFT_PATIENCE: Duration = Duration::from_secs(300);

/// Returns whether anything was ever started in a vCenter. It is recorded before the start.
pub(super) fn is_begun(vm: &VSphereVM) -> bool {
    bios_uuid(vm).is_some() || is_noted(vm)
}

/// Returns whether the operator itself started or saw something. `biosUUID` alone proves nothing,
/// because any user may have written it.
fn is_noted(vm: &VSphereVM) -> bool {
    vm.status.as_ref().is_some_and(|status| {
        status.clone_mode.is_some() || status.task_ref.is_some() || status.vm_ref.is_some()
    })
}

/// Returns the next step of the deletion.
pub(super) fn plan(vm: &VSphereVM, seen: &Seen, pace: &Pace) -> Plan {
    if let Some(plan) = finish(vm, seen, pace) {
        return plan;
    }
    match &seen.found {
        Found::Foreign if !is_noted(vm) => Plan::silently(Act::LetGo),
        Found::Foreign => Plan::saying(
            Act::Wait(pace.again),
            "Deleting",
            "the virtual machine with its UUID is not this one's and stays, and what became of \
             this one's is not known",
        ),
        Found::Hidden(object) => Plan::saying(Act::Wait(pace.again), "Deleting", hidden(object)),
        Found::Nothing => match uncertain(vm, seen.now, pace) {
            Some(left) => Plan::saying(
                Act::Wait(left.min(pace.again)),
                "Deleting",
                "it may be about to be made: the vCenter did not say what became of its clone",
            ),
            None => Plan::silently(Act::LetGo),
        },
        Found::Machine(object, machine) if machine.powered_on => {
            end(vm, object, machine, seen, pace)
        }
        Found::Machine(object, _) => Plan::saying(
            Act::Destroy(object.clone()),
            "Deleting",
            "it is being destroyed",
        ),
    }
}

/// Returns the step for the last task, if there is one. A failure from before the deletion does
/// not matter any more.
fn finish(vm: &VSphereVM, seen: &Seen, pace: &Pace) -> Option<Plan> {
    let told = condition(vm, "VirtualMachineProvisioned");
    let goes = told.is_some_and(|told| told.reason == "Deleting");
    let pauses = vm
        .status
        .as_ref()
        .is_some_and(|status| status.retry_after.is_some());
    let failed = matches!(seen.task, Some(Task::Failed { .. }));
    if !goes && (pauses || failed) {
        return Some(Plan::silently(Act::Begin));
    }
    let plan = after_task(vm, seen, pace)?;
    Some(match plan.say {
        Some(say) => Plan::saying(plan.act, "Deleting", say.message),
        None => plan,
    })
}

/// Returns for how long a clone with an unknown outcome may still appear.
fn uncertain(vm: &VSphereVM, now: Timestamp, pace: &Pace) -> Option<Duration> {
    let status = vm.status.as_ref()?;
    status.clone_mode.as_ref()?;
    if status.vm_ref.is_some() || bios_uuid(vm).is_some() {
        return None;
    }
    let since = vm.metadata.deletion_timestamp.as_ref()?.0;
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let left = pace.lost.saturating_sub(waited);
    (!left.is_zero()).then_some(left)
}

/// Returns the step for a running virtual machine.
fn end(vm: &VSphereVM, object: &Object, machine: &Machine, seen: &Seen, pace: &Pace) -> Plan {
    let off = || {
        let act = Act::PowerOff(object.clone());
        Plan::saying(act, "Deleting", "it is being powered off")
    };
    let tries = match vm.spec.machine.power_off_mode.as_deref() {
        Some("soft") => false,
        Some("trySoft") => true,
        _ => return off(),
    };
    let asked = condition(vm, SOFT).filter(|soft| soft.status == "False");
    let Some(asked) = asked else {
        let say = Some(Say::new("Deleting", "its guest is asked to end"));
        let act = Act::ShutDown(object.clone());
        return match machine.tools_running {
            true => Plan { act, say },
            false if tries => off(),
            false => Plan::saying(
                Act::Wait(pace.again),
                "Deleting",
                "its guest cannot be asked to end, as VMware Tools do not run, and powerOffMode \
                 is soft",
            ),
        };
    };
    let since = asked.last_transition_time.0;
    let waited = Duration::try_from(seen.now.duration_since(since)).unwrap_or_default();
    match waited < soft_patience(vm) {
        true => Plan::saying(Act::Wait(pace.tasks), "Deleting", "its guest is to end"),
        false if tries => off(),
        false => Plan::saying(
            Act::ShutDownAgain(object.clone()),
            "Deleting",
            "its guest was asked to end and did not in time, and powerOffMode is soft",
        ),
    }
}

/// Returns how long the guest may take to shut down.
fn soft_patience(vm: &VSphereVM) -> Duration {
    let seconds = vm.spec.machine.guest_soft_power_off_timeout_seconds;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds
        .filter(|seconds| *seconds > 0)
        .map_or(SOFT_PATIENCE, Duration::from_secs)
}

fn condition<'a>(vm: &'a VSphereVM, kind: &str) -> Option<&'a Condition> {
    let conditions = &vm.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests;
