//! Reconciles clusters: resolves their credential, checks their vCenter, and collects the zones
//! for their machines.

mod conclude;
mod domains;
mod remove;

use std::time::Instant;

use insula_capi::names::MANAGED_BY;
use insula_capi::{Cluster, owner, paused};
use insula_identity::credential::Credential;
use insula_identity::decide::Refusal;
use insula_identity::session::HeldSession;
use insula_operator::commit;
use insula_operator::condition::find_in;
use insula_operator::event::NewEvent;
use insula_operator::provider::{Access, Closed, take_hold};
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tracing::info;

use self::conclude::{Domains, Observed, VCenter, conclude};
use super::condition::VCENTER;
use super::context::Reconciliation;
use super::credentials::{self, ACCOUNT, IDENTITY, cluster_hold};
use crate::kinds::{VSphereCluster, VSphereDeploymentZone};
use crate::names::CLUSTER_FINALIZER;
use crate::vcenter::{self, VCenters};

/// Reconciles a cluster.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let clusters = of.api::<VSphereCluster>();
    let Some(cluster) = clusters.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    if is_externally_managed(&cluster) {
        of.release_session();
        return Ok(Outcome::Settled(of.resync_after()));
    }
    ClusterReconciler { of, clusters }.run(cluster).await
}

/// The reconciliation of one cluster.
struct ClusterReconciler<'a> {
    of: &'a Reconciliation<'a>,
    clusters: Api<VSphereCluster>,
}

impl ClusterReconciler<'_> {
    async fn run(&self, cluster: VSphereCluster) -> Result<Outcome, kube::Error> {
        let reference = cluster.spec.identity_ref.as_ref();
        if let Some(identity) = reference.filter(|reference| reference.kind == IDENTITY) {
            self.of.depend_on_identity(&identity.name);
        }
        let owner = match owner::cluster(&cluster) {
            Some(name) => self.of.read::<Cluster>(name).await?,
            None => None,
        };
        if let Some(why) = paused::paused(owner.as_ref(), &cluster, "VSphereCluster") {
            return paused::pause(self.of, &self.clusters, &cluster, &why).await;
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            return self.remove(cluster, owner.as_ref()).await;
        }
        let cluster = commit::add_finalizer(&self.clusters, &cluster, CLUSTER_FINALIZER).await?;
        let (vcenter, outcome) = self.connect(&cluster).await?;
        let found = Observed {
            vcenter,
            domains: self.domains(&cluster).await?,
            has_owner: owner.is_some(),
        };
        self.write_status(&cluster, &found).await?;
        Ok(outcome)
    }

    /// Returns whether its vCenter can be used with its credential, and when to check again.
    async fn connect(&self, cluster: &VSphereCluster) -> Result<(VCenter, Outcome), kube::Error> {
        match self.access(cluster).await {
            Ok(Access::Open(session, credential)) => Ok(self.probe(&session, &credential).await),
            Ok(Access::Closed(why, outcome)) => Ok((VCenter::Closed(why), outcome)),
            Err(error) => {
                let (why, outcome) = self.of.unknown_access(error)?;
                Ok((VCenter::Closed(why), outcome))
            }
        }
    }

    async fn access(&self, cluster: &VSphereCluster) -> Result<Access<VCenters>, kube::Error> {
        let namespace = self.of.key.namespace_or_empty();
        let reference = cluster.spec.identity_ref.as_ref();
        if let Some(secret) = reference.filter(|reference| reference.kind == "Secret") {
            self.of
                .depend_on_object::<Secret>(Some(namespace), &secret.name);
            let (secrets, hold) = (self.of.secrets(namespace), cluster_hold(cluster));
            // The decision reports whether the Secret exists and may be held.
            take_hold(&secrets, &hold, &ACCOUNT, &secret.name).await?;
        }
        let bounds = &self.of.context.bounds;
        let question = credentials::cluster_question(bounds, namespace, cluster);
        self.of.access(question).await
    }

    /// Checks whether the vCenter answers. Clusters with the same session share the check.
    async fn probe(
        &self,
        session: &HeldSession<VCenters>,
        credential: &Credential,
    ) -> (VCenter, Outcome) {
        let liveness = &self.of.context.provider.liveness;
        let key = self.of.session_key(credential);
        if liveness.is_check_due(&key, Instant::now()) {
            match session.is_current().await {
                Ok(true) => {}
                Ok(false) | Err(vcenter::Error::NotAuthenticated) => {
                    liveness.forget(&key);
                    session.mark_dead();
                    return (VCenter::Closed(Closed::Opening), Outcome::Progressed);
                }
                Err(error) => {
                    liveness.forget(&key);
                    session.mark_unresponsive();
                    let refusal = Refusal {
                        reason: error.reason(),
                        message: error.to_string(),
                        hint: None,
                    };
                    let outcome = Outcome::Failed(Class::Blocked);
                    return (VCenter::Closed(Closed::Refused(refusal)), outcome);
                }
            }
        }
        let available = VCenter::Available {
            version: session.about().version.clone(),
            source: credential.source.clone(),
        };
        (available, Outcome::Settled(self.of.resync_after()))
    }

    /// Returns the zones that its machines can be placed in.
    async fn domains(&self, cluster: &VSphereCluster) -> Result<Domains, kube::Error> {
        let Some(selector) = &cluster.spec.failure_domain_selector else {
            return Ok(Domains::default());
        };
        let zones = self.of.read_all::<VSphereDeploymentZone>().await?;
        Ok(domains::of(&cluster.spec.server, selector, &zones))
    }

    /// Writes the status, and records an event if the credential or the obstacle has changed.
    async fn write_status(
        &self,
        cluster: &VSphereCluster,
        found: &Observed,
    ) -> Result<(), kube::Error> {
        let after = conclude(cluster, found, Timestamp::now());
        commit::status(&self.clusters, cluster, &after).await?;
        let Some(now) = find_in(&after, VCENTER) else {
            return Ok(());
        };
        let is_available = now.status == "True";
        // The message of a failure may differ with each attempt.
        let is_same = |before: &Condition| {
            let same_message = !is_available || before.message == now.message;
            before.status == now.status && before.reason == now.reason && same_message
        };
        if find_in(cluster, VCENTER).is_some_and(is_same) {
            return Ok(());
        }
        info!(key = %self.of.key, reason = now.reason, "vCenter condition changed");
        let note = NewEvent {
            warning: !is_available,
            reason: &now.reason,
            note: now.message.clone(),
        };
        self.of.record_event(&after, note).await;
        Ok(())
    }
}

/// Returns whether the infrastructure is managed externally. A finalizer of ours on a terminating
/// cluster still has to be removed.
fn is_externally_managed(cluster: &VSphereCluster) -> bool {
    let terminating = cluster.metadata.deletion_timestamp.is_some();
    let needs_cleanup = terminating && commit::has_finalizer(cluster, CLUSTER_FINALIZER);
    cluster.annotations().contains_key(MANAGED_BY) && !needs_cleanup
}
