//! Releases the host of a machine that is being deleted.
//!
//! The order is: take everything from the host that it was to run, delete the Secrets next to it,
//! wait until the host is deprovisioned, delete the claim for rendered data, release the host, and
//! remove the finalizer. So the addresses of the claim are free only after the host has stopped
//! using them. While the hosts cannot be reached, the finalizer stays.

use insula_capi::names::CLONED_FROM;
use insula_operator::commit;
use insula_operator::retry::Outcome;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::Value;
use tracing::info;

use super::associate::IN_USE;
use super::associate::{NOT_FOUND, label_credentials, owned};
use super::conclude::{DELETING, State};
use super::data::is_owned;
use super::gate::{Family, cluster_name};
use super::secrets::Content;
use super::{Halt, MachineReconciler, RETRY, Step, host_text};
use crate::hosts::choose::ReuseGroup;
use crate::hosts::consumer::{self, annotated_host};
use crate::hosts::release::{deprovision, is_deprovisioned, release};
use crate::kinds::data_claim::Metal3DataClaim;
use crate::kinds::host::BareMetalHost;
use crate::kinds::machine::Metal3MachineTemplate;
use crate::names::{BLOCK_MOVE, HOST_ANNOTATION, MACHINE_FINALIZER};
use crate::operator::{host_secret, list};
use crate::pool::HostPool;

/// The host would be deleted with the machine.
const OWNED: &str = "BareMetalHostOwnedByMachine";

impl MachineReconciler<'_> {
    /// Releases the host, and removes the finalizer.
    pub(super) async fn remove(&mut self, family: &Family) -> Step<Outcome> {
        if !commit::has_finalizer(&self.machine.stored, MACHINE_FINALIZER) {
            self.of.release_session();
            return Ok(Outcome::Gone);
        }
        let deleting = || Some(State::new(false, DELETING, ""));
        self.report.meta_data = deleting();
        self.report.node = deleting();
        let access = self.open(family).await?;
        let done = self.release_host(&access.pool, family).await;
        self.explain_failure(&access, done)?;
        access.pool.forget(&self.of.key.text());
        self.machine.remove_finalizer(MACHINE_FINALIZER).await?;
        self.of.release_session();
        info!(key = %self.of.key, "machine deleted");
        Ok(Outcome::Gone)
    }

    async fn release_host(&mut self, pool: &HostPool, family: &Family) -> Step<Outcome> {
        let host = match self.claimed_host(pool).await? {
            Some(host) => {
                let host = self.take_over(pool, host).await?;
                if consumer::is_owned(&host) {
                    return Err(self.no_host(OWNED, owned(&host)));
                }
                Some(self.clear(pool, host).await?)
            }
            None => None,
        };
        self.delete_secrets(pool).await?;
        if let Some(host) = host.as_ref().filter(|host| !is_deprovisioned(host)) {
            pool.follow_host(self.of.key.text(), &host.name_any());
            let status = host.status.clone().unwrap_or_default();
            let message = format!(
                "BareMetalHost {} is in state {:?}",
                host_text(host),
                status.provisioning.state
            );
            self.report.host = Some(State::new(false, DELETING, message));
            return Err(Halt::Stop(Outcome::Waits(RETRY)));
        }
        self.delete_claim().await?;
        if let Some(host) = host {
            self.free(pool, family, host).await?;
        }
        Ok(Outcome::Progressed)
    }

    /// Makes the host free, or keeps it for the next machine of the same group.
    async fn free(&self, pool: &HostPool, family: &Family, host: BareMetalHost) -> Step<()> {
        let kept_for = self.next_group(pool, family).await?;
        let owner = family.machine.as_ref();
        let cluster = cluster_name(&self.machine.stored, owner).unwrap_or_default();
        let mut after = host.clone();
        release(&mut after, &cluster, kept_for.as_ref());
        if pool.is_in_cluster() {
            // A free host must not block moves of its namespace.
            after.annotations_mut().remove(BLOCK_MOVE);
            label_credentials(pool, &host, Value::Null).await?;
        }
        self.change_host(pool, &host, &after).await?;
        info!(key = %self.of.key, host = host_text(&host), "host released");
        Ok(())
    }

    /// Returns the host of the machine; none if it does not exist or belongs to another object.
    async fn claimed_host(&mut self, pool: &HostPool) -> Step<Option<BareMetalHost>> {
        let consumer = self.consumer(pool);
        let Some(annotation) = self.annotation() else {
            // The machine may have claimed a host and not recorded it, and the watch may not have
            // seen that yet.
            let (hosts, all) = (pool.hosts(), ListParams::default());
            let found = list::find(&hosts, all, |host| consumer.has(host)).await;
            return found.map_err(Halt::Hosts);
        };
        match annotated_host(&annotation, pool.namespace()) {
            Ok(name) => {
                let host = pool.hosts().get_opt(name).await.map_err(Halt::Hosts)?;
                match host {
                    Some(host) if consumer.has_named(&host) => Ok(Some(host)),
                    // Without the proof, the host may be this machine's or another one's.
                    Some(host) if consumer.is_named_by(&host) => {
                        let message = format!(
                            "BareMetalHost {annotation} names a machine of this name, but not this \
                             one: if it is in use by another one, remove the annotation \
                             {HOST_ANNOTATION} of this machine"
                        );
                        Err(self.no_host(IN_USE, message))
                    }
                    _ => Ok(None),
                }
            }
            Err(error) => {
                let message = format!(
                    "{error} {}, so {annotation:?} cannot be released: restore the machine's \
                     spec.identityRef, or remove its annotation {HOST_ANNOTATION}",
                    pool.namespace()
                );
                Err(self.no_host(NOT_FOUND, message))
            }
        }
    }

    /// Takes from the host what it was to run.
    async fn clear(&mut self, pool: &HostPool, host: BareMetalHost) -> Step<BareMetalHost> {
        let mut after = host.clone();
        deprovision(&mut after, self.of.context.provider.fast_track);
        let cleared = self.change_host(pool, &host, &after).await?;
        if cleared.metadata.resource_version == host.metadata.resource_version {
            return Ok(cleared);
        }
        // Its state may still be that of before.
        let message = format!("BareMetalHost {} is deprovisioned", host_text(&host));
        self.report.host = Some(State::new(false, DELETING, message));
        pool.follow_host(self.of.key.text(), &host.name_any());
        Err(Halt::Stop(Outcome::Progressed))
    }

    /// Deletes the Secrets next to the host that belong to the machine.
    async fn delete_secrets(&mut self, pool: &HostPool) -> Step<()> {
        let status = self.status();
        status.user_data = None;
        status.meta_data = None;
        status.network_data = None;
        if pool.is_in_cluster() {
            return Ok(());
        }
        let (secrets, owner) = (pool.secrets(), self.secret_owner());
        for content in Content::ALL {
            let name = content.secret_name(&owner.name);
            let deleted = host_secret::delete_own(&secrets, &name, &owner).await;
            deleted.map_err(Halt::Hosts)?;
        }
        Ok(())
    }

    /// Deletes the claim for rendered data.
    async fn delete_claim(&mut self) -> Step<()> {
        self.status().rendered_data = None;
        let claims = self.of.api::<Metal3DataClaim>();
        let claim = claims.get_opt(&self.of.key.name).await?;
        let Some(claim) = claim.filter(|claim| is_owned(claim, &self.machine.stored)) else {
            return Ok(());
        };
        if claim.metadata.deletion_timestamp.is_none() {
            commit::delete(&claims, &claim).await?;
        }
        let Some(claim) = claims.get_opt(&self.of.key.name).await? else {
            return Ok(());
        };
        Ok(commit::remove_finalizer(&claims, &claim, MACHINE_FINALIZER).await?)
    }

    /// Returns the machines that the host is kept for, if its template says so and the cluster
    /// remains.
    async fn next_group(&self, pool: &HostPool, family: &Family) -> Step<Option<ReuseGroup>> {
        let (Some(machine), Some(cluster)) = (&family.machine, &family.cluster) else {
            return Ok(None);
        };
        let template = self.machine.stored.annotations().get(CLONED_FROM);
        let Some(template) = template.filter(|_| cluster.metadata.deletion_timestamp.is_none())
        else {
            return Ok(None);
        };
        let templates = self.of.api::<Metal3MachineTemplate>();
        let template = insula_operator::read::get_named(&templates, template).await?;
        match template {
            Some(template) if template.spec.node_reuse => {
                self.reuse_group(pool, machine, cluster).await
            }
            _ => Ok(None),
        }
    }
}
