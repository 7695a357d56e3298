//! The objects that data is rendered from.

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::{Cluster, Machine, owner, owning_cluster};
use kube::ResourceExt;

use super::super::access::{self, Identity};
use super::super::host_secret::SecretOwner;
use super::{DataReconciler, Recorded, Step};
use crate::hosts::consumer::Consumer;
use crate::hosts::proof::{ProofDigest, proof};
use crate::kinds::IdentityReference;
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::data_template::Metal3DataTemplate;
use crate::kinds::machine::Metal3Machine;
use crate::names::{CLAIM_ANNOTATION, GROUP, HOST_ANNOTATION};
use crate::pool::HostPool;

/// The objects that data is rendered from.
pub(super) struct Family {
    pub template: Metal3DataTemplate,
    pub metal3_machine: Metal3Machine,
    pub machine: Machine,
    /// The name of the Cluster.
    pub cluster: String,
    /// The infrastructure of the Cluster, if it exists.
    pub infrastructure: Option<Metal3Cluster>,
    /// The annotation of the machine that names its host.
    pub host: String,
}

impl Family {
    /// Returns the references to kubeconfigs that decide. After the Secrets were written, only the
    /// one counts that they were written with.
    pub(super) fn identity<'a>(&'a self, recorded: &'a Recorded) -> Identity<'a> {
        let infrastructure = self.infrastructure.as_ref();
        match recorded {
            Recorded::InCluster => Identity::default(),
            Recorded::With(identity) => Identity {
                own: Some(identity),
                of_cluster: None,
            },
            Recorded::Nowhere => Identity {
                own: self.metal3_machine.spec.identity_ref.as_ref(),
                of_cluster: infrastructure.and_then(of_cluster),
            },
        }
    }
}

/// Returns the reference of a cluster, with the cluster's name.
pub(super) fn of_cluster(cluster: &Metal3Cluster) -> Option<(&str, &IdentityReference)> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    Some((name, cluster.spec.identity_ref.as_ref()?))
}

impl DataReconciler<'_> {
    /// Reads the objects that the data is rendered from, or waits for them.
    pub(super) async fn family(&self, cluster: &Cluster) -> Step<Family> {
        let data = &self.data.stored;
        let named = data.spec.template.as_ref().map(|named| named.name.as_str());
        let named = named.unwrap_or_default();
        let Some(template) = self.of.read::<Metal3DataTemplate>(named).await? else {
            return Err(self.wait());
        };
        let Some(metal3_machine) = self.metal3_machine().await? else {
            return Err(self.problem("Metal3MachineNotFound", "its Metal3Machine does not exist"));
        };
        // It deletes the Secrets next to its host, which must not be written again.
        if metal3_machine.metadata.deletion_timestamp.is_some() {
            return Err(self.wait());
        }
        let wanted = metal3_machine.spec.data_template.as_ref();
        if wanted.is_none_or(|wanted| wanted.name != named) {
            let message =
                format!("its Metal3Machine does not use the Metal3DataTemplate {named:?}");
            return Err(self.problem("InvalidConfiguration", message));
        }
        let owner = owner::machine(&metal3_machine).map(str::to_owned);
        let machine = match &owner {
            Some(owner) => self.of.read::<Machine>(owner).await?,
            None => None,
        };
        let host = metal3_machine.annotations().get(HOST_ANNOTATION).cloned();
        let (Some(machine), Some(host)) = (machine, host) else {
            return Err(self.wait());
        };
        let name = cluster.name_any();
        let owning = owning_cluster::read::<_, Metal3Cluster>(self.of, Some(&name)).await?;
        if owning.infrastructure.is_err() && metal3_machine.spec.identity_ref.is_none() {
            // The infrastructure may name a kubeconfig.
            return Err(self.wait());
        }
        let label = machine.labels().get(CLUSTER_LABEL);
        let cluster = match machine.spec.cluster_name.as_str() {
            "" => label.cloned().unwrap_or(name),
            cluster => cluster.to_owned(),
        };
        Ok(Family {
            template,
            metal3_machine,
            machine,
            cluster,
            infrastructure: owning.infrastructure.ok(),
            host,
        })
    }

    /// Returns the name of the machine that the data is for. After the machine is deleted, the
    /// garbage collector may remove it from the owners; the claim has its name.
    pub(super) fn machine_name(&self) -> Option<&str> {
        let data = &self.data.stored;
        let claim = data.spec.claim.as_ref().map(|claim| claim.name.as_str());
        owner::of_kind(data, GROUP, "Metal3Machine").or(claim)
    }

    /// Returns what proves that hosts and Secrets belong to the machine. It is recorded when the
    /// first Secret is written.
    pub(super) fn proof(&self, machine: Option<&Metal3Machine>) -> Option<String> {
        let recorded = self.data.stored.annotations().get(CLAIM_ANNOTATION);
        recorded.cloned().or_else(|| machine.and_then(proof))
    }

    /// Returns the machine as the user of a host.
    pub(super) fn consumer(
        &self,
        pool: &HostPool,
        name: &str,
        machine: Option<&Metal3Machine>,
    ) -> Consumer {
        access::consumer(self.of, pool, name, self.proof(machine).as_deref())
    }

    /// Returns the machine as the owner of Secrets next to its host.
    pub(super) fn secret_owner(&self, name: &str, machine: Option<&Metal3Machine>) -> SecretOwner {
        SecretOwner {
            tenant: self.of.key.space.as_deref().map(str::to_owned),
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
            digest: self.proof(machine).as_deref().map(ProofDigest::of),
        }
    }

    /// Reads the machine that the data is for.
    pub(super) async fn metal3_machine(&self) -> Result<Option<Metal3Machine>, kube::Error> {
        match self.machine_name() {
            Some(name) => self.of.read::<Metal3Machine>(name).await,
            None => Ok(None),
        }
    }
}
