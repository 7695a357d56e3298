//! Deletion of clusters: after their machines are gone, together with the Secret that they
//! claimed. No vCenter is asked, so an unreachable one cannot block it.

use std::fmt::Debug;

use insula_operator::retry::Outcome;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tracing::info;

use super::conclude::conclude_deletion;
use super::{MAX_WAIT, Reconciliation};
use crate::capi;
use crate::kinds::{VSphereCluster, VSphereMachine, VSphereVM};
use crate::names::{CLUSTER_FINALIZER, CLUSTER_LABEL};
use crate::operator::claim::release;
use crate::operator::commit;
use crate::operator::context::Dependency;
use crate::operator::resolve::cluster_claimant;

impl Reconciliation<'_> {
    /// Does as much of the deletion as is possible now.
    pub(super) async fn remove(
        &mut self,
        cluster: VSphereCluster,
        owner: Option<&capi::Cluster>,
    ) -> Result<Outcome, kube::Error> {
        if !commit::has_finalizer(&cluster, CLUSTER_FINALIZER) {
            // Other finalizers are left, or it is about to disappear.
            return Ok(Outcome::Waits(self.context.resync_after(self.key)));
        }
        let name = member_name(&cluster, owner);
        if let Some(waits_for) = self.members(&name).await? {
            let after = conclude_deletion(&cluster, Some(&waits_for), Timestamp::now());
            commit::status(&self.clusters, &cluster, &after).await?;
            return Ok(Outcome::Waits(MAX_WAIT));
        }
        let reference = cluster.spec.identity_ref.as_ref();
        if let Some(secret) = reference.filter(|reference| reference.kind == "Secret") {
            release(&self.secrets(), &cluster_claimant(&cluster), &secret.name).await?;
        }
        commit::remove_finalizer(&self.clusters, &cluster, CLUSTER_FINALIZER).await?;
        info!(key = %self.key, "cluster deleted");
        Ok(Outcome::Gone)
    }

    /// Returns which machines are left, if any.
    async fn members(&mut self, cluster: &str) -> Result<Option<String>, kube::Error> {
        let on = Dependency::Members {
            space: self.key.space.clone(),
            namespace: self.key.namespace_or_empty().to_owned(),
            cluster: cluster.to_owned(),
        };
        self.context.depend_on(self.key, &mut self.depends, on);
        let machines = self.count::<VSphereMachine>(cluster).await?;
        if machines > 0 {
            return Ok(Some(format!("waits for {machines} VSphereMachines")));
        }
        let vms = self.count::<VSphereVM>(cluster).await?;
        Ok((vms > 0).then(|| format!("waits for {vms} VSphereVMs")))
    }

    async fn count<K>(&self, cluster: &str) -> Result<usize, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.key.namespace_or_empty());
        let of_cluster = ListParams::default().labels(&format!("{CLUSTER_LABEL}={cluster}"));
        Ok(api.list_metadata(&of_cluster).await?.items.len())
    }
}

/// Returns the value of the cluster label of its machines: the name of the Cluster.
fn member_name(cluster: &VSphereCluster, owner: Option<&capi::Cluster>) -> String {
    let label = || cluster.labels().get(CLUSTER_LABEL).cloned();
    let named = super::owner_of(cluster).map(str::to_owned);
    let owner = owner.map(ResourceExt::name_any).or(named);
    owner.or_else(label).unwrap_or_else(|| cluster.name_any())
}
