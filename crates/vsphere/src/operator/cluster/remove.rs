//! Deletion of clusters: after their machines are gone, together with the Secret that they
//! claimed. No vCenter is asked, so an unreachable one cannot block it.

use insula_capi::{Cluster, owner};
use insula_operator::commit;
use insula_operator::provider::{MAX_WAIT, end_hold};
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::info;

use super::ClusterReconciler;
use super::conclude::conclude_deletion;
use crate::kinds::{VSphereCluster, VSphereMachine, VSphereVM};
use crate::names::CLUSTER_FINALIZER;
use crate::operator::credentials::{ACCOUNT, cluster_hold};

impl ClusterReconciler<'_> {
    /// Does as much of the deletion as is possible now.
    pub(super) async fn remove(
        &self,
        cluster: VSphereCluster,
        owner: Option<&Cluster>,
    ) -> Result<Outcome, kube::Error> {
        self.of.release_session();
        if !commit::has_finalizer(&cluster, CLUSTER_FINALIZER) {
            // Other finalizers are left, or it is about to disappear.
            return Ok(Outcome::Waits(self.of.resync_after()));
        }
        let name = owner.map(ResourceExt::name_any);
        let name = name.unwrap_or_else(|| owner::cluster_name(&cluster));
        if let Some(waits_for) = self.members(&name).await? {
            let after = conclude_deletion(&cluster, Some(&waits_for), Timestamp::now());
            commit::status(&self.clusters, &cluster, &after).await?;
            return Ok(Outcome::Waits(MAX_WAIT));
        }
        let reference = cluster.spec.identity_ref.as_ref();
        if let Some(secret) = reference.filter(|reference| reference.kind == "Secret") {
            let secrets = self.of.secrets(self.of.key.namespace_or_empty());
            let hold = cluster_hold(&cluster);
            end_hold(&secrets, &hold, &ACCOUNT, &secret.name, false).await?;
        }
        commit::remove_finalizer(&self.clusters, &cluster, CLUSTER_FINALIZER).await?;
        info!(key = %self.of.key, "cluster deleted");
        Ok(Outcome::Gone)
    }

    /// Returns which machines are left, if any.
    async fn members(&self, cluster: &str) -> Result<Option<String>, kube::Error> {
        let namespace = self.of.key.namespace_or_empty();
        self.of.depend_on_members(namespace, cluster);
        let machines = self.of.count_members::<VSphereMachine>(cluster).await?;
        if machines > 0 {
            return Ok(Some(format!("waits for {machines} VSphereMachines")));
        }
        let vms = self.of.count_members::<VSphereVM>(cluster).await?;
        Ok((vms > 0).then(|| format!("waits for {vms} VSphereVMs")))
    }
}
