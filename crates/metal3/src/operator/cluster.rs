//! Reconciles clusters: verifies the credential that reaches their hosts, and reports them as
//! provisioned.

mod conclude;

use std::time::Instant;

use insula_capi::names::{CLUSTER_LABEL, MANAGED_BY};
use insula_capi::{Cluster, owner, paused};
use insula_identity::reason::Reason;
use insula_operator::commit::{self, StatusChange};
use insula_operator::condition::find;
use insula_operator::event::NewEvent;
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::ListParams;
use tracing::info;

pub(crate) use self::conclude::INFRASTRUCTURE;
use self::conclude::{Hosts, Observed, conclude};
use super::access::{self, Access, HostAccess, Identity};
use super::context::Reconciliation;
use crate::hosts::labels::SyncedPrefixes;
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::machine::Metal3Machine;
use crate::kubeconfig::{self, reserved_name};
use crate::names::{CLUSTER_FINALIZER, LABEL_SYNC_PREFIXES};

/// Reconciles a cluster.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let clusters = of.api::<Metal3Cluster>();
    let Some(cluster) = clusters.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    if cluster.annotations().contains_key(MANAGED_BY) {
        of.release_session();
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let owner = match owner::cluster(&cluster) {
        Some(name) => of.read::<Cluster>(name).await?,
        None => None,
    };
    if let Some(why) = paused::paused(owner.as_ref(), &cluster, "Metal3Cluster") {
        return paused::pause(of, &clusters, &cluster, &why).await;
    }
    let mut change = StatusChange::new(clusters, cluster);
    if change.stored.metadata.deletion_timestamp.is_some() {
        return remove(of, &change).await;
    }
    change.add_finalizer(CLUSTER_FINALIZER).await?;
    let (hosts, outcome) = verify(of, &change.stored).await?;
    let observed = Observed {
        hosts,
        has_owner: owner.is_some(),
        warnings: invalid_prefixes(&change.stored),
    };
    let before = change.stored.clone();
    change.object = conclude(&change.stored, &observed, Timestamp::now());
    change.commit().await?;
    report(of, &before, &change.stored).await;
    Ok(outcome)
}

/// Returns sentences about the prefixes of labels that are not used.
fn invalid_prefixes(cluster: &Metal3Cluster) -> Vec<String> {
    let listed = cluster.annotations().get(LABEL_SYNC_PREFIXES);
    SyncedPrefixes::warnings(listed.map_or("", String::as_str))
}

/// Verifies the credential of a cluster, if it names one. Machines with a reference of their own
/// verify that one themselves.
async fn verify(
    of: &Reconciliation<'_>,
    cluster: &Metal3Cluster,
) -> Result<(Hosts, Outcome), kube::Error> {
    let settled = Outcome::Settled(of.resync_after());
    let Some(reference) = &cluster.spec.identity_ref else {
        of.release_session();
        return Ok((Hosts::InCluster, settled));
    };
    let identity = Identity {
        own: Some(reference),
        of_cluster: None,
    };
    let (pool, credential) = match access::open(of, identity).await? {
        Access::Open(HostAccess { pool, credential }) => (pool, credential),
        Access::Opening(outcome) => return Ok((Hosts::Verifying, outcome)),
        Access::Closed(problem, outcome) => return Ok((Hosts::Refused(problem), outcome)),
    };
    pool.follow_access(of.key.text());
    let key = of.session_key(&credential);
    let liveness = &of.context.provider.liveness;
    let is_check_due = liveness.is_check_due(&key, Instant::now()) || pool.is_in_doubt();
    if is_check_due && let Err(error) = pool.verify().await {
        liveness.forget(&key);
        let outcome = match error.reason {
            // The next login tells whether the credential is refused for good.
            Reason::InvalidCredentials => {
                pool.mark_dead();
                Outcome::Progressed
            }
            Reason::Unreachable if !error.answered => {
                pool.mark_unresponsive();
                Outcome::Failed(Class::Blocked)
            }
            _ => Outcome::Failed(Class::Blocked),
        };
        return Ok((Hosts::Refused(access::failed(&error)), outcome));
    }
    pool.mark_responsive();
    let access = kubeconfig::HostAccess::of(&credential);
    let mut warnings = Vec::new();
    warnings.extend(
        access
            .as_ref()
            .and_then(kubeconfig::HostAccess::warning)
            .map(str::to_owned),
    );
    warnings.extend(reserved_name(
        &reference.name,
        &owner::cluster_name(cluster),
    ));
    let hosts = Hosts::Verified {
        namespace: pool.namespace().to_owned(),
        server: credential.endpoint.to_string(),
        warnings,
    };
    Ok((hosts, settled))
}

/// Deletes a cluster after its machines.
async fn remove(
    of: &Reconciliation<'_>,
    change: &StatusChange<Metal3Cluster>,
) -> Result<Outcome, kube::Error> {
    let cluster = &change.stored;
    if !commit::has_finalizer(cluster, CLUSTER_FINALIZER) {
        of.release_session();
        return Ok(Outcome::Gone);
    }
    let name = owner::cluster_name(cluster);
    of.depend_on_members(of.key.namespace_or_empty(), &name);
    let machines = of.api::<Metal3Machine>();
    let of_cluster = ListParams::default().labels(&format!("{CLUSTER_LABEL}={name}"));
    let left = machines.list_metadata(&of_cluster.limit(1)).await?;
    if !left.items.is_empty() {
        return Ok(Outcome::Waits(of.resync_after()));
    }
    of.release_session();
    change.remove_finalizer(CLUSTER_FINALIZER).await?;
    info!(key = %of.key, "cluster deleted");
    Ok(Outcome::Gone)
}

/// Records an event if the infrastructure, or the obstacle, has changed.
async fn report(of: &Reconciliation<'_>, before: &Metal3Cluster, after: &Metal3Cluster) {
    let condition = |cluster: &Metal3Cluster| {
        let status = cluster.status.as_ref()?;
        find(&status.conditions, INFRASTRUCTURE).cloned()
    };
    let Some(now) = condition(after) else {
        return;
    };
    let is_same = condition(before).is_some_and(|was| {
        was.status == now.status && was.reason == now.reason && was.message == now.message
    });
    if is_same {
        return;
    }
    info!(key = %of.key, reason = now.reason, "infrastructure condition changed");
    let is_true = now.status == "True";
    let note = NewEvent {
        warning: !is_true || !now.message.is_empty(),
        reason: &now.reason,
        note: now.message.clone(),
    };
    of.record_event(after, note).await;
}
