//! Carries out the steps of a remediation. Each is one write, or one write and the time of it.

use std::time::Duration;

use insula_capi::{Machine, remediation};
use insula_operator::commit::has_finalizer;
use insula_operator::condition::seconds;
use insula_operator::read::get_named;
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tracing::info;

use super::backup::Backup;
use super::decide::{Attempts, Phase, Step, Waiting};
use super::family::Family;
use super::host::{HostView, RETRY};
use super::node::NodeAccess;
use super::{Halt, Progress, RemediationReconciler};
use crate::kinds::host::BareMetalHost;
use crate::names::{HOST_UNHEALTHY, REMEDIATION_FINALIZER};
use crate::operator::access::HostAccess;

/// How long a remediation waits before it looks at the node again. Nodes are not watched.
const NODE_INTERVAL: Duration = Duration::from_secs(5);
/// The Bare Metal Operator leaves the host alone.
const HOST_PAUSED: &str = "BareMetalHostPaused";
/// The value of the annotation of an unhealthy host.
const UNHEALTHY: &str = "capm3/UnhealthyNode";

impl RemediationReconciler<'_> {
    /// Carries out a step.
    pub(super) async fn act(
        &mut self,
        step: Step,
        access: &HostAccess,
        host: &HostView,
        node: Option<&NodeAccess>,
    ) -> Progress<Outcome> {
        match step {
            Step::PowerOff => self.power_off(access, host).await?,
            Step::PowerOn => self.power_on(access, host).await?,
            Step::MarkUnhealthy => self.mark_unhealthy(access, host).await?,
            step => return self.act_on_node(step, node).await,
        }
        Ok(Outcome::Progressed)
    }

    /// Carries out a step that the host has no part in.
    pub(super) async fn act_on_node(
        &mut self,
        step: Step,
        node: Option<&NodeAccess>,
    ) -> Progress<Outcome> {
        match step {
            Step::Enter(phase) => self.enter(phase).await?,
            Step::Retry => self.retry().await?,
            Step::AddFinalizer => {
                self.remediation
                    .add_finalizer(REMEDIATION_FINALIZER)
                    .await?;
            }
            Step::HandOver => self.hand_over().await?,
            Step::Finish => return self.release().await,
            Step::Wait(Waiting::HostLeftAlone) => {
                let message = "the host is paused or detached, and is not restarted meanwhile";
                return Err(self.problem(HOST_PAUSED, message));
            }
            Step::Wait(reason) => return Ok(self.wait(reason)),
            step => self.change_node(step, node).await?,
        }
        Ok(Outcome::Progressed)
    }

    async fn change_node(&mut self, step: Step, node: Option<&NodeAccess>) -> Progress<()> {
        let Some(node) = node else {
            return Ok(());
        };
        let backup = Backup::of(&self.remediation.stored);
        let changed = match step {
            Step::Taint => node.taint().await,
            Step::RemoveTaint => node.remove_taint().await,
            Step::DeleteNode => node.delete().await,
            Step::Restore => node.restore(&backup).await,
            Step::BackUp => {
                let fields = node.back_up(&backup).fields();
                let patch = json!({"metadata": {"annotations": fields}});
                return Ok(self.remediation.patch(patch).await?);
            }
            _ => Ok(()),
        };
        changed.map_err(Halt::Workload)
    }

    async fn enter(&mut self, phase: Phase) -> Progress<()> {
        self.write_status(phase, None).await?;
        let name = self.name();
        match phase {
            Phase::Running => {
                let note = format!("the host of machine {name} is switched off");
                self.note("RemediationStarted", note).await;
            }
            Phase::Waiting => {
                let note = format!("the host of machine {name} is switched on again");
                self.note("HostRestarted", note).await;
            }
            Phase::Deleting => {
                let note = "the machine is not healthy after the last restart; its owner replaces \
                            it, and its host is marked as unhealthy";
                self.warn("RemediationFailed", note).await;
            }
            Phase::Failed => {
                let note = "spec.online of the host is false: it is not switched on";
                self.warn("RemediationNotPossible", note).await;
            }
            Phase::New => {}
        }
        Ok(())
    }

    async fn retry(&mut self) -> Progress<()> {
        let retries = Attempts::of(&self.remediation.stored, Timestamp::now()).retries + 1;
        self.write_status(Phase::Running, Some(retries)).await?;
        let note = format!("the machine is not healthy in time; retry {retries}");
        self.warn("RemediationRetried", note).await;
        Ok(())
    }

    async fn write_status(&mut self, phase: Phase, retries: Option<i32>) -> Progress<()> {
        let status = self.remediation.object.status.get_or_insert_default();
        status.phase = Some(phase.as_str().to_owned());
        if let Some(retries) = retries {
            status.retry_count = Some(retries);
        }
        if matches!(phase, Phase::Running | Phase::Waiting) {
            status.last_remediated = Some(seconds(Timestamp::now()));
        }
        self.remediation.commit().await?;
        info!(key = %self.of.key, phase = phase.as_str(), "remediation phase changed");
        Ok(())
    }

    /// Restarts the time of the phase: the credential of the host may have been broken for a
    /// while, and that must not count against the machine.
    async fn restart_time(&mut self) -> Progress<()> {
        let status = self.remediation.object.status.get_or_insert_default();
        status.last_remediated = Some(seconds(Timestamp::now()));
        Ok(self.remediation.commit().await?)
    }

    async fn power_off(&mut self, access: &HostAccess, view: &HostView) -> Progress<()> {
        let mut after = view.host.clone();
        self.request().place(&mut after);
        self.change_host(access, &view.host, &after).await?;
        info!(key = %self.of.key, host = after.name_any(), "restart of host requested");
        self.restart_time().await
    }

    async fn power_on(&mut self, access: &HostAccess, view: &HostView) -> Progress<()> {
        let mut after = view.host.clone();
        self.request().withdraw(&mut after, |uid| view.exists(uid));
        self.change_host(access, &view.host, &after).await?;
        info!(key = %self.of.key, host = after.name_any(), "request to host withdrawn");
        let is_deleted = self
            .remediation
            .stored
            .metadata
            .deletion_timestamp
            .is_some();
        match Phase::of(&self.remediation.stored) {
            Phase::Waiting if !is_deleted => self.restart_time().await,
            _ => Ok(()),
        }
    }

    async fn mark_unhealthy(&self, access: &HostAccess, view: &HostView) -> Progress<()> {
        let mut after = view.host.clone();
        let annotations = after.annotations_mut();
        annotations.insert(HOST_UNHEALTHY.to_owned(), UNHEALTHY.to_owned());
        self.change_host(access, &view.host, &after).await?;
        info!(key = %self.of.key, host = after.name_any(), "host marked as unhealthy");
        Ok(())
    }

    /// Writes the changes of a host in the version in which it was seen to be the machine's.
    async fn change_host(
        &self,
        access: &HostAccess,
        before: &BareMetalHost,
        after: &BareMetalHost,
    ) -> Progress<()> {
        let changed = access.pool.change(before, after).await;
        changed.map(drop).map_err(Halt::Hosts)
    }

    /// Returns whether the owner of the Machine was asked to replace it.
    pub(super) async fn is_handed_over(&self, family: &Family) -> Progress<bool> {
        let Some(machine) = &family.machine else {
            return Ok(true);
        };
        let machine = self.raw_machine(&machine.name_any()).await?;
        Ok(machine.is_none_or(|machine| remediation::is_requested(&machine)))
    }

    /// Asks the owner of the Machine to replace it.
    async fn hand_over(&self) -> Progress<()> {
        let name = insula_capi::owner::machine(&self.remediation.stored);
        let Some(machine) = self.raw_machine(name.unwrap_or_default()).await? else {
            return Ok(());
        };
        let message = "Waiting for remediation: not healthy after its host was restarted";
        let mut patch = remediation::request(&machine, message, Timestamp::now());
        let metadata = &machine["metadata"];
        patch["metadata"] =
            json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        let name = metadata["name"].as_str().unwrap_or_default();
        let parameters = PatchParams::default();
        self.machines()
            .patch_status(name, &parameters, &Patch::Merge(patch))
            .await?;
        info!(key = %self.of.key, "replacement of machine requested");
        Ok(())
    }

    /// Returns a Machine with all of its fields: conditions of others are written with the own one.
    async fn raw_machine(&self, name: &str) -> Progress<Option<Value>> {
        let machine = get_named(&self.machines(), name).await?;
        let machine = machine.map(serde_json::to_value).transpose();
        Ok(machine.map_err(kube::Error::SerdeError)?)
    }

    fn machines(&self) -> Api<DynamicObject> {
        let client = self.of.api::<Machine>().into_client();
        let resource = ApiResource::erase::<Machine>(&());
        Api::namespaced_with(client, self.of.key.namespace_or_empty(), &resource)
    }

    /// Removes what was recorded, and the finalizer: nothing is left to undo.
    async fn release(&mut self) -> Progress<Outcome> {
        let is_deleted = self
            .remediation
            .stored
            .metadata
            .deletion_timestamp
            .is_some();
        let mut finalizers = self.remediation.stored.finalizers().to_vec();
        finalizers.retain(|held| held != REMEDIATION_FINALIZER);
        let metadata = json!({"finalizers": finalizers, "annotations": Backup::cleared()});
        self.remediation
            .patch(json!({ "metadata": metadata }))
            .await?;
        match is_deleted {
            true => {
                self.of.release_session();
                Ok(Outcome::Gone)
            }
            false => Ok(Outcome::Progressed),
        }
    }

    fn wait(&self, reason: Waiting) -> Outcome {
        let left = Attempts::of(&self.remediation.stored, Timestamp::now()).time_left;
        // The phase ends with a new second, as times are stored.
        let left = left + Duration::from_millis(10);
        let is_held = has_finalizer(&self.remediation.stored, REMEDIATION_FINALIZER);
        let interval = match reason {
            Waiting::Drained | Waiting::NodeDeleted | Waiting::Node => NODE_INTERVAL,
            Waiting::Healthy if is_held => NODE_INTERVAL.min(left),
            Waiting::Healthy => left,
            Waiting::Provisioned | Waiting::PoweredOff | Waiting::PoweredOn => RETRY.min(left),
            Waiting::HostLeftAlone | Waiting::Nothing => self.of.resync_after(),
        };
        Outcome::Waits(interval)
    }
}
