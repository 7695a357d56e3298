//! Reconciles virtual machines.

mod act;
mod clone;
mod conclude;
mod keep;
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
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tracing::warn;

use self::clone::Unprepared;
pub(super) use self::conclude::PROVISIONED;
use self::conclude::Telling;
use self::observe::observe;
use self::plan::{Found, Say};
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
use crate::vcenter::{Error, Session, VCenters};

/// How many steps are taken in one reconciliation: a task that ends at once, the BIOS UUID, the
/// metadata and the power-on fit in.
const STEPS: usize = 8;
/// The longest wait for a change that is watched.
const WAITING: Duration = Duration::from_secs(60);

/// Reconciles a VSphereVM.
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

/// The reconciliation of one VSphereVM.
struct Work<'a> {
    context: &'a Context,
    key: &'a Key,
    asker: Arc<str>,
    vms: Api<VSphereVM>,
    /// The VSphereVM as it is stored.
    stored: VSphereVM,
    /// The VSphereVM with its new status.
    vm: VSphereVM,
}

/// Why a step failed.
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
    /// Adds the finalizer, or removes it at once from a VSphereVM that never reached a vCenter.
    async fn hold_or_go(
        &mut self,
        family: Family,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<Outcome, kube::Error> {
        let going = self.vm.metadata.deletion_timestamp.is_some();
        let held = commit::is_held(&self.vm, VM_FINALIZER);
        match (going, held) {
            (true, false) => {
                // Other finalizers are left, or it is about to disappear.
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

    /// Returns the cluster that it belongs to; the label of its machine must agree.
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
            // The session wakes this object when it is open.
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
            Ok(outcome) => {
                held.answered();
                Ok(outcome)
            }
            Err(trouble) => self.fail(&held, trouble).await,
        }
    }

    /// Takes steps for as long as each one makes progress.
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

    /// Reports why its vCenter cannot be used, and that this blocks a deletion.
    async fn refuse(&mut self, reason: &str, message: String) -> Result<(), kube::Error> {
        if self.vm.metadata.deletion_timestamp.is_some() {
            let why = format!("it cannot be destroyed: {message}");
            self.telling().hindered(&Say::new("Deleting", why));
        }
        self.telling().unavailable(reason, message);
        self.commit().await
    }

    /// Handles a failed step: updates the session and the status.
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
            // The object changed during the observation, which is repeated.
            Error::Gone(_) => {}
            Error::Fault { fault, .. } if passes(fault) => {}
            Error::Fault { .. } => {
                self.telling().available();
                // The write of the status triggers a reconciliation; `retry_after` keeps it from
                // asking the vCenter again at once.
                self.telling().pauses(Timestamp::now() + again);
                self.telling()
                    .hindered(&Say::new("TaskFailed", error.to_string()));
                self.commit().await?;
                return Ok(Outcome::Waits(again));
            }
            Error::Unreachable(_) | Error::NotTrusted(_) => {
                held.did_not_answer();
                self.refuse(reason(error.reason()), error.to_string())
                    .await?;
            }
            Error::Unexpected { .. } => {
                self.refuse(reason(Reason::Unreachable), error.to_string())
                    .await?;
            }
        }
        warn!(vm = %self.key, %error, "vCenter call failed");
        Ok(Outcome::Failed(Class::Transient))
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

/// Returns the message of a refusal with its hint.
fn told(refusal: &Refusal) -> String {
    let hint = refusal.hint.as_ref();
    let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
    format!("{}{hint}", refusal.message)
}

/// Returns whether a fault is caused by a concurrent operation.
fn passes(fault: &str) -> bool {
    matches!(
        fault,
        "InvalidPowerState" | "TaskInProgress" | "ConcurrentAccess"
    )
}
