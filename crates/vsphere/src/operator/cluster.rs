//! Reconciles clusters: resolves their credential, checks their vCenter, and collects the zones
//! for their machines.

mod conclude;
mod domains;
mod remove;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use insula_identity::credential::Source;
use insula_identity::decide::Refusal;
use insula_identity::session::Unavailable;
use insula_operator::event::NewEvent;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, Resource, ResourceExt};
use tracing::{debug, info};

use self::conclude::{Domains, Observed, VCenter, conclude};
use super::claim::claim;
use super::condition::{VCENTER, find};
use super::context::{Context, Dependency};
use super::key::Key;
use super::read::{get_named, list_each, parse};
use super::resolve::{self, Access, cluster_claimant};
use super::{commit, event, paused};
use crate::capi;
use crate::kinds::{VSphereCluster, VSphereDeploymentZone};
use crate::names::{CAPI, CLUSTER_FINALIZER, MANAGED_BY, is_valid_name};
use crate::vcenter;

/// Reconciles a cluster.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    failures: u32,
) -> Result<Outcome, kube::Error> {
    let client = context.client(key.space.as_deref());
    let clusters = Api::namespaced(client.clone(), key.namespace_or_empty());
    let found: Option<VSphereCluster> = clusters.get_opt(&key.name).await?;
    let Some(cluster) = found else {
        context.forget(key);
        return Ok(Outcome::Gone);
    };
    if is_externally_managed(&cluster) {
        context.forget(key);
        return Ok(Outcome::Settled(context.resync_after(key)));
    }
    let mut reconciliation = Reconciliation {
        context,
        key,
        client,
        clusters,
        depends: BTreeSet::new(),
        failures,
    };
    let outcome = reconciliation.run(cluster).await?;
    match outcome {
        Outcome::Gone => context.forget(key),
        _ => context.set_dependencies(key, reconciliation.depends),
    }
    Ok(outcome)
}

/// The longest wait for a change that is watched.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How many failed requests to the API server are retried before a condition reports them.
const MAX_UNREPORTED_FAILURES: u32 = 2;

/// The reconciliation of one cluster.
pub(super) struct Reconciliation<'a> {
    context: &'a Context,
    key: &'a Key,
    client: Client,
    clusters: Api<VSphereCluster>,
    depends: BTreeSet<Dependency>,
    failures: u32,
}

impl Reconciliation<'_> {
    async fn run(&mut self, cluster: VSphereCluster) -> Result<Outcome, kube::Error> {
        self.depend_on_identity(&cluster);
        let owner = self.owner(&cluster).await?;
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

    /// A cluster that references an identity counts as its user, whether it may use it or not.
    fn depend_on_identity(&mut self, cluster: &VSphereCluster) {
        let reference = cluster.spec.identity_ref.as_ref();
        let identity = reference.filter(|reference| {
            reference.kind == "VSphereClusterIdentity" && is_valid_name(&reference.name)
        });
        if let Some(identity) = identity {
            let on = Dependency::Identity {
                space: self.key.space.clone(),
                name: identity.name.clone(),
            };
            self.context.depend_on(self.key, &mut self.depends, on);
        }
    }

    /// Returns the Cluster that owns it.
    async fn owner(
        &mut self,
        cluster: &VSphereCluster,
    ) -> Result<Option<capi::Cluster>, kube::Error> {
        let Some(name) = owner_of(cluster) else {
            return Ok(None);
        };
        let on = Dependency::Owner {
            space: self.key.space.clone(),
            namespace: self.key.namespace_or_empty().to_owned(),
            name: name.to_owned(),
        };
        self.context.depend_on(self.key, &mut self.depends, on);
        let owners: Api<capi::Cluster> =
            Api::namespaced(self.client.clone(), self.key.namespace_or_empty());
        get_named(&owners, name).await
    }

    async fn pause(&self, cluster: &VSphereCluster, why: &str) -> Result<Outcome, kube::Error> {
        self.context.sessions.release(&self.key.text());
        let mut after = cluster.clone();
        let status = after.status.get_or_insert_default();
        let generation = cluster.metadata.generation;
        paused::set_condition(
            &mut status.conditions,
            Some(why),
            generation,
            Timestamp::now(),
        );
        commit::status(&self.clusters, cluster, &after).await?;
        Ok(Outcome::Settled(self.context.resync_after(self.key)))
    }

    /// Returns whether its vCenter can be used with its credential, and when to check again.
    async fn connect(
        &mut self,
        cluster: &VSphereCluster,
    ) -> Result<(VCenter, Outcome), kube::Error> {
        let waits = Outcome::Waits(self.context.resync_after(self.key));
        match self.identify(cluster).await {
            Ok(Ok(access)) => Ok(self.probe(access).await),
            Ok(Err(refusal)) => {
                self.context.sessions.release(&self.key.text());
                Ok((VCenter::Refused(refusal), waits))
            }
            Err(error) if self.failures < MAX_UNREPORTED_FAILURES => Err(error),
            Err(error) => {
                debug!(key = %self.key, %error, "credential resolution failed");
                let outcome = Outcome::Failed(Class::of(&error));
                Ok((VCenter::Unknown(error.to_string()), outcome))
            }
        }
    }

    async fn identify(
        &mut self,
        cluster: &VSphereCluster,
    ) -> Result<Result<Access, Refusal>, kube::Error> {
        let reference = cluster.spec.identity_ref.as_ref();
        if let Some(secret) = reference.filter(|reference| reference.kind == "Secret") {
            let on = Dependency::Secret {
                space: self.key.space.clone(),
                namespace: self.key.namespace_or_empty().to_owned(),
                name: secret.name.clone(),
            };
            self.context.depend_on(self.key, &mut self.depends, on);
            // The decision reports whether the Secret exists and may be claimed.
            claim(&self.secrets(), &cluster_claimant(cluster), &secret.name).await?;
        }
        resolve::for_cluster(self.context, self.key, cluster, &mut self.depends).await
    }

    /// Checks whether the vCenter answers. Clusters with the same session share the check.
    async fn probe(&self, access: Access) -> (VCenter, Outcome) {
        let context = self.context;
        let source = access.credential.source.clone();
        let (asker, key) = (self.key.text(), access.session);
        let session = match context
            .sessions
            .get(&asker, key.clone(), &access.credential)
        {
            Ok(session) => session,
            Err(Unavailable::Wait) => return (VCenter::Checking, Outcome::Waits(MAX_WAIT)),
            Err(Unavailable::Failed { error, retry_after }) => {
                let refusal = resolve::login_refusal(&source, error);
                return (VCenter::Refused(refusal), Outcome::Waits(retry_after));
            }
        };
        if context.liveness.is_check_due(&key, Instant::now()) {
            match session.is_current().await {
                Ok(true) => {}
                Ok(false) | Err(vcenter::Error::NotAuthenticated) => {
                    context.liveness.forget(&key);
                    session.mark_dead();
                    return (VCenter::Checking, Outcome::Progressed);
                }
                Err(error) => {
                    context.liveness.forget(&key);
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
        let outcome = Outcome::Settled(context.resync_after(self.key));
        (VCenter::Available { version, source }, outcome)
    }

    /// Returns the zones that its machines can be placed in.
    async fn domains(&mut self, cluster: &VSphereCluster) -> Result<Domains, kube::Error> {
        let Some(selector) = &cluster.spec.failure_domain_selector else {
            return Ok(Domains::default());
        };
        let space = self.key.space.clone();
        let on = Dependency::Zones { space };
        self.context.depend_on(self.key, &mut self.depends, on);
        let zones = list_each::<VSphereDeploymentZone, _>(&self.client, parse).await?;
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
        info!(key = %self.key, reason = why, "vCenter condition changed");
        let note = NewEvent {
            warning: !is,
            reason: why,
            note: message.to_owned(),
        };
        event::record(self.context, self.key, &after, note).await;
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.key.namespace_or_empty())
    }
}

/// Returns whether the infrastructure is managed externally. A finalizer of ours on a terminating
/// cluster still has to be removed.
fn is_externally_managed(cluster: &VSphereCluster) -> bool {
    let terminating = cluster.metadata.deletion_timestamp.is_some();
    let needs_cleanup = terminating && commit::has_finalizer(cluster, CLUSTER_FINALIZER);
    cluster.annotations().contains_key(MANAGED_BY) && !needs_cleanup
}

/// Returns the name of the Cluster that owns an object.
pub(super) fn owner_of(object: &impl Resource) -> Option<&str> {
    let owners = object.meta().owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| {
        let group = owner.api_version.split('/').next().unwrap_or_default();
        owner.kind == "Cluster" && group == CAPI
    });
    owner.map(|owner| owner.name.as_str())
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

/// Describes the source of a credential in conditions.
fn describe_source(source: &Source) -> String {
    match source {
        Source::Secret { name, .. } => format!("with the credentials of Secret {name}"),
        Source::Identity { name, .. } => {
            format!("with the credentials of VSphereClusterIdentity {name}")
        }
        Source::Operator => "with the credentials of the operator".to_owned(),
    }
}
