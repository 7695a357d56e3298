//! Deletes data after its claim.

use insula_capi::{Cluster, owning_cluster};
use insula_operator::commit::has_finalizer;
use insula_operator::retry::Outcome;
use kube::ResourceExt;
use tracing::info;

use super::super::access::Identity;
use super::super::claims::trigger;
use super::super::host_secret::delete_own;
use super::family::of_cluster;
use super::{DataReconciler, Halt, HostAccess, Recorded, Step};
use crate::data::secret::DataSecret;
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::data_claim::Metal3DataClaim;
use crate::kinds::data_template::Metal3DataTemplate;
use crate::kinds::host::BareMetalHost;
use crate::kinds::machine::Metal3Machine;
use crate::names::DATA_FINALIZER;

impl DataReconciler<'_> {
    /// Deletes data after its claim: first the Secrets that no owner reference covers, then the
    /// claims on addresses. The finalizer stays while the Secrets cannot be reached.
    pub(super) async fn remove(&mut self, cluster: Option<&Cluster>) -> Step<Outcome> {
        if !has_finalizer(&self.data.stored, DATA_FINALIZER) {
            self.of.release_session();
            return Ok(Outcome::Gone);
        }
        if self.has_claim().await? {
            return Err(self.as_before());
        }
        let machine = self.metal3_machine().await?;
        if self.has_remote_secrets() {
            let access = self.reach_secrets(cluster, machine.as_ref()).await?;
            let done = self.delete_secrets(machine.as_ref(), &access).await;
            Self::explain_failure(&access, done)?;
            access.pool.forget(&self.of.key.text());
        }
        self.release_claims().await?;
        self.data.remove_finalizer(DATA_FINALIZER).await?;
        self.of.release_session();
        let template = self.data.stored.spec.template.as_ref();
        if let Some(template) = template {
            trigger::<Metal3DataTemplate>(self.of, &template.name);
        }
        info!(key = %self.of.key, "data deleted");
        Ok(Outcome::Gone)
    }

    fn as_before(&self) -> Halt {
        let outcome = Outcome::Waits(self.of.resync_after());
        Halt::Stop(super::State::AsBefore, outcome)
    }

    /// Returns whether the claim exists. A new claim of the same name is not the one.
    async fn has_claim(&self) -> Result<bool, kube::Error> {
        let data = &self.data.stored;
        let Some(claim) = &data.spec.claim else {
            return Ok(false);
        };
        let Some(claim) = self.of.read::<Metal3DataClaim>(&claim.name).await? else {
            return Ok(false);
        };
        let mut owners = data.owner_references().iter();
        let owner = owners.find(|owner| owner.kind == "Metal3DataClaim");
        Ok(owner.is_none_or(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref()))
    }

    /// Returns whether there are Secrets, or could be, that are not deleted with the data.
    fn has_remote_secrets(&self) -> bool {
        let spec = &self.data.stored.spec;
        let references = spec.meta_data.iter().chain(&spec.network_data);
        let mut namespaces = references.filter_map(|one| one.namespace.as_deref());
        matches!(self.recorded(), Recorded::With(_))
            || namespaces.any(|one| one != self.namespace())
    }

    /// Returns the access to the Secrets, with the kubeconfig that they were written with.
    async fn reach_secrets(
        &self,
        cluster: Option<&Cluster>,
        machine: Option<&Metal3Machine>,
    ) -> Step<HostAccess> {
        let recorded = self.recorded();
        let own = match &recorded {
            Recorded::With(identity) => Some(identity),
            _ => machine.and_then(|machine| machine.spec.identity_ref.as_ref()),
        };
        let infrastructure = match cluster.filter(|_| own.is_none()) {
            Some(cluster) => {
                let name = cluster.name_any();
                let owning = owning_cluster::read::<_, Metal3Cluster>(self.of, Some(&name));
                owning.await?.infrastructure.ok()
            }
            None => None,
        };
        let identity = Identity {
            own,
            of_cluster: infrastructure.as_ref().and_then(of_cluster),
        };
        if identity.effective().is_none() {
            let message = "its Secrets are next to a host, and no kubeconfig is known that \
                           reaches them";
            return Err(self.problem("IdentityUnknown", message));
        }
        self.open(identity).await
    }

    /// Deletes the Secrets next to the host, after the host no longer refers to them.
    async fn delete_secrets(
        &self,
        machine: Option<&Metal3Machine>,
        access: &HostAccess,
    ) -> Step<()> {
        let pool = &access.pool;
        let Some(name) = self.machine_name() else {
            return Ok(());
        };
        let owner = self.secret_owner(name, machine);
        let kinds = [DataSecret::Metadata, DataSecret::NetworkData];
        let names = kinds.map(|kind| kind.name(name));
        // Without its machine, nothing would take the references away.
        if machine.is_some() {
            let consumer = self.consumer(pool, name, machine);
            let hosts = pool.seen();
            let user = hosts
                .iter()
                .find(|host| consumer.has_named(host) && refers_to(host, &names));
            if let Some(host) = user {
                pool.follow_host(self.of.key.text(), &host.name_any());
                return Err(self.as_before());
            }
        }
        let secrets = pool.secrets();
        for name in names {
            let deleted = delete_own(&secrets, &name, &owner).await;
            deleted.map_err(Halt::Hosts)?;
        }
        Ok(())
    }
}

/// Returns whether a host refers to one of these Secrets.
fn refers_to(host: &BareMetalHost, names: &[String]) -> bool {
    let references = [&host.spec.meta_data, &host.spec.network_data];
    let mut found = references
        .into_iter()
        .flatten()
        .filter_map(|one| one.name.as_ref());
    found.any(|name| names.contains(name))
}
