//! Carries out one step of the plan.

use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use tracing::info;

use super::clone::{BootstrapData, prepare};
use super::metadata;
use super::plan::{Observed, Plan, Problem, Step};
use super::{StepError, VmReconciler};
use crate::vcenter::{Error, Object, Session, Task};

/// Annotation of a VSphereVM with more than one clone attempt: the outcome of the first one is
/// unknown, however the last one ends.
const UNKNOWN_CLONE: &str = "vsphere.insula.dev/clone-unheard";

impl VmReconciler<'_> {
    /// Carries out a step. Returns the outcome if the reconciliation ends with it. A started task
    /// is recorded at once; if the operator is stopped before, its result is found by observation.
    pub(super) async fn carry_out(
        &mut self,
        session: &Session,
        observed: &Observed,
        plan: Plan,
    ) -> Result<Option<Outcome>, StepError> {
        if let Some(problem) = &plan.problem {
            self.status_writer().not_provisioned(problem);
        }
        let intervals = self.of.context.provider.intervals;
        let task = match plan.step {
            Step::Wait(pause) => {
                self.vm.commit().await?;
                return Ok(Some(Outcome::Waits(pause)));
            }
            Step::ClearTask => {
                self.clear_task(observed);
                return Ok(None);
            }
            Step::EndPause => {
                self.end_pause(observed);
                return Ok(None);
            }
            Step::Pause => {
                self.clear_failed_task(observed);
                self.status_writer()
                    .pause_until(observed.now + intervals.retry);
                self.vm.commit().await?;
                return Ok(Some(Outcome::Waits(intervals.retry)));
            }
            Step::RecordUuid(uuid) => {
                self.record_uuid(&uuid).await?;
                return Ok(None);
            }
            Step::ShutDown(vm) => {
                self.shut_down(session, &vm, &plan.problem).await?;
                return Ok(Some(Outcome::Waits(intervals.tasks)));
            }
            Step::ShutDownAgain(vm) => {
                self.status_writer()
                    .pause_until(observed.now + intervals.retry);
                self.shut_down(session, &vm, &plan.problem).await?;
                return Ok(Some(Outcome::Waits(intervals.retry)));
            }
            Step::RemoveFinalizer => return Ok(Some(self.remove_finalizer().await?)),
            Step::Done => {
                self.status_writer().provisioned();
                self.vm.commit().await?;
                return Ok(Some(Outcome::Settled(self.of.resync_after())));
            }
            Step::Clone => self.clone(session).await?,
            Step::WriteMetadata(vm, text) => describe(session, &vm, text).await?,
            Step::PowerOn(vm) => session.power_on(&vm).await?,
            Step::PowerOff(vm) => self.commit_before(session.power_off(&vm)).await?,
            Step::Destroy(vm) => self.commit_before(session.destroy(&vm)).await?,
        };
        self.status_writer().status().task_ref = Some(task.id);
        self.vm.commit().await?;
        Ok(Some(Outcome::Waits(intervals.tasks)))
    }

    /// Writes the status before a task of a deletion: a failure of the task counts from then on.
    pub(super) async fn commit_before(
        &mut self,
        task: impl Future<Output = Result<Object, Error>>,
    ) -> Result<Object, StepError> {
        self.vm.commit().await?;
        Ok(task.await?)
    }

    /// Clears a completed task and records the virtual machine that it created.
    pub(super) fn clear_task(&mut self, observed: &Observed) {
        let mut status_writer = self.status_writer();
        let status = status_writer.status();
        status.task_ref = None;
        if let Some(Task::Done(Some(made))) = &observed.task
            && made.kind == "VirtualMachine"
        {
            status.vm_ref = Some(format!("{}:{}", made.kind, made.id));
        }
    }

    /// Ends a pause: a running task is awaited again, and a failed one is retried.
    pub(super) fn end_pause(&mut self, observed: &Observed) {
        self.clear_failed_task(observed);
        self.status_writer().status().retry_after = None;
    }

    /// Clears a failed task. A failed clone did not create anything, with two exceptions: after
    /// `DuplicateName` the name may belong to an earlier clone, and an earlier clone with an
    /// unknown outcome may still appear.
    pub(super) fn clear_failed_task(&mut self, observed: &Observed) {
        let Some(Task::Failed { fault, .. }) = &observed.task else {
            return;
        };
        let unknown = self.vm.object.annotations().contains_key(UNKNOWN_CLONE);
        let mut status_writer = self.status_writer();
        let status = status_writer.status();
        status.task_ref = None;
        if fault != "DuplicateName" && !unknown && status.vm_ref.is_none() {
            status.clone_mode = None;
        }
    }

    /// Records that a clone is about to start, and starts it. A VSphereVM without this record was
    /// never cloned.
    pub(super) async fn clone(&mut self, session: &Session) -> Result<Object, StepError> {
        let start = self.bootstrap_data().await?;
        let prepared = prepare(session, &self.vm.object, &start).await?;
        if self.status_writer().status().clone_mode.is_some() {
            self.annotate(UNKNOWN_CLONE, "true").await?;
        }
        let mode = Some(prepared.mode.to_owned());
        let before = std::mem::replace(&mut self.status_writer().status().clone_mode, mode);
        self.vm.commit().await?;
        let started = session.clone_vm(&prepared.template, &prepared.clone).await;
        if let Err(Error::Fault { .. } | Error::NotAuthenticated | Error::Gone(_)) = &started {
            self.status_writer().status().clone_mode = before;
            self.vm.commit().await?;
        }
        let task = started?;
        info!(vm = %self.of.key, task = task.id, mode = prepared.mode, "clone started");
        Ok(task)
    }

    /// Reads the bootstrap data.
    pub(super) async fn bootstrap_data(&self) -> Result<BootstrapData, StepError> {
        let Some(reference) = &self.vm.object.spec.bootstrap_ref else {
            return Ok(BootstrapData::default());
        };
        let name = &reference.name;
        let Some(secret) = self.of.read::<Secret>(name).await? else {
            let message = format!("there is no Secret {name:?}");
            return Err(StepError::Problem(Problem::new(
                "WaitingForBootstrapData",
                message,
            )));
        };
        BootstrapData::of(name, &secret.data.unwrap_or_default()).map_err(StepError::Problem)
    }

    /// Records the time of the request, and asks the guest to shut down.
    pub(super) async fn shut_down(
        &mut self,
        session: &Session,
        vm: &Object,
        problem: &Option<Problem>,
    ) -> Result<(), StepError> {
        let message = problem
            .as_ref()
            .map_or("", |problem| problem.message.as_str());
        self.status_writer().shutdown("InProgress", message);
        self.vm.commit().await?;
        Ok(session.shut_down_guest(vm).await?)
    }
}

async fn describe(session: &Session, vm: &Object, metadata: String) -> Result<Object, Error> {
    let encoding = format!("{}.encoding", metadata::KEY);
    let extra = [
        (metadata::KEY.to_owned(), metadata),
        (encoding, "base64".to_owned()),
    ];
    session.set_extra_config(vm, &extra).await
}
