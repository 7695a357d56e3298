//! The steps for one virtual machine; read it top to bottom.

mod clone;
mod conclude;
mod metadata;
mod observe;
mod plan;
mod remove;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_identity::decide::Refusal;
use insula_identity::reason::Reason;
use insula_identity::session::{Held, NotNow};
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tracing::{info, warn};

use self::clone::{Start, Unprepared, prepare};
pub(super) use self::conclude::PROVISIONED;
use self::conclude::Telling;
use self::observe::observe;
use self::plan::{Act, Found, Plan, Say, Seen};
pub(super) use self::plan::{bios_uuid, needs_addresses};
use super::commit;
use super::condition::reason;
use super::context::{Context, Dependency};
use super::family::{self, Family, Stray};
use super::identify::{self, Access};
use super::key::Key;
use super::paused::paused;
use super::read::named;
use crate::kinds::{VSphereCluster, VSphereMachine, VSphereVM};
use crate::names::{CLUSTER_LABEL, GROUP, VM_FINALIZER};
use crate::vcenter::{Error, Object, Session, Task, VCenters};

/// How many steps are made without a pause: a task that is over at once, its BIOS UUID, what
/// it is told, and its start.
const STEPS: usize = 8;
/// The annotation of a VSphereVM that was begun to be cloned more than once: what became of
/// the first is not known, however the last one ends.
const UNHEARD: &str = "vsphere.insula.dev/clone-unheard";
/// How often is looked at what waits for something that will be seen.
const WAITING: Duration = Duration::from_secs(60);

/// All steps for one virtual machine.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    _failures: u32,
) -> Result<Outcome, kube::Error> {
    let mut depends = BTreeSet::new();
    let worked = work(context, key, &mut depends).await;
    match &worked {
        Ok(Outcome::Gone) => context.forget(key),
        _ => context.settle(key, depends),
    }
    worked
}

async fn work(
    context: &Context,
    key: &Key,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Outcome, kube::Error> {
    let client = context.client(key.space.as_deref());
    let vms: Api<VSphereVM> = Api::namespaced(client, key.place());
    let Some(vm) = vms.get_opt(&key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let family = family::of(context, key, label(&vm), depends).await?;
    let mut work = Work {
        context,
        key,
        asker: key.text(),
        vms,
        stored: vm.clone(),
        vm,
    };
    if let Some(why) = paused(family.cluster.as_ref(), &work.vm, "VSphereVM") {
        context.sessions.release(&work.asker);
        work.telling().paused(Some(&why));
        work.commit().await?;
        return Ok(Outcome::Settled(context.anyway(key)));
    }
    work.telling().paused(None);
    work.hold_or_go(family, depends).await
}

fn label(vm: &VSphereVM) -> Option<&str> {
    vm.labels().get(CLUSTER_LABEL).map(String::as_str)
}

/// The work on one virtual machine.
struct Work<'a> {
    context: &'a Context,
    key: &'a Key,
    asker: Arc<str>,
    vms: Api<VSphereVM>,
    /// As the server has it.
    stored: VSphereVM,
    /// As it is to be.
    vm: VSphereVM,
}

/// What came in between.
enum Trouble {
    Server(kube::Error),
    VCenter(Error),
    Say(Say),
}

impl From<kube::Error> for Trouble {
    fn from(error: kube::Error) -> Self {
        Self::Server(error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::VCenter(error)
    }
}

impl From<Unprepared> for Trouble {
    fn from(unprepared: Unprepared) -> Self {
        match unprepared {
            Unprepared::Say(say) => Self::Say(say),
            Unprepared::VCenter(error) => Self::VCenter(error),
        }
    }
}

impl Work<'_> {
    /// What never reached a vCenter goes without one.
    async fn hold_or_go(
        &mut self,
        family: Family,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<Outcome, kube::Error> {
        let going = self.vm.metadata.deletion_timestamp.is_some();
        let held = commit::is_held(&self.vm, VM_FINALIZER);
        match (going, held) {
            (true, false) => {
                // Others hold it, or it goes this moment.
                self.context.sessions.release(&self.asker);
                return Ok(Outcome::Waits(self.context.anyway(self.key)));
            }
            (true, true) if !remove::is_begun(&self.vm) => return self.let_go().await,
            (false, false) => self.hold().await?,
            _ => {}
        }
        match self.cluster(family, depends).await? {
            Ok(cluster) => self.identify(&cluster, depends).await,
            Err(stray) => {
                self.context.sessions.release(&self.asker);
                self.refuse(stray.reason, stray.message).await?;
                Ok(Outcome::Waits(WAITING))
            }
        }
    }

    /// The cluster that it belongs to; its machine must say the same.
    async fn cluster(
        &self,
        family: Family,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<Result<VSphereCluster, Stray>, kube::Error> {
        let cluster = match family.infrastructure {
            Ok(cluster) => cluster,
            Err(stray) => return Ok(Err(stray)),
        };
        if let Some(secret) = &self.vm.spec.bootstrap_ref {
            let on = self.secret(&secret.name);
            self.context.note(self.key, depends, on);
        }
        let mismatch = |message| Stray {
            reason: "OwnerMismatch",
            message,
        };
        let owners = self.vm.owner_references().iter();
        let owner = owners.into_iter().find(|owner| {
            let group = owner.api_version.split('/').next();
            owner.kind == "VSphereMachine" && group == Some(GROUP)
        });
        let Some(owner) = owner else {
            return Ok(Ok(cluster));
        };
        let namespace = self.key.place();
        let on = Dependency::VSphereMachine {
            space: self.key.space.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
        };
        self.context.note(self.key, depends, on);
        let client = self.context.client(self.key.space.as_deref());
        let machines: Api<VSphereMachine> = Api::namespaced(client, namespace);
        let going = self.vm.metadata.deletion_timestamp.is_some();
        let Some(machine) = named(&machines, &owner.name).await? else {
            let name = &owner.name;
            return Ok(match going {
                true => Ok(cluster),
                false => Err(mismatch(format!(
                    "there is no VSphereMachine {name:?}, which owns it"
                ))),
            });
        };
        let theirs = machine.labels().get(CLUSTER_LABEL).map(String::as_str);
        let agrees = theirs.is_none() || theirs == label(&self.vm);
        Ok(match agrees {
            true => Ok(cluster),
            false => Err(mismatch(format!(
                "it says that it belongs to Cluster {:?}, and its VSphereMachine {:?} says {:?}",
                label(&self.vm).unwrap_or_default(),
                owner.name,
                theirs.unwrap_or_default(),
            ))),
        })
    }

    async fn identify(
        &mut self,
        cluster: &VSphereCluster,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<Outcome, kube::Error> {
        let (context, key) = (self.context, self.key);
        match identify::of_vm(context, key, &self.vm, cluster, depends).await? {
            Ok(access) => self.enter(access).await,
            Err(refusal) => {
                context.sessions.release(&self.asker);
                let message = told(&refusal);
                self.refuse(reason(refusal.reason), message).await?;
                Ok(Outcome::Waits(WAITING))
            }
        }
    }

    async fn enter(&mut self, access: Access) -> Result<Outcome, kube::Error> {
        let Access {
            credential,
            session,
        } = access;
        let sessions = &self.context.sessions;
        let held = match sessions.get(&self.asker, session, &credential) {
            Ok(held) => held,
            // Whoever waits is woken.
            Err(NotNow::Wait) => {
                self.commit().await?;
                return Ok(Outcome::Waits(WAITING));
            }
            Err(NotNow::Failed { error, again_in }) => {
                let refusal = identify::not_opened(&credential.source, error);
                let message = identify::sentence(&refusal);
                self.refuse(reason(refusal.reason), message).await?;
                return Ok(Outcome::Waits(again_in));
            }
        };
        match self.go_on(&held).await {
            Ok(outcome) => Ok(outcome),
            Err(trouble) => self.fail(&held, trouble).await,
        }
    }

    /// Goes on for as long as that leads somewhere.
    async fn go_on(&mut self, session: &Session) -> Result<Outcome, Trouble> {
        for _ in 0..STEPS {
            let asks = self.telling().status().retry_after.is_none();
            let seen = observe(session, &self.vm).await?;
            if asks {
                self.telling().available();
            }
            if let Found::Machine(object, machine) = &seen.found {
                self.telling().seen(object, machine);
            }
            let pace = &self.context.pace;
            let plan = match self.vm.metadata.deletion_timestamp {
                Some(_) => remove::plan(&self.vm, &seen, pace),
                None => plan::plan(&self.vm, &seen, pace),
            };
            if let Some(outcome) = self.carry_out(session, &seen, plan).await? {
                return Ok(outcome);
            }
        }
        self.commit().await?;
        Ok(Outcome::Progressed)
    }

    /// Makes a step, and says if that is all for now. What is begun in the vCenter is noted
    /// at once; what is not noted, as somebody ended us before, is found again.
    async fn carry_out(
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

    /// What is done to one that goes is said before: a task that fails from then on matters.
    async fn commit_then(
        &mut self,
        task: impl Future<Output = Result<Object, Error>>,
    ) -> Result<Object, Trouble> {
        self.commit().await?;
        Ok(task.await?)
    }

    /// A task is over; what it made is noted.
    fn forget(&mut self, seen: &Seen) {
        let mut telling = self.telling();
        let status = telling.status();
        status.task_ref = None;
        if let Some(Task::Done(Some(made))) = &seen.task
            && made.kind == "VirtualMachine"
        {
            status.vm_ref = Some(format!("{}:{}", made.kind, made.id));
        }
    }

    /// What was paused goes on: with a task that still runs, or with what one that failed was
    /// for.
    fn begin(&mut self, seen: &Seen) {
        self.is_over(seen);
        self.telling().status().retry_after = None;
    }

    /// A task that failed is over, and a clone that failed was not made. One whose name is
    /// taken may be, by the one before; and if nothing was heard of the one before, that one
    /// may still be.
    fn is_over(&mut self, seen: &Seen) {
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

    /// Notes that it is about to be cloned, and clones it: what goes without this note was
    /// never made.
    async fn clone(&mut self, session: &Session) -> Result<Object, Trouble> {
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
        info!(vm = %self.key, task = task.id, mode = prepared.mode, "is being cloned");
        Ok(task)
    }

    /// What it starts with.
    async fn start(&self) -> Result<Start, Trouble> {
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

    /// Since when is noted before its guest is asked.
    async fn shut_down(
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

    async fn annotate(&mut self, name: &str, value: &str) -> Result<(), kube::Error> {
        let annotations = json!({"annotations": {name: value}});
        let stored = commit::metadata(&self.vms, &self.stored, annotations).await?;
        self.adopt(stored);
        Ok(())
    }

    /// Into its spec: from then on it is found by it, or not at all. What is there stays.
    async fn note_uuid(&mut self, uuid: &str) -> Result<(), kube::Error> {
        let version = self.stored.metadata.resource_version.clone();
        let mark = metadata::mark(&self.vm);
        let mark = mark.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let patch = json!({
            "metadata": {"resourceVersion": version, "annotations": {metadata::MARK: mark}},
            "spec": {"biosUUID": bios_uuid(&self.vm).unwrap_or(uuid)},
        });
        let patched = self
            .vms
            .patch(
                &self.key.name,
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await?;
        self.adopt(patched);
        Ok(())
    }

    /// What the server has now; what is not written yet stays to be written.
    fn adopt(&mut self, stored: VSphereVM) {
        let status = self.vm.status.take();
        self.vm = VSphereVM {
            status,
            ..stored.clone()
        };
        self.stored = stored;
    }

    async fn hold(&mut self) -> Result<(), kube::Error> {
        let held = commit::hold(&self.vms, &self.stored, VM_FINALIZER).await?;
        self.adopt(held);
        Ok(())
    }

    async fn let_go(&mut self) -> Result<Outcome, kube::Error> {
        self.context.sessions.release(&self.asker);
        commit::let_go(&self.vms, &self.stored, VM_FINALIZER).await?;
        info!(vm = %self.key, "is gone");
        Ok(Outcome::Gone)
    }

    /// Says why its vCenter cannot be used; while it goes, that this is why it does not.
    async fn refuse(&mut self, reason: &str, message: String) -> Result<(), kube::Error> {
        if self.vm.metadata.deletion_timestamp.is_some() {
            let why = format!("it cannot be destroyed: {message}");
            self.telling().hindered(&Say::new("Deleting", why));
        }
        self.telling().unavailable(reason, message);
        self.commit().await
    }

    /// What became of a session, and what is said.
    async fn fail(
        &mut self,
        held: &Held<VCenters>,
        trouble: Trouble,
    ) -> Result<Outcome, kube::Error> {
        let again = self.context.pace.again;
        let error = match trouble {
            Trouble::Server(error) => return Err(error),
            Trouble::Say(say) => {
                self.telling().hindered(&say);
                self.commit().await?;
                return Ok(Outcome::Waits(again));
            }
            Trouble::VCenter(error) => error,
        };
        match &error {
            Error::NotAuthenticated => held.is_dead(),
            // Something changed while we looked: we look again.
            Error::Gone(_) => {}
            Error::Fault { fault, .. } if passes(fault) => {}
            Error::Fault { .. } => {
                self.telling().available();
                // What is written calls for work again, and the vCenter is not asked as often.
                self.telling().pauses(Timestamp::now() + again);
                self.telling()
                    .hindered(&Say::new("TaskFailed", error.to_string()));
                self.commit().await?;
                return Ok(Outcome::Waits(again));
            }
            Error::Unreachable(_) => {
                held.did_not_answer();
                self.refuse(reason(Reason::Unreachable), error.to_string())
                    .await?;
            }
            Error::Unexpected { .. } => {
                self.refuse(reason(Reason::Unreachable), error.to_string())
                    .await?;
            }
        }
        warn!(vm = %self.key, %error, "did not get on");
        Ok(Outcome::Failed(Class::Transient))
    }

    async fn commit(&mut self) -> Result<(), kube::Error> {
        if commit::status(&self.vms, &self.stored, &self.vm).await? {
            let stored = self.vms.get(&self.key.name).await?;
            self.adopt(stored);
        }
        Ok(())
    }

    fn telling(&mut self) -> Telling<'_> {
        Telling {
            vm: &mut self.vm,
            now: Timestamp::now(),
        }
    }

    fn secret(&self, name: &str) -> Dependency {
        Dependency::Secret {
            space: self.key.space.clone(),
            namespace: self.key.place().to_owned(),
            name: name.to_owned(),
        }
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

/// A refusal in words.
fn told(refusal: &Refusal) -> String {
    let hint = refusal.hint.as_ref();
    let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
    format!("{}{hint}", refusal.message)
}

/// Whether a fault is about what somebody does at this moment.
fn passes(fault: &str) -> bool {
    matches!(
        fault,
        "InvalidPowerState" | "TaskInProgress" | "ConcurrentAccess"
    )
}
