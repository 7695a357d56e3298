//! Reconciles clusters: resolves their credential, checks their vCenter, and collects the zones
//! for their machines.

mod conclude;
mod domains;
mod remove;

use std::time::{Duration, Instant};

use insula_capi::names::MANAGED_BY;
use insula_capi::{Cluster, owner, paused};
use insula_identity::credential::Credential;
use insula_identity::decide::Refusal;
use insula_identity::session::Unavailable;
use insula_operator::commit;
use insula_operator::condition::find;
use insula_operator::event::NewEvent;
use insula_operator::provider::take_hold;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tracing::{debug, info};

use self::conclude::{Domains, Observed, VCenter, conclude};
use super::condition::VCENTER;
use super::context::Reconciliation;
use super::credentials::{self, ACCOUNT, IDENTITY, cluster_hold};
use crate::kinds::{VSphereCluster, VSphereDeploymentZone};
use crate::names::CLUSTER_FINALIZER;
use crate::vcenter;

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

/// The longest wait for a change that is watched.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many failed requests to the API server are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;

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
            return self.pause(&cluster, &why).await;
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

    async fn pause(&self, cluster: &VSphereCluster, why: &str) -> Result<Outcome, kube::Error> {
        self.of.release_session();
        let mut after = cluster.clone();
        let status = after.status.get_or_insert_default();
        let (generation, now) = (cluster.metadata.generation, Timestamp::now());
        paused::set_condition(&mut status.conditions, Some(why), generation, now);
        commit::status(&self.clusters, cluster, &after).await?;
        Ok(Outcome::Settled(self.of.resync_after()))
    }

    /// Returns whether its vCenter can be used with its credential, and when to check again.
    async fn connect(&self, cluster: &VSphereCluster) -> Result<(VCenter, Outcome), kube::Error> {
        match self.identify(cluster).await {
            Ok(Ok(credential)) => Ok(self.probe(&credential).await),
            Ok(Err(refusal)) => {
                self.of.release_session();
                let waits = Outcome::Waits(self.of.resync_after());
                Ok((VCenter::Refused(refusal), waits))
            }
            Err(error) if self.of.failures < MAX_UNREPORTED_FAILURES => Err(error),
            Err(error) => {
                debug!(key = %self.of.key, %error, "credential resolution failed");
                let outcome = Outcome::Failed(Class::of(&error));
                Ok((VCenter::Unknown(error.to_string()), outcome))
            }
        }
    }

    async fn identify(
        &self,
        cluster: &VSphereCluster,
    ) -> Result<Result<Credential, Refusal>, kube::Error> {
        let namespace = self.of.key.namespace_or_empty();
        let reference = cluster.spec.identity_ref.as_ref();
        if let Some(secret) = reference.filter(|reference| reference.kind == "Secret") {
            self.of
                .depend_on_object::<Secret>(Some(namespace), &secret.name);
            let (secrets, hold) = (self.of.secrets(namespace), cluster_hold(cluster));
            // The decision reports whether the Secret exists and may be held.
            take_hold(&secrets, &hold, &ACCOUNT, &secret.name).await?;
        }
        match credentials::cluster_question(&self.of.context.bounds, namespace, cluster) {
            Ok(question) => self.of.resolve(&question).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Checks whether the vCenter answers. Clusters with the same session share the check.
    async fn probe(&self, credential: &Credential) -> (VCenter, Outcome) {
        let source = credential.source.clone();
        let liveness = &self.of.context.provider.liveness;
        let key = self.of.session_key(credential);
        let session = match self.of.session(credential) {
            Ok(session) => session,
            Err(Unavailable::Wait) => return (VCenter::Checking, Outcome::Waits(MAX_WAIT)),
            Err(Unavailable::Failed { error, retry_after }) => {
                let refusal = credentials::login_refusal(&source, error);
                return (VCenter::Refused(refusal), Outcome::Waits(retry_after));
            }
        };
        if liveness.is_check_due(&key, Instant::now()) {
            match session.is_current().await {
                Ok(true) => {}
                Ok(false) | Err(vcenter::Error::NotAuthenticated) => {
                    liveness.forget(&key);
                    session.mark_dead();
                    return (VCenter::Checking, Outcome::Progressed);
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
                    return (VCenter::Refused(refusal), outcome);
                }
            }
        }
        let version = session.about().version.clone();
        let outcome = Outcome::Settled(self.of.resync_after());
        (VCenter::Available { version, source }, outcome)
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
        let was = vcenter_condition(cluster);
        let Some((is, why, message)) = vcenter_condition(&after) else {
            return Ok(());
        };
        if was.is_some_and(|(before, reason, text)| {
            before == is && reason == why && (!is || text == message)
        }) {
            return Ok(());
        }
        info!(key = %self.of.key, reason = why, "vCenter condition changed");
        let note = NewEvent {
            warning: !is,
            reason: why,
            note: message.to_owned(),
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

/// Returns the status, reason and message of the vCenter condition.
fn vcenter_condition(cluster: &VSphereCluster) -> Option<(bool, &str, &str)> {
    let status = cluster.status.as_ref()?;
    let condition = find(&status.conditions, VCENTER)?;
    Some((
        condition.status == "True",
        &condition.reason,
        &condition.message,
    ))
}
