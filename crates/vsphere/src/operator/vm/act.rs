//! Carries out one step of the plan.

use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use tracing::info;

use super::clone::{Start, prepare};
use super::metadata;
use super::plan::{Act, Plan, Say, Seen};
use super::{Trouble, Work};
use crate::operator::read::named;
use crate::vcenter::{Error, Object, Session, Task};

/// Annotation of a VSphereVM with more than one clone attempt: the outcome of the first one is
/// unknown, however the last one ends.
const UNHEARD: &str = "vsphere.insula.dev/clone-unheard";

impl Work<'_> {
    /// Carries out a step. Returns the outcome if the reconciliation ends with it. A started task
    /// is recorded at once; if the operator is stopped before, its result is found by observation.
    pub(super) async fn carry_out(
        &mut self,
        session: &Session,
        seen: &Seen,
        plan: Plan,
    ) -> Result<Option<Outcome>, Trouble> {
        if let Some(say) = &plan.say {
            self.telling().hindered(say);
        }
        let pace = self.context.pace;
        let task = match plan.act {
            Act::Wait(pause) => {
                self.commit().await?;
                return Ok(Some(Outcome::Waits(pause)));
            }
            Act::Forget => {
                self.forget(seen);
                return Ok(None);
            }
            Act::Begin => {
                self.begin(seen);
                return Ok(None);
            }
            Act::Pause => {
                self.is_over(seen);
                self.telling().pauses(seen.now + pace.again);
                self.commit().await?;
                return Ok(Some(Outcome::Waits(pace.again)));
            }
            Act::Identify(uuid) => {
                self.note_uuid(&uuid).await?;
                return Ok(None);
            }
            Act::ShutDown(vm) => {
                self.shut_down(session, &vm, &plan.say).await?;
                return Ok(Some(Outcome::Waits(pace.tasks)));
            }
            Act::ShutDownAgain(vm) => {
                self.telling().pauses(seen.now + pace.again);
                self.shut_down(session, &vm, &plan.say).await?;
                return Ok(Some(Outcome::Waits(pace.again)));
            }
            Act::LetGo => return Ok(Some(self.let_go().await?)),
            Act::Nothing => {
                self.telling().provisioned();
                self.commit().await?;
                return Ok(Some(Outcome::Settled(self.context.anyway(self.key))));
            }
            Act::Clone => self.clone(session).await?,
            Act::Describe(vm, text) => describe(session, &vm, text).await?,
            Act::PowerOn(vm) => session.power_on(&vm).await?,
            Act::PowerOff(vm) => self.commit_then(session.power_off(&vm)).await?,
            Act::Destroy(vm) => self.commit_then(session.destroy(&vm)).await?,
        };
        self.telling().status().task_ref = Some(task.id);
        self.commit().await?;
        Ok(Some(Outcome::Waits(pace.tasks)))
    }

    /// Writes the status before a task of a deletion: a failure of the task counts from then on.
    pub(super) async fn commit_then(
        &mut self,
        task: impl Future<Output = Result<Object, Error>>,
    ) -> Result<Object, Trouble> {
        self.commit().await?;
        Ok(task.await?)
    }

    /// Clears a completed task and records the virtual machine that it created.
    pub(super) fn forget(&mut self, seen: &Seen) {
        let mut telling = self.telling();
        let status = telling.status();
        status.task_ref = None;
        if let Some(Task::Done(Some(made))) = &seen.task
            && made.kind == "VirtualMachine"
        {
            status.vm_ref = Some(format!("{}:{}", made.kind, made.id));
        }
    }

    /// Ends a pause: a running task is awaited again, and a failed one is retried.
    pub(super) fn begin(&mut self, seen: &Seen) {
        self.is_over(seen);
        self.telling().status().retry_after = None;
    }

    /// Clears a failed task. A failed clone did not create anything, with two exceptions: after
    /// `DuplicateName` the name may belong to an earlier clone, and an earlier clone with an
    /// unknown outcome may still appear.
    pub(super) fn is_over(&mut self, seen: &Seen) {
        let Some(Task::Failed { fault, .. }) = &seen.task else {
            return;
        };
        let unheard = self.vm.annotations().contains_key(UNHEARD);
        let mut telling = self.telling();
        let status = telling.status();
        status.task_ref = None;
        if fault != "DuplicateName" && !unheard && status.vm_ref.is_none() {
            status.clone_mode = None;
        }
    }

    /// Records that a clone is about to start, and starts it. A VSphereVM without this record was
    /// never cloned.
    pub(super) async fn clone(&mut self, session: &Session) -> Result<Object, Trouble> {
        let start = self.start().await?;
        let prepared = prepare(session, &self.vm, &start).await?;
        if self.telling().status().clone_mode.is_some() {
            self.annotate(UNHEARD, "true").await?;
        }
        let mode = Some(prepared.mode.to_owned());
        let before = std::mem::replace(&mut self.telling().status().clone_mode, mode);
        self.commit().await?;
        let started = session.clone_vm(&prepared.template, &prepared.clone).await;
        if let Err(Error::Fault { .. } | Error::NotAuthenticated | Error::Gone(_)) = &started {
            self.telling().status().clone_mode = before;
            self.commit().await?;
        }
        let task = started?;
        info!(vm = %self.key, task = task.id, mode = prepared.mode, "clone started");
        Ok(task)
    }

    /// Reads the bootstrap data.
    pub(super) async fn start(&self) -> Result<Start, Trouble> {
        let Some(reference) = &self.vm.spec.bootstrap_ref else {
            return Ok(Start::default());
        };
        let namespace = self.key.place();
        let client = self.context.client(self.key.space.as_deref());
        let secrets: Api<Secret> = Api::namespaced(client, namespace);
        let name = &reference.name;
        let Some(secret) = named(&secrets, name).await? else {
            let message = format!("there is no Secret {name:?}");
            return Err(Trouble::Say(Say::new("WaitingForBootstrapData", message)));
        };
        Start::of(name, &secret.data.unwrap_or_default()).map_err(Trouble::Say)
    }

    /// Records the time of the request, and asks the guest to shut down.
    pub(super) async fn shut_down(
        &mut self,
        session: &Session,
        vm: &Object,
        say: &Option<Say>,
    ) -> Result<(), Trouble> {
        let message = say.as_ref().map_or("", |say| say.message.as_str());
        self.telling().soft("InProgress", message);
        self.commit().await?;
        Ok(session.shut_down_guest(vm).await?)
    }
}

async fn describe(session: &Session, vm: &Object, metadata: String) -> Result<Object, Error> {
    let encoding = format!("{}.encoding", metadata::KEY);
    let extra = [
        (metadata::KEY.to_owned(), metadata),
        (encoding, "base64".to_owned()),
    ];
    session.set_extra(vm, &extra).await
}
