//! From a VSphereVM and what was seen in its vCenter to the one next step. Nothing here talks
//! to anybody.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::Value;

use super::metadata;
use crate::kinds::{NetworkDevice, VSphereVM};
use crate::operator::pace::Pace;
use crate::vcenter::{Machine, Object, Task};

/// What was seen.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub now: Timestamp,
    /// How far the task is that is waited for.
    pub task: Option<Task>,
    /// What there is; not looked for while something is waited for.
    pub found: Found,
}

/// What there is of a virtual machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// It.
    Machine(Object, Box<Machine>),
    /// The one whose BIOS UUID is given, which is somebody else's.
    Foreign,
    /// What it was seen as is there, and nobody lets us see what it is.
    Hidden(Object),
}

/// The next step, and what is said until it is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub act: Act,
    /// Why it is not ready; as before, if nothing is said.
    pub say: Option<Say>,
}

/// What can be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Look again after this long.
    Wait(Duration),
    /// The task is over and did what it should, or nothing is known of it.
    Forget,
    /// The task failed a while ago: what it was for is begun again.
    Begin,
    /// The task failed: nothing is done for a while.
    Pause,
    Clone,
    /// Note its BIOS UUID, and what it will be known by.
    Identify(String),
    /// Tell it what it is to know about itself.
    Describe(Object, String),
    PowerOn(Object),
    /// Ask its guest to end.
    ShutDown(Object),
    /// Ask it once more, and leave it alone for a while.
    ShutDownAgain(Object),
    PowerOff(Object),
    Destroy(Object),
    /// Nothing is left of it.
    LetGo,
    /// It is as it should be.
    Nothing,
}

/// Why something is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Say {
    pub reason: &'static str,
    pub message: String,
}

impl Say {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}

impl Plan {
    pub fn silently(act: Act) -> Self {
        Self { act, say: None }
    }

    pub fn saying(act: Act, reason: &'static str, message: impl Into<String>) -> Self {
        let say = Some(Say::new(reason, message));
        Self { act, say }
    }
}

/// The next step of a virtual machine that is to be.
pub(super) fn plan(vm: &VSphereVM, seen: &Seen, pace: &Pace) -> Plan {
    if let Some(plan) = after_task(vm, seen, pace) {
        return plan;
    }
    match &seen.found {
        Found::Foreign => Plan::saying(
            Act::Wait(pace.again),
            "NotFoundByBIOSUUID",
            "the virtual machine with the BIOS UUID of spec.biosUUID is not this one's",
        ),
        Found::Hidden(object) => {
            Plan::saying(Act::Wait(pace.again), "NotFoundByBIOSUUID", hidden(object))
        }
        Found::Nothing => make(vm, pace),
        Found::Machine(object, machine) => bring_up(vm, object, machine, seen.now, pace),
    }
}

/// One that this account does not see, in words.
pub(super) fn hidden(object: &Object) -> String {
    format!("{object} is there, and what it is cannot be seen with this account")
}

/// Its BIOS UUID, if it is known.
pub(in crate::operator) fn bios_uuid(vm: &VSphereVM) -> Option<&str> {
    let uuid = vm.spec.bios_uuid.as_deref();
    uuid.filter(|uuid| !uuid.is_empty())
}

/// Whether it is to have addresses: not if somebody else sees to those of all its cards.
pub(in crate::operator) fn needs_addresses(vm: &VSphereVM) -> bool {
    let devices = &vm.spec.machine.network.devices;
    devices.is_empty() || !devices.iter().all(skips_allocation)
}

fn skips_allocation(device: &NetworkDevice) -> bool {
    let skips = device.rest.get("skipIPAllocation");
    skips.and_then(Value::as_bool) == Some(true)
}

/// What there is to do about the task that was begun last, if anything.
pub(super) fn after_task(vm: &VSphereVM, seen: &Seen, pace: &Pace) -> Option<Plan> {
    let retry_after = vm
        .status
        .as_ref()
        .and_then(|status| status.retry_after.as_ref());
    if let Some(at) = retry_after {
        let left = Duration::try_from(at.0.duration_since(seen.now)).unwrap_or_default();
        return Some(Plan::silently(match left.is_zero() {
            true => Act::Begin,
            false => Act::Wait(left),
        }));
    }
    Some(match seen.task.as_ref()? {
        Task::Running => Plan::silently(Act::Wait(pace.tasks)),
        Task::Done(_) | Task::Unknown => Plan::silently(Act::Forget),
        // Somebody was faster, or we were, and did not hear of it.
        Task::Failed { fault, .. } if fault == "InvalidPowerState" && is_as_wanted(vm, seen) => {
            Plan::silently(Act::Forget)
        }
        Task::Failed { fault, message } => {
            Plan::saying(Act::Pause, "TaskFailed", failed(vm, fault, message))
        }
    })
}

/// Whether it has the power that it is to have: none if it goes.
fn is_as_wanted(vm: &VSphereVM, seen: &Seen) -> bool {
    let going = vm.metadata.deletion_timestamp.is_some();
    match &seen.found {
        Found::Machine(_, machine) => machine.powered_on != going,
        _ => going,
    }
}

/// A task that failed, in words.
fn failed(vm: &VSphereVM, fault: &str, message: &str) -> String {
    match fault {
        "DuplicateName" => format!(
            "the folder has a virtual machine {:?} that is not this one's: {message}",
            vm.name_any()
        ),
        _ => format!("{message} ({fault})"),
    }
}

/// What there is to do for one that is not there.
fn make(vm: &VSphereVM, pace: &Pace) -> Plan {
    if let Some(uuid) = bios_uuid(vm) {
        return Plan::saying(
            Act::Wait(pace.again),
            "NotFoundByBIOSUUID",
            format!(
                "there is no virtual machine with the BIOS UUID {uuid}: it was made, and is not made again"
            ),
        );
    }
    let devices = &vm.spec.machine.network.devices;
    for (at, device) in devices.iter().enumerate() {
        if let Some(say) = lacks_address(at, device) {
            let act = Act::Wait(pace.again);
            return Plan {
                act,
                say: Some(say),
            };
        }
    }
    Plan::saying(Act::Clone, "WaitingForClone", "it is being cloned")
}

/// Whether a card would have no way to get an address.
fn lacks_address(at: usize, device: &NetworkDevice) -> Option<Say> {
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
        true => Say::new(
            "WaitingForIPAllocation",
            format!(
                "network.devices[{at}] ({network}) waits for addresses from its pools to be written to ipAddrs"
            ),
        ),
        false => Say::new(
            "WaitingForStaticIPAllocation",
            format!("network.devices[{at}] ({network}) has neither DHCP nor ipAddrs"),
        ),
    })
}

/// What there is to do for one that is there.
fn bring_up(
    vm: &VSphereVM,
    object: &Object,
    machine: &Machine,
    now: Timestamp,
    pace: &Pace,
) -> Plan {
    let Some(uuid) = &machine.bios_uuid else {
        let act = Act::Wait(pace.tasks);
        return Plan::saying(act, "WaitingForClone", "it is being cloned");
    };
    if bios_uuid(vm).is_none() || metadata::mark(vm).is_none() {
        return Plan::silently(Act::Identify(uuid.clone()));
    }
    let Some(metadata) = metadata::wanted(vm, &machine.cards) else {
        let act = Act::Wait(pace.addresses.0);
        let message = "its network cards are not there yet";
        return Plan::saying(act, "WaitingForClone", message);
    };
    if machine.metadata.as_ref() != Some(&metadata) {
        let act = Act::Describe(object.clone(), metadata);
        return match machine.powered_on {
            true => Plan::silently(act),
            false => Plan::saying(act, "PoweringOn", "it is told about its network"),
        };
    }
    if !machine.powered_on {
        let act = Act::PowerOn(object.clone());
        return Plan::saying(act, "PoweringOn", "it is being powered on");
    }
    if addresses(machine).is_empty() && needs_addresses(vm) {
        let act = Act::Wait(patience(vm, now, pace));
        return Plan::saying(act, "WaitingForIPAddress", "it has no address yet");
    }
    Plan::silently(Act::Nothing)
}

/// The addresses that others can reach it under, in order and without repetition.
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

/// One that is young is about to get an address; one that is old will be seen soon enough.
fn patience(vm: &VSphereVM, now: Timestamp, pace: &Pace) -> Duration {
    let (first, longest) = pace.addresses;
    let made = vm
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(now, |made| made.0);
    let age = Duration::try_from(now.duration_since(made)).unwrap_or_default();
    (age / 10).clamp(first.min(longest), longest)
}

/// Whether a virtual machine that was found is this one's: it was made with its UID, or, should the
/// VSphereVM have been moved here, was told that it is. A UUID is what a user wrote, maybe that
/// of somebody else's machine, and a name is anybody's. A template is nobody's to begin with.
pub(super) fn is_ours(vm: &VSphereVM, machine: &Machine) -> bool {
    let uid = vm.metadata.uid.as_deref().unwrap_or_default();
    let same = |uuid: &String| !uid.is_empty() && uuid.eq_ignore_ascii_case(uid);
    if machine.is_template {
        return false;
    }
    if machine.instance_uuid.as_ref().is_some_and(same) {
        return true;
    }
    let told = machine.metadata.as_deref().and_then(metadata::owner_of);
    told.is_some() && told == metadata::owner(vm)
}

#[cfg(test)]
mod tests;
