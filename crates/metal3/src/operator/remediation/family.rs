//! The objects that a remediation is about.

use insula_capi::{Cluster, Machine, owner, owning_cluster};
use kube::{Resource, ResourceExt};

use crate::hosts::consumer::Consumer;
use crate::hosts::proof::proof;
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::machine::Metal3Machine;
use crate::kinds::remediation::Metal3Remediation;
use crate::names::GROUP;
use crate::operator::access::{self, Identity};
use crate::operator::context::Reconciliation;
use crate::pool::HostPool;

/// The objects that a remediation is about, as far as they exist.
pub(super) struct Family {
    pub machine: Option<Machine>,
    pub metal3_machine: Option<Metal3Machine>,
    pub cluster: Option<Cluster>,
    pub infrastructure: Option<Metal3Cluster>,
}

impl Family {
    /// Reads them. The remediation is triggered when one of them changes.
    pub(super) async fn read(
        of: &Reconciliation<'_>,
        remediation: &Metal3Remediation,
    ) -> Result<Self, kube::Error> {
        let machine = match owner::machine(remediation) {
            Some(name) => of.read::<Machine>(name).await?,
            None => None,
        };
        let machine = machine.filter(|machine| is_owner(machine, remediation));
        let name = machine.as_ref().and_then(metal3_machine);
        let metal3_machine = match name {
            Some(name) => of.read::<Metal3Machine>(name).await?,
            None => None,
        };
        let cluster = machine
            .as_ref()
            .map(|machine| machine.spec.cluster_name.as_str());
        let owning = owning_cluster::read::<_, Metal3Cluster>(of, cluster).await?;
        Ok(Self {
            machine,
            metal3_machine,
            cluster: owning.cluster,
            infrastructure: owning.infrastructure.ok(),
        })
    }

    /// Returns the references to kubeconfigs that decide about the host.
    pub(super) fn identity(&self) -> Identity<'_> {
        let machine = self.metal3_machine.as_ref();
        let of_cluster = self.infrastructure.as_ref().and_then(|cluster| {
            let name = cluster.metadata.name.as_deref().unwrap_or_default();
            Some((name, cluster.spec.identity_ref.as_ref()?))
        });
        Identity {
            own: machine.and_then(|machine| machine.spec.identity_ref.as_ref()),
            of_cluster,
        }
    }

    /// Returns the machine as the user of its host.
    pub(super) fn consumer(&self, of: &Reconciliation<'_>, pool: &HostPool) -> Option<Consumer> {
        let machine = self.metal3_machine.as_ref()?;
        let proof = proof(machine);
        Some(access::consumer(
            of,
            pool,
            &machine.name_any(),
            proof.as_deref(),
        ))
    }

    /// Returns whether the machine has a node to take care of.
    pub(super) fn keeps_node(&self) -> bool {
        exists(self.machine.as_ref())
    }

    /// Returns whether the machine has a host to take care of. One that is being deleted withdraws
    /// all requests itself, before it releases the host.
    pub(super) fn keeps_host(&self) -> bool {
        exists(self.metal3_machine.as_ref())
    }
}

/// Returns whether an object exists and is not being deleted.
fn exists(object: Option<&impl Resource>) -> bool {
    object.is_some_and(|object| object.meta().deletion_timestamp.is_none())
}

/// Returns whether a Machine is the owner, and not a later one of the same name.
fn is_owner(machine: &Machine, remediation: &Metal3Remediation) -> bool {
    let mut owners = remediation.owner_references().iter();
    let uid = machine.metadata.uid.as_ref();
    owners.any(|owner| owner.kind == "Machine" && Some(&owner.uid) == uid)
}

/// Returns the name of the infrastructure of a Machine, if it is of this provider.
fn metal3_machine(machine: &Machine) -> Option<&str> {
    let reference = machine.spec.infrastructure_ref.as_ref()?;
    let is_own = reference.api_group == GROUP && reference.kind == "Metal3Machine";
    // Version v1beta1 can name another namespace, which is not the Machine's to use.
    let is_here =
        reference.namespace.is_none() || reference.namespace == machine.metadata.namespace;
    (is_own && is_here).then_some(reference.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn m09_remediation_is_about_the_machine_that_owns_it() {
        let machine = |uid: &str| -> Machine {
            serde_json::from_value(json!({"metadata": {"name": "m", "uid": uid}, "spec": {}}))
                .unwrap()
        };
        let remediation: Metal3Remediation = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Remediation",
            "metadata": {"name": "m", "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m",
                "uid": "u-1",
            }]},
            "spec": {},
        }))
        .unwrap();
        assert!(is_owner(&machine("u-1"), &remediation));
        assert!(!is_owner(&machine("u-2"), &remediation));
    }

    #[test]
    fn m09_infrastructure_of_another_provider_or_namespace_is_not_used() {
        for (group, kind, namespace, expected) in [
            (GROUP, "Metal3Machine", None, Some("i")),
            (GROUP, "Metal3Machine", Some("team-a"), Some("i")),
            (GROUP, "Metal3Machine", Some("team-b"), None),
            (GROUP, "VSphereMachine", None, None),
            ("example.com", "Metal3Machine", None, None),
        ] {
            let machine: Machine = serde_json::from_value(json!({
                "metadata": {"name": "m", "namespace": "team-a"},
                "spec": {"infrastructureRef": {
                    "apiGroup": group, "kind": kind, "name": "i", "namespace": namespace,
                }},
            }))
            .unwrap();
            assert_eq!(metal3_machine(&machine), expected, "{group} {kind}");
        }
    }
}
