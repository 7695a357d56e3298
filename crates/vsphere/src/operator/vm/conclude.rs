//! The status of a virtual machine. No I/O.

use insula_capi::paused;
use insula_operator::condition::{ConditionWriter, seconds};
use k8s_openapi::jiff::Timestamp;

use super::plan::{self, Problem};
use super::remove::SHUTDOWN;
use crate::kinds::{NetworkStatus, VSphereVM, VSphereVMStatus};
use crate::operator::condition::VCENTER;
use crate::vcenter::{Machine, Object};

/// Whether it runs and can be reached.
pub(in crate::operator) const PROVISIONED: &str = "VirtualMachineProvisioned";
/// The conditions that `Ready` summarizes.
const PARTS: &[&str] = &[VCENTER, PROVISIONED];

/// A writer for the status of a VSphereVM.
pub(super) struct StatusWriter<'a> {
    pub vm: &'a mut VSphereVM,
    pub now: Timestamp,
}

impl StatusWriter<'_> {
    /// Reports that it is not paused.
    pub fn not_paused(&mut self) {
        paused::set_condition(&mut self.writer(), None);
    }

    /// Reports that its vCenter can be used.
    pub fn available(&mut self) {
        let mut writer = self.writer();
        writer.set_true(VCENTER, "Available", "");
        writer.summary(PARTS);
    }

    /// Reports that its vCenter cannot be used, and why.
    pub fn unavailable(&mut self, reason: &str, message: String) {
        let mut writer = self.writer();
        writer.set_false(VCENTER, reason, message);
        writer.summary(PARTS);
    }

    /// Reports that it is not provisioned. The reason of a terminating one is always `Deleting`.
    pub fn not_provisioned(&mut self, problem: &Problem) {
        let is_deleting = self.vm.metadata.deletion_timestamp.is_some();
        let reason = if is_deleting {
            "Deleting"
        } else {
            problem.reason
        };
        let mut writer = self.writer();
        writer.set_false(PROVISIONED, reason, problem.message.clone());
        writer.summary(PARTS);
        self.status().ready = Some(false);
    }

    /// Reports that it is provisioned.
    pub fn provisioned(&mut self) {
        let mut writer = self.writer();
        writer.set_true(PROVISIONED, "Provisioned", "");
        writer.summary(PARTS);
        self.status().ready = Some(true);
    }

    /// Reports the progress of the guest's shutdown.
    pub fn shutdown(&mut self, reason: &str, message: &str) {
        self.writer().set_false(SHUTDOWN, reason, message);
    }

    /// Records the observed state.
    pub fn observed(&mut self, object: &Object, machine: &Machine) {
        let status = self.status();
        status.vm_ref = Some(format!("{}:{}", object.kind, object.id));
        status.host = machine.host_name.clone();
        status.addresses = plan::addresses(machine);
        status.network = machine
            .cards
            .iter()
            .map(|card| NetworkStatus {
                connected: Some(card.connected),
                ip_addrs: card.addresses.clone(),
                mac_addr: card.mac.clone(),
                network_name: card.network.clone(),
            })
            .collect();
    }

    /// Sets the time of the next attempt.
    pub fn pause_until(&mut self, until: Timestamp) {
        self.status().retry_after = Some(seconds(until));
    }

    /// Returns the status to change.
    pub fn status(&mut self) -> &mut VSphereVMStatus {
        self.vm.status.get_or_insert_default()
    }

    fn writer(&mut self) -> ConditionWriter<'_> {
        ConditionWriter::of(self.vm, self.now)
    }
}
