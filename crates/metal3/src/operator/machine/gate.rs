//! What a machine needs before it is reconciled. No I/O.

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::owning_cluster::NoCluster;
use insula_capi::{Cluster, Machine};
use kube::ResourceExt;

use super::conclude::State;
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::machine::Metal3Machine;

/// The objects that a machine belongs to, as far as they exist.
pub(super) struct Family {
    pub machine: Option<Machine>,
    pub cluster: Option<Cluster>,
    /// The infrastructure of the cluster, or why there is none.
    pub infrastructure: Result<Metal3Cluster, NoCluster>,
}

/// The objects that a machine belongs to.
#[derive(Clone, Copy)]
pub(super) struct Owners<'a> {
    pub machine: &'a Machine,
    pub cluster: &'a Cluster,
    pub infrastructure: &'a Metal3Cluster,
}

/// Returns the cluster name of its Machine, or that of its own label.
pub(super) fn cluster_name(machine: &Metal3Machine, owner: Option<&Machine>) -> Option<String> {
    let named = owner.map(|owner| owner.spec.cluster_name.clone());
    let labelled = || machine.labels().get(CLUSTER_LABEL).cloned();
    named.filter(|name| !name.is_empty()).or_else(labelled)
}

/// Returns the objects that a machine belongs to, or what it waits for. The infrastructure must
/// have been ready once: a credential of the cluster that fails later concerns only the machines
/// that use it.
pub(super) fn owners(family: &Family) -> Result<Owners<'_>, State> {
    let wait = |reason, message: &str| Err(State::new(false, reason, message));
    let Some(machine) = &family.machine else {
        return wait("WaitingForMetal3MachineOwnerRef", "no Machine owns it yet");
    };
    let Some(cluster) = &family.cluster else {
        let why = family.infrastructure.as_ref().err();
        let why = why.map_or("there is no Cluster", |none| none.message.as_str());
        return wait("WaitingForClusterInfrastructureReady", why);
    };
    if !cluster.is_infrastructure_provisioned() {
        let message = "the infrastructure of its cluster is not ready yet";
        return wait("WaitingForClusterInfrastructure", message);
    }
    match &family.infrastructure {
        Ok(infrastructure) => Ok(Owners {
            machine,
            cluster,
            infrastructure,
        }),
        Err(none) => wait("WaitingforMetal3Cluster", &none.message),
    }
}

#[cfg(test)]
mod tests {
    use insula_capi::kinds::ClusterInitialization;

    use super::*;

    fn cluster(infrastructure_provisioned: bool) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.status.get_or_insert_default().initialization = Some(ClusterInitialization {
            infrastructure_provisioned: Some(infrastructure_provisioned),
            control_plane_initialized: None,
        });
        cluster
    }

    #[test]
    fn machine_waits_for_its_owners_one_after_the_other() {
        let none = || NoCluster::new("Metal3ClusterNotFound", "none".to_owned());
        let machine = Some(Machine::default());
        for (machine, cluster, infrastructure, expected) in [
            (
                None,
                None,
                Err(none()),
                Some(("WaitingForMetal3MachineOwnerRef", "no Machine owns it yet")),
            ),
            (
                machine.clone(),
                None,
                Err(none()),
                Some(("WaitingForClusterInfrastructureReady", "none")),
            ),
            (
                machine.clone(),
                Some(cluster(false)),
                Ok(Metal3Cluster::default()),
                Some((
                    "WaitingForClusterInfrastructure",
                    "the infrastructure of its cluster is not ready yet",
                )),
            ),
            (
                machine.clone(),
                Some(cluster(true)),
                Err(none()),
                Some(("WaitingforMetal3Cluster", "none")),
            ),
            (
                machine,
                Some(cluster(true)),
                Ok(Metal3Cluster::default()),
                None,
            ),
        ] {
            let family = Family {
                machine,
                cluster,
                infrastructure,
            };
            let expected = expected.map(|(reason, message)| State::new(false, reason, message));
            assert_eq!(owners(&family).err(), expected);
        }
    }

    #[test]
    fn cluster_is_named_by_the_machine_or_by_a_label() {
        let mut machine = Metal3Machine::default();
        assert_eq!(cluster_name(&machine, None), None);
        let labels = machine.labels_mut();
        labels.insert(CLUSTER_LABEL.to_owned(), "label".to_owned());
        let mut owner = Machine::default();
        let name = cluster_name(&machine, Some(&owner));
        assert_eq!(name.as_deref(), Some("label"));
        owner.spec.cluster_name = "spec".to_owned();
        let name = cluster_name(&machine, Some(&owner));
        assert_eq!(name.as_deref(), Some("spec"));
    }
}
