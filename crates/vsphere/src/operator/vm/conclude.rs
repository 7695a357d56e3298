//! What is said of a virtual machine. Nothing here talks to anybody.

use insula_operator::condition::seconds;
use k8s_openapi::jiff::Timestamp;

use super::plan::{self, Say};
use super::remove::SOFT;
use crate::kinds::{NetworkStatus, VSphereVM, VSphereVMStatus};
use crate::operator::condition::{Saying, VCENTER};
use crate::operator::paused;
use crate::vcenter::{Machine, Object};

/// Whether it runs and can be reached.
pub(in crate::operator) const PROVISIONED: &str = "VirtualMachineProvisioned";
/// What counts for whether it is ready.
const PARTS: &[&str] = &[VCENTER, PROVISIONED];

/// A VSphereVM of which something is said.
pub(super) struct Telling<'a> {
    pub vm: &'a mut VSphereVM,
    pub now: Timestamp,
}

impl Telling<'_> {
    /// Whether it is left alone, and why.
    pub fn paused(&mut self, why: Option<&str>) {
        let (generation, now) = (self.vm.metadata.generation, self.now);
        let conditions = &mut self.status().conditions;
        paused::say(conditions, why, generation, now);
    }

    /// Its vCenter can be used.
    pub fn available(&mut self) {
        let mut saying = self.saying();
        saying.yes(VCENTER, "Available", "");
        saying.summary(PARTS);
    }

    /// Its vCenter cannot be used.
    pub fn unavailable(&mut self, reason: &str, message: String) {
        let mut saying = self.saying();
        saying.no(VCENTER, reason, message);
        saying.summary(PARTS);
    }

    /// It is not as it should be. What is said of one that goes is not taken back.
    pub fn hindered(&mut self, say: &Say) {
        let going = self.vm.metadata.deletion_timestamp.is_some();
        let reason = if going { "Deleting" } else { say.reason };
        let mut saying = self.saying();
        saying.no(PROVISIONED, reason, say.message.clone());
        saying.summary(PARTS);
        self.status().ready = Some(false);
    }

    /// It is as it should be.
    pub fn provisioned(&mut self) {
        let mut saying = self.saying();
        saying.yes(PROVISIONED, "Provisioned", "");
        saying.summary(PARTS);
        self.status().ready = Some(true);
    }

    /// How its guest takes to being asked to end.
    pub fn soft(&mut self, reason: &str, message: &str) {
        self.saying().no(SOFT, reason, message);
    }

    /// What was seen of it.
    pub fn seen(&mut self, object: &Object, machine: &Machine) {
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

    /// Nothing is done until then.
    pub fn pauses(&mut self, until: Timestamp) {
        self.status().retry_after = Some(seconds(until));
    }

    /// What is changed.
    pub fn status(&mut self) -> &mut VSphereVMStatus {
        self.vm.status.get_or_insert_default()
    }

    fn saying(&mut self) -> Saying<'_> {
        let (generation, now) = (self.vm.metadata.generation, self.now);
        let conditions = &mut self.status().conditions;
        Saying {
            conditions,
            generation,
            now,
        }
    }
}
