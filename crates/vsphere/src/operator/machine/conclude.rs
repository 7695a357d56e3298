//! The status of a machine. No I/O.

use insula_capi::contract::latch_provisioned;
use insula_capi::paused;
use insula_operator::condition::{ConditionWriter, find_in};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::kinds::{MachineAddress, VSphereMachine, VSphereMachineStatus, VSphereVM};
use crate::operator::condition::VCENTER;
use crate::operator::vm::{PROVISIONED, bios_uuid, is_ready, needs_addresses};

/// A writer for the status of a machine.
pub(super) struct StatusWriter<'a> {
    pub machine: &'a mut VSphereMachine,
    pub now: Timestamp,
}

impl StatusWriter<'_> {
    /// Reports that it is not paused.
    pub fn not_paused(&mut self) {
        paused::set_condition(&mut self.writer(), None);
    }

    /// Reports that it is not provisioned, and why.
    pub fn not_provisioned(&mut self, reason: &str, message: &str) {
        let mut writer = self.writer();
        writer.set_false(PROVISIONED, reason, message);
        writer.summary(&[PROVISIONED]);
    }

    /// Copies the state of its VSphereVM.
    pub fn mirror(&mut self, vm: &VSphereVM) {
        let status = vm.status.clone().unwrap_or_default();
        let (reason, message) = match vm_problem(vm) {
            Some(problem) => problem,
            None if status.addresses.is_empty() && needs_addresses(vm) => (
                "WaitingForNetworkAddress".to_owned(),
                "its virtual machine has no address yet".to_owned(),
            ),
            None => return self.provisioned(vm),
        };
        self.status().network = status.network;
        self.not_provisioned(&reason, &message);
    }

    fn provisioned(&mut self, vm: &VSphereVM) {
        let name = vm.name_any();
        let vm = vm.status.clone().unwrap_or_default();
        let status = self.status();
        latch_provisioned(&mut status.ready, &mut status.initialization, true);
        let address = |kind: &str, address: String| MachineAddress {
            kind: kind.to_owned(),
            address,
        };
        let addresses = vm.addresses.into_iter();
        let addresses = addresses.map(|one| address("ExternalIP", one));
        status.addresses = addresses.chain([address("InternalDNS", name)]).collect();
        status.network = vm.network;
        let mut writer = self.writer();
        writer.set_true(PROVISIONED, "Provisioned", "");
        writer.summary(&[PROVISIONED]);
    }

    fn status(&mut self) -> &mut VSphereMachineStatus {
        self.machine.status.get_or_insert_default()
    }

    fn writer(&mut self) -> ConditionWriter<'_> {
        ConditionWriter::of(self.machine, self.now)
    }
}

/// Returns what is wrong with a VSphereVM, if anything.
fn vm_problem(vm: &VSphereVM) -> Option<(String, String)> {
    let is_not = |kind| find_in(vm, kind).filter(|condition| condition.status != "True");
    // An unusable vCenter is the cause of all other problems.
    if let Some(condition) = is_not(VCENTER).or_else(|| is_not(PROVISIONED)) {
        return Some((condition.reason.clone(), condition.message.clone()));
    }
    match is_ready(vm) && bios_uuid(vm).is_some() {
        true => None,
        false => Some((
            "NotProvisioned".to_owned(),
            "its virtual machine does not exist yet".to_owned(),
        )),
    }
}
