//! Decides the one next step from a VSphereVM and the observed state of its vCenter. No I/O.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use super::metadata;
use crate::kinds::{NetworkDevice, VSphereVM};
use crate::operator::intervals::Intervals;
use crate::vcenter::{Machine, Object, Task};

/// The observed state.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub now: Timestamp,
    /// The state of the current task.
    pub task: Option<Task>,
    /// The virtual machine; not read during a task or a pause.
    pub found: Found,
}

/// The result of the search for the virtual machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// It does not exist.
    Nothing,
    /// It exists.
    Machine(Object, Box<Machine>),
    /// A virtual machine with the given BIOS UUID exists, and belongs to another owner.
    Foreign,
    /// The recorded object exists, but the account may not see what it is.
    Hidden(Object),
}

/// The next step, and the condition until it is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub step: Step,
    /// Why it is not ready; unchanged if `None`.
    pub problem: Option<Problem>,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Observe again after this long.
    Wait(Duration),
    /// Clear a task that succeeded or is unknown to the vCenter.
    ClearTask,
    /// End a pause after a failed task, and retry.
    EndPause,
    /// Pause after a failed task.
    Pause,
    Clone,
    /// Record its BIOS UUID, and the mark that identifies it after a move.
    RecordUuid(String),
    /// Write its cloud-init metadata.
    WriteMetadata(Object, String),
    PowerOn(Object),
    /// Ask the guest to shut down.
    ShutDown(Object),
    /// Ask the guest again, and pause.
    ShutDownAgain(Object),
    PowerOff(Object),
    Destroy(Object),
    /// Remove the finalizer: nothing is left in the vCenter.
    RemoveFinalizer,
    /// Nothing to do: it is provisioned.
    Done,
}

/// Why a virtual machine is not provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}

impl Plan {
    pub fn without_problem(step: Step) -> Self {
        Self {
            step,
            problem: None,
        }
    }

    pub fn with_problem(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        let problem = Some(Problem::new(reason, message));
        Self { step, problem }
    }
}

/// Returns the next step of a virtual machine that is not being deleted.
pub(super) fn plan(vm: &VSphereVM, observed: &Observed, intervals: &Intervals) -> Plan {
    if let Some(plan) = after_task(vm, observed, intervals) {
        return plan;
    }
    match &observed.found {
        Found::Foreign => Plan::with_problem(
            Step::Wait(intervals.retry),
            "NotFoundByBIOSUUID",
            "the virtual machine with the BIOS UUID of spec.biosUUID belongs to another owner",
        ),
        Found::Hidden(object) => Plan::with_problem(
            Step::Wait(intervals.retry),
            "NotFoundByBIOSUUID",
            hidden(object),
        ),
        Found::Nothing => plan_clone(vm, intervals),
        Found::Machine(object, machine) => {
            plan_provisioning(vm, object, machine, observed.now, intervals)
        }
    }
}

/// Returns the message for an object that the account may not see.
pub(super) fn hidden(object: &Object) -> String {
    format!("{object} exists, but this account may not see it")
}

/// Returns its BIOS UUID, if it is known.
pub(in crate::operator) fn bios_uuid(vm: &VSphereVM) -> Option<&str> {
    let uuid = vm.spec.bios_uuid.as_deref();
    uuid.filter(|uuid| !uuid.is_empty())
}

/// Returns whether it is provisioned.
pub(in crate::operator) fn is_ready(vm: &VSphereVM) -> bool {
    vm.status.as_ref().is_some_and(|it| it.ready == Some(true))
}

/// Returns whether it needs addresses: not if all its cards skip the allocation.
pub(in crate::operator) fn needs_addresses(vm: &VSphereVM) -> bool {
    let devices = &vm.spec.machine.network.devices;
    devices.is_empty() || !devices.iter().all(skips_allocation)
}

fn skips_allocation(device: &NetworkDevice) -> bool {
    let skips = device.rest.get("skipIPAllocation");
    skips.and_then(Value::as_bool) == Some(true)
}

/// Returns the step for the last task or for a pause, if there is one.
pub(super) fn after_task(
    vm: &VSphereVM,
    observed: &Observed,
    intervals: &Intervals,
) -> Option<Plan> {
    let retry_after = vm
        .status
        .as_ref()
        .and_then(|status| status.retry_after.as_ref());
    if let Some(at) = retry_after {
        let left = Duration::try_from(at.0.duration_since(observed.now)).unwrap_or_default();
        return Some(Plan::without_problem(match left.is_zero() {
            true => Step::EndPause,
            false => Step::Wait(left),
        }));
    }
    Some(match observed.task.as_ref()? {
        Task::Running => Plan::without_problem(Step::Wait(intervals.tasks)),
        Task::Done(_) | Task::Unknown => Plan::without_problem(Step::ClearTask),
        // The power state was already changed, by another client or by an earlier call with a lost
        // response.
        Task::Failed { fault, .. }
            if fault == "InvalidPowerState" && has_desired_power_state(vm, observed) =>
        {
            Plan::without_problem(Step::ClearTask)
        }
        Task::Failed { fault, message } => Plan::with_problem(
            Step::Pause,
            "TaskFailed",
            failure_message(vm, fault, message),
        ),
    })
}

/// Returns whether it has the desired power state: off while it is being deleted.
fn has_desired_power_state(vm: &VSphereVM, observed: &Observed) -> bool {
    let is_deleting = vm.metadata.deletion_timestamp.is_some();
    match &observed.found {
        Found::Machine(_, machine) => machine.powered_on != is_deleting,
        _ => is_deleting,
    }
}

/// Returns the message for a failed task.
fn failure_message(vm: &VSphereVM, fault: &str, message: &str) -> String {
    match fault {
        "DuplicateName" => format!(
            "the folder has a virtual machine {:?} that belongs to another owner: {message}",
            vm.name_any()
        ),
        _ => format!("{message} ({fault})"),
    }
}

/// Returns the step for a virtual machine that does not exist.
fn plan_clone(vm: &VSphereVM, intervals: &Intervals) -> Plan {
    if let Some(uuid) = bios_uuid(vm) {
        return Plan::with_problem(
            Step::Wait(intervals.retry),
            "NotFoundByBIOSUUID",
            format!(
                "there is no virtual machine with the BIOS UUID {uuid}: it was created, and is not created again"
            ),
        );
    }
    let devices = &vm.spec.machine.network.devices;
    for (at, device) in devices.iter().enumerate() {
        if let Some(problem) = lacks_address(at, device) {
            let step = Step::Wait(intervals.retry);
            return Plan {
                step,
                problem: Some(problem),
            };
        }
    }
    Plan::with_problem(Step::Clone, "WaitingForClone", "it is being cloned")
}

/// Returns why a card cannot get an address, if there is a reason.
fn lacks_address(at: usize, device: &NetworkDevice) -> Option<Problem> {
    let pools = device
        .rest
        .get("addressesFromPools")
        .and_then(Value::as_array);
    if device.dhcp4 == Some(true)
        || device.dhcp6 == Some(true)
        || !device.ip_addrs.is_empty()
        || skips_allocation(device)
    {
        return None;
    }
    let network = &device.network_name;
    Some(match pools.is_some_and(|pools| !pools.is_empty()) {
        true => Problem::new(
            "WaitingForIPAllocation",
            format!(
                "network.devices[{at}] ({network}) waits for addresses from its pools to be written to ipAddrs"
            ),
        ),
        false => Problem::new(
            "WaitingForStaticIPAllocation",
            format!("network.devices[{at}] ({network}) has neither DHCP nor ipAddrs"),
        ),
    })
}

/// Returns the step for a virtual machine that exists.
fn plan_provisioning(
    vm: &VSphereVM,
    object: &Object,
    machine: &Machine,
    now: Timestamp,
    intervals: &Intervals,
) -> Plan {
    let Some(uuid) = &machine.bios_uuid else {
        let step = Step::Wait(intervals.tasks);
        return Plan::with_problem(step, "WaitingForClone", "it is being cloned");
    };
    if bios_uuid(vm).is_none() || metadata::mark(vm).is_none() {
        return Plan::without_problem(Step::RecordUuid(uuid.clone()));
    }
    let Some(metadata) = metadata::desired(vm, &machine.cards) else {
        let step = Step::Wait(intervals.addresses.0);
        let message = "its network cards are not known yet";
        return Plan::with_problem(step, "WaitingForClone", message);
    };
    if machine.metadata.as_ref() != Some(&metadata) {
        let step = Step::WriteMetadata(object.clone(), metadata);
        return match machine.powered_on {
            true => Plan::without_problem(step),
            false => Plan::with_problem(step, "PoweringOn", "its metadata is being written"),
        };
    }
    if !machine.powered_on {
        let step = Step::PowerOn(object.clone());
        return Plan::with_problem(step, "PoweringOn", "it is being powered on");
    }
    if addresses(machine).is_empty() && needs_addresses(vm) {
        let step = Step::Wait(address_poll_interval(vm, now, intervals));
        return Plan::with_problem(step, "WaitingForIPAddress", "it has no address yet");
    }
    Plan::without_problem(Step::Done)
}

/// Returns its reachable addresses, in order and without duplicates.
pub(super) fn addresses(machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    for address in machine.cards.iter().flat_map(|card| &card.addresses) {
        if is_reachable(address) && !found.contains(address) {
            found.push(address.clone());
        }
    }
    found
}

fn is_reachable(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(address)) => !address.is_link_local() && !address.is_loopback(),
        Ok(IpAddr::V6(address)) => !address.is_unicast_link_local() && !address.is_loopback(),
        Err(_) => false,
    }
}

/// Returns the polling interval for addresses, which grows with the age of the VSphereVM: a young
/// one is about to get an address.
fn address_poll_interval(vm: &VSphereVM, now: Timestamp, intervals: &Intervals) -> Duration {
    let (first, longest) = intervals.addresses;
    let made = vm
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(now, |made| made.0);
    let age = Duration::try_from(now.duration_since(made)).unwrap_or_default();
    (age / 10).clamp(first.min(longest), longest)
}

/// Returns whether a virtual machine belongs to this VSphereVM: it was created with its UID, or,
/// after a move, its metadata names this owner. The BIOS UUID in the spec is user input and may be
/// another machine's, and names are not unique. A template is never owned.
pub(super) fn owns(vm: &VSphereVM, machine: &Machine) -> bool {
    let uid = vm.metadata.uid.as_deref().unwrap_or_default();
    let same = |uuid: &String| !uid.is_empty() && uuid.eq_ignore_ascii_case(uid);
    if machine.is_template {
        return false;
    }
    if machine.instance_uuid.as_ref().is_some_and(same) {
        return true;
    }
    let owner = machine.metadata.as_deref().and_then(metadata::owner_of);
    owner.is_some() && owner == metadata::owner(vm)
}

#[cfg(test)]
mod tests;
