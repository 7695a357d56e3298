//! Chooses and claims the host of a machine.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use insula_capi::bootstrap;
use insula_capi::names::CLUSTER_LABEL;
use insula_operator::retry::{Class, Outcome};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tracing::info;

use super::conclude::{FAILED, State};
use super::gate::Owners;
use super::search::{no_host, search};
use super::{Halt, MachineReconciler, RETRY, Step, host_text};
use crate::hosts::choose::{Choice, Search, choose, is_free};
use crate::hosts::claim::claim;
use crate::hosts::consumer::{annotated_host, host_annotation, remove_owners};
use crate::hosts::proof::proof;
use crate::kinds::host::BareMetalHost;
use crate::names::{CLAIM_ANNOTATION, HOST_ANNOTATION, NODE_REUSE};
use crate::pool::HostPool;

/// The version of machines in references of hosts.
pub(super) const VERSION: &str = "v1beta2";
/// How many hosts are tried that others claim at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Its host does not exist, or cannot be reached as it is annotated.
pub(super) const NOT_FOUND: &str = "BareMetalHostNotFound";
/// Its host is used by another object.
pub(super) const IN_USE: &str = "BareMetalHostInUse";

impl MachineReconciler<'_> {
    /// Returns the host that the annotation names. If there is none, the machine gets no other
    /// one: it may only be out of reach, as after its identityRef was lost.
    pub(super) async fn own_host(
        &mut self,
        pool: &HostPool,
        owners: &Owners<'_>,
        annotation: &str,
    ) -> Step<BareMetalHost> {
        let name = match annotated_host(annotation, pool.namespace()) {
            Ok(name) => name,
            Err(error) => {
                let message = lost(annotation, &error.to_string(), pool.namespace());
                return Err(self.no_host(NOT_FOUND, message));
            }
        };
        pool.follow_host(self.of.key.text(), name);
        let Some(host) = pool.hosts().get_opt(name).await.map_err(Halt::Hosts)? else {
            let message = lost(annotation, "it does not exist", pool.namespace());
            return Err(self.no_host(NOT_FOUND, message));
        };
        let consumer = self.consumer(pool);
        match &host.spec.consumer_ref {
            Some(_) if consumer.has_named(&host) => self.confirm(pool, host).await,
            Some(_) => {
                let message = format!("BareMetalHost {annotation} is used by another object");
                Err(self.no_host(IN_USE, message))
            }
            // A provisioned machine takes its host again, whatever state it is in.
            None if self.is_provisioned() || is_free(&host) => {
                self.record_identity(owners).await?;
                self.claim(pool, owners, &host).await
            }
            None => {
                let message = format!(
                    "BareMetalHost {annotation} is not available, or marked as unhealthy or paused"
                );
                Err(self.no_host(FAILED, message))
            }
        }
    }

    /// Removes the machine from the owners of its host, if Metal3's own provider added it. A server
    /// may refuse that to accounts that cannot delete hosts; then the host stays as it is.
    pub(super) async fn take_over(
        &self,
        pool: &HostPool,
        host: BareMetalHost,
    ) -> Step<BareMetalHost> {
        let mut after = host.clone();
        remove_owners(&mut after);
        match self.change_host(pool, &host, &after).await {
            Err(Halt::Hosts(kube::Error::Api(status))) if status.code == 403 => Ok(host),
            done => done,
        }
    }

    /// Chooses a host, claims it, and records it in an annotation. The host comes first: if the
    /// annotation is not written, the claim tells at the next reconciliation.
    pub(super) async fn associate(
        &mut self,
        pool: &HostPool,
        owners: &Owners<'_>,
    ) -> Step<BareMetalHost> {
        if let Some((reason, message)) = bootstrap::wait_reason(owners.cluster, owners.machine) {
            self.report.host = Some(State::new(false, reason, message));
            return Err(self.wait_for_events());
        }
        let host = self.choose_and_claim(pool, owners).await?;
        if pool.is_in_cluster() {
            let label = json!(owners.machine.spec.cluster_name);
            label_credentials(pool, &host, label).await?;
        }
        let annotation = host_annotation(pool.namespace(), &host.name_any());
        let mut annotations = json!({ HOST_ANNOTATION: annotation });
        if !pool.is_in_cluster() {
            annotations[CLAIM_ANNOTATION] = json!(proof(&self.machine.stored));
        }
        let patch = json!({"metadata": {"annotations": annotations}});
        self.machine.patch(patch).await?;
        info!(key = %self.of.key, host = annotation, "host associated");
        Ok(host)
    }

    /// Brings the annotations of a machine and its host up to date that tell the machine from
    /// others of the same name: they differ after a move to another tenant, or if a former version
    /// has claimed the host.
    async fn confirm(&mut self, pool: &HostPool, host: BareMetalHost) -> Step<BareMetalHost> {
        let is_recorded = self
            .machine
            .stored
            .annotations()
            .contains_key(CLAIM_ANNOTATION);
        if !pool.is_in_cluster() && !is_recorded {
            let proof = proof(&self.machine.stored);
            let patch = json!({"metadata": {"annotations": { CLAIM_ANNOTATION: proof }}});
            self.machine.patch(patch).await?;
        }
        let mut after = host.clone();
        self.consumer(pool).mark(&mut after);
        self.change_host(pool, &host, &after).await
    }

    async fn choose_and_claim(
        &mut self,
        pool: &HostPool,
        owners: &Owners<'_>,
    ) -> Step<BareMetalHost> {
        let _claiming = pool.claiming().await;
        for _ in 0..MAX_ATTEMPTS {
            let hosts = pool.seen();
            let search = self.search(pool, owners, &hosts).await?;
            let candidates = hosts.iter().map(|host| &**host);
            let choice = choose(candidates.clone(), &search, &mut random);
            let (name, is_claimed) = match choice {
                Choice::Claimed(host) => (host.name_any(), true),
                Choice::Reused(host) | Choice::Free(host) => match self.is_provisioned() {
                    true => return Err(self.lost_host()),
                    false => {
                        self.record_identity(owners).await?;
                        match self.try_claim(pool, owners, host).await? {
                            Some(host) => return Ok(host),
                            None => (host.name_any(), false),
                        }
                    }
                },
                Choice::NotYet(host) => {
                    let message =
                        format!("waits for host {}, which is kept for it", host_text(host));
                    return Err(self.wait_for_host(pool, search, message));
                }
                Choice::None if self.is_provisioned() => return Err(self.lost_host()),
                Choice::None => {
                    let message = no_host(candidates, &search, pool.namespace());
                    return Err(self.wait_for_host(pool, search, message));
                }
            };
            // What the watch saw is out of date, or has to be confirmed.
            match pool.hosts().get_opt(&name).await.map_err(Halt::Hosts)? {
                Some(host) if is_claimed && search.machine.has(&host) => return Ok(host),
                Some(host) => pool.remember(host),
                None => pool.forget_host(&name),
            }
        }
        Err(Halt::Stop(Outcome::Failed(Class::Transient)))
    }

    /// Records the reference of the cluster that counts, before a host is claimed: a later change
    /// of it must not lead away from the host.
    async fn record_identity(&mut self, owners: &Owners<'_>) -> Step<()> {
        let inherited = owners.infrastructure.spec.identity_ref.as_ref();
        let (None, Some(inherited)) = (&self.machine.stored.spec.identity_ref, inherited) else {
            return Ok(());
        };
        let patch = json!({"spec": {"identityRef": inherited}});
        Ok(self.machine.patch(patch).await?)
    }

    /// Claims a host that is free. Returns none if it has changed since it was seen.
    async fn try_claim(
        &self,
        pool: &HostPool,
        owners: &Owners<'_>,
        host: &BareMetalHost,
    ) -> Step<Option<BareMetalHost>> {
        match self.claim(pool, owners, host).await {
            Ok(host) => Ok(Some(host)),
            Err(Halt::Hosts(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Ok(None)
            }
            Err(halt) => Err(halt),
        }
    }

    async fn claim(
        &self,
        pool: &HostPool,
        owners: &Owners<'_>,
        host: &BareMetalHost,
    ) -> Step<BareMetalHost> {
        let mut after = host.clone();
        let cluster = &owners.machine.spec.cluster_name;
        claim(&mut after, &self.consumer(pool), VERSION, cluster);
        self.change_host(pool, host, &after).await
    }

    /// Writes the changes of a host, if it has not changed since it was read.
    pub(super) async fn change_host(
        &self,
        pool: &HostPool,
        before: &BareMetalHost,
        after: &BareMetalHost,
    ) -> Step<BareMetalHost> {
        pool.change(before, after).await.map_err(Halt::Hosts)
    }

    async fn search(
        &mut self,
        pool: &HostPool,
        owners: &Owners<'_>,
        hosts: &[Arc<BareMetalHost>],
    ) -> Step<Search> {
        let is_kept = |host: &Arc<BareMetalHost>| host.labels().contains_key(NODE_REUSE);
        let reuse = match hosts.iter().any(is_kept) {
            true => {
                self.reuse_group(pool, owners.machine, owners.cluster)
                    .await?
            }
            false => None,
        };
        match search(&self.machine.stored, self.consumer(pool), reuse) {
            Ok(search) => Ok(search),
            Err(error) => {
                self.report.host = Some(State::new(false, FAILED, error.to_string()));
                Err(self.wait_for_events())
            }
        }
    }

    fn wait_for_host(&mut self, pool: &HostPool, search: Search, message: String) -> Halt {
        pool.wait_for_host(self.of.key.text(), move |host| {
            !matches!(
                choose([host], &search, &mut |_| 0),
                Choice::None | Choice::NotYet(_)
            )
        });
        self.report.host = Some(State::new(false, FAILED, message));
        Halt::Stop(Outcome::Waits(RETRY))
    }

    /// Returns whether the machine had a host: it must not get a second one.
    fn is_provisioned(&self) -> bool {
        let id = self.machine.stored.spec.provider_id.as_deref();
        id.is_some_and(|id| !id.is_empty())
    }

    fn lost_host(&mut self) -> Halt {
        let id = self.machine.stored.spec.provider_id.as_deref();
        let message = format!(
            "no host has this machine as its consumer, but the machine is provisioned as {}: it \
             gets no other host; restore its annotation {HOST_ANNOTATION}, or delete it",
            id.unwrap_or_default()
        );
        self.no_host(NOT_FOUND, message)
    }

    pub(super) fn no_host(&mut self, reason: &'static str, message: String) -> Halt {
        self.report.host = Some(State::new(false, reason, message));
        Halt::Stop(Outcome::Waits(RETRY))
    }
}

/// Returns the message about a host that has a machine as its owner.
pub(super) fn owned(host: &BareMetalHost) -> String {
    format!(
        "BareMetalHost {} would be deleted with the machine, which is in its \
         metadata.ownerReferences: remove it there",
        host_text(host)
    )
}

/// Returns the message about a host that cannot be found.
pub(super) fn lost(annotation: &str, why: &str, namespace: &str) -> String {
    format!(
        "BareMetalHost {annotation} is not found among the hosts of namespace {namespace} ({why}); \
         the machine gets no other host: restore its spec.identityRef or the host, or delete the \
         machine"
    )
}

/// Sets the label with the cluster on the credentials of a host's management controller, or
/// removes it, so that they move with the cluster.
pub(super) async fn label_credentials(
    pool: &HostPool,
    host: &BareMetalHost,
    label: Value,
) -> Step<()> {
    let controller = host.spec.bmc.as_ref();
    let name = controller.map(|controller| controller.credentials_name.as_str());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": { CLUSTER_LABEL: label }}}));
    let secrets = pool.secrets();
    match secrets
        .patch_metadata(name, &PatchParams::default(), &patch)
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        patched => patched.map(drop).map_err(Halt::Hosts),
    }
}

/// Returns a random number below a limit.
fn random(limit: usize) -> usize {
    let number = RandomState::new().hash_one(());
    usize::try_from(number % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or_default()
}
