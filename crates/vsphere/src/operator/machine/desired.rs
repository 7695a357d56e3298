//! The desired VSphereVM of a machine. No I/O.

use std::collections::BTreeMap;

use insula_capi::names::{CLUSTER_LABEL, CONTROL_PLANE_LABEL, WATCH_LABEL};
use insula_capi::naming::{NameError, TemplateValues, name};
use insula_capi::{Cluster, Machine, bootstrap};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use crate::kinds::{
    BootstrapReference, NetworkDevice, VSphereCluster, VSphereDeploymentZone, VSphereFailureDomain,
    VSphereMachine, VSphereVM, VSphereVMSpec, VirtualMachineSpec,
};
use crate::operator::vm::bios_uuid;

/// The objects that a VSphereVM is derived from.
pub(super) struct Inputs<'a> {
    pub machine: &'a VSphereMachine,
    pub owner: &'a Machine,
    pub cluster: &'a Cluster,
    pub infrastructure: &'a VSphereCluster,
}

/// The zone that a machine is placed in, with its failure domain.
pub(super) struct Zone {
    pub zone: VSphereDeploymentZone,
    pub domain: VSphereFailureDomain,
}

impl Inputs<'_> {
    /// Returns the name of the zone that it is placed in.
    pub fn zone(&self) -> Option<&str> {
        let own = self.machine.spec.failure_domain.as_deref();
        let own = own.filter(|name| !name.is_empty());
        self.owner.failure_domain().or(own)
    }

    /// Returns why the VSphereVM cannot be created yet, if there is a reason.
    pub fn wait_reason(&self) -> Option<(&'static str, &'static str)> {
        bootstrap::wait_reason(self.cluster, self.owner)
    }

    /// Returns the name of the VSphereVM.
    pub fn name(&self) -> Result<String, NameError> {
        let naming = self.machine.spec.naming.as_ref();
        let values = TemplateValues {
            cluster: self.cluster.metadata.name.as_deref().unwrap_or_default(),
            machine: self.owner.metadata.name.as_deref().unwrap_or_default(),
            uid: self.machine.metadata.uid.as_deref().unwrap_or_default(),
        };
        name(naming.and_then(|naming| naming.template.as_deref()), values)
    }

    /// Returns the VSphereVM of that name.
    pub fn vm(&self, name: &str, zone: Option<&Zone>) -> VSphereVM {
        let spec = VSphereVMSpec {
            machine: self.spec(zone),
            bootstrap_ref: self
                .owner
                .bootstrap_secret()
                .map(|name| BootstrapReference {
                    name: name.to_owned(),
                }),
            bios_uuid: None,
        };
        let mut vm = VSphereVM::new(name, spec);
        vm.metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: self.machine.namespace(),
            labels: Some(self.labels()),
            owner_references: owner_reference(self.machine).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        vm
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        labels.insert(CLUSTER_LABEL.to_owned(), self.cluster.name_any());
        if let Some(value) = self.owner.labels().get(CONTROL_PLANE_LABEL) {
            labels.insert(CONTROL_PLANE_LABEL.to_owned(), value.clone());
        }
        // The same operator has to reconcile both.
        if let Some(value) = self.machine.labels().get(WATCH_LABEL) {
            labels.insert(WATCH_LABEL.to_owned(), value.clone());
        }
        labels
    }

    /// Merges the specification: the zone's values win over the machine's, and those over the
    /// cluster's.
    fn spec(&self, zone: Option<&Zone>) -> VirtualMachineSpec {
        let mut spec = self.machine.spec.machine.clone();
        let cluster = &self.infrastructure.spec;
        if let Some(zone) = zone {
            place(&mut spec, zone);
        }
        let is_home = match &spec.server {
            None => true,
            Some(server) => server.is_empty() || *server == cluster.server,
        };
        if is_home {
            spec.server = Some(cluster.server.clone());
        }
        spec
    }
}

/// Applies the placement of a zone.
fn place(spec: &mut VirtualMachineSpec, zone: &Zone) {
    let (constraint, topology) = (
        &zone.zone.spec.placement_constraint,
        &zone.domain.spec.topology,
    );
    spec.server = Some(zone.zone.spec.server.clone());
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if !topology.datacenter.is_empty() {
        spec.datacenter = Some(topology.datacenter.clone());
    }
    let compute = non_empty(&topology.compute_cluster);
    let pool = non_empty(&constraint.resource_pool);
    let pool = pool.or_else(|| compute.map(|cluster| format!("{cluster}/Resources")));
    spec.resource_pool = pool.or(spec.resource_pool.take());
    spec.folder = non_empty(&constraint.folder).or(spec.folder.take());
    spec.datastore = non_empty(&topology.datastore).or(spec.datastore.take());
    for (device, network) in spec.network.devices.iter_mut().zip(&topology.networks) {
        device.network_name.clone_from(network);
    }
}

/// Returns the owner reference of a VSphereVM to its machine.
pub(super) fn owner_reference(machine: &VSphereMachine) -> Option<OwnerReference> {
    machine.controller_owner_ref(&())
}

/// Returns whether a VSphereVM belongs to this machine.
pub(super) fn is_owned(vm: &VSphereVM, machine: &VSphereMachine) -> bool {
    let uid = machine.metadata.uid.as_deref();
    vm.owner_references()
        .iter()
        .any(|owner| owner.kind == "VSphereMachine" && Some(owner.uid.as_str()) == uid)
}

/// Returns the mutable fields of a VSphereVM that differ from its machine. A VSphereVM in a zone
/// keeps the networks of the zone.
pub(super) fn changes(
    machine: &VSphereMachine,
    vm: &VSphereVM,
    zone: Option<&str>,
) -> Option<serde_json::Value> {
    let (desired, there) = (&machine.spec.machine, &vm.spec.machine);
    let mut changes = serde_json::Map::new();
    if desired.power_off_mode.is_some() && desired.power_off_mode != there.power_off_mode {
        changes.insert(
            "powerOffMode".to_owned(),
            desired.power_off_mode.clone().into(),
        );
    }
    let seconds = desired.guest_soft_power_off_timeout_seconds;
    if seconds.is_some() && seconds != there.guest_soft_power_off_timeout_seconds {
        changes.insert("guestSoftPowerOffTimeoutSeconds".to_owned(), seconds.into());
    }
    if desired.thumbprint != there.thumbprint {
        changes.insert("thumbprint".to_owned(), desired.thumbprint.clone().into());
    }
    let devices = devices(machine, vm, zone);
    if devices != there.network.devices {
        let devices = serde_json::json!({"devices": devices});
        changes.insert("network".to_owned(), devices);
    }
    (!changes.is_empty()).then(|| changes.into())
}

/// Returns the desired network cards: those of the machine, with the addresses of the VSphereVM.
/// An existing virtual machine keeps its cards.
fn devices(machine: &VSphereMachine, vm: &VSphereVM, zone: Option<&str>) -> Vec<NetworkDevice> {
    let there = &vm.spec.machine.network.devices;
    let desired = &machine.spec.machine.network.devices;
    let kept = |at: usize, device: &NetworkDevice| {
        let mut device = device.clone();
        let Some(there) = there.get(at) else {
            return device;
        };
        if zone.is_some() {
            device.network_name.clone_from(&there.network_name);
        }
        if device.ip_addrs.is_empty() && !there.ip_addrs.is_empty() {
            device.ip_addrs.clone_from(&there.ip_addrs);
            device.gateway4 = device.gateway4.or_else(|| there.gateway4.clone());
            device.gateway6 = device.gateway6.or_else(|| there.gateway6.clone());
        }
        device
    };
    let desired = desired.iter().enumerate();
    let devices: Vec<_> = desired.map(|(at, device)| kept(at, device)).collect();
    match bios_uuid(vm) {
        Some(_) if devices.len() != there.len() => there.clone(),
        _ => devices,
    }
}

#[cfg(test)]
mod tests;
