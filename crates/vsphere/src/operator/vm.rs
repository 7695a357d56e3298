//! Reconciles virtual machines.

mod act;
mod clone;
mod conclude;
mod metadata;
mod observe;
mod plan;
mod remove;
mod write;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_identity::reason::Reason;
use insula_identity::session::{HeldSession, Unavailable};
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tracing::warn;

use self::clone::PrepareError;
pub(super) use self::conclude::PROVISIONED;
use self::conclude::StatusWriter;
use self::observe::observe;
use self::plan::{Found, Problem};
pub(super) use self::plan::{bios_uuid, needs_addresses};
use super::commit;
use super::condition::reason;
use super::context::{Context, Dependency};
use super::key::Key;
use super::owning_cluster::{self, NoCluster, OwningCluster};
use super::paused::paused;
use super::read::get_named;
use super::resolve::{self, Access};
use crate::kinds::{VSphereCluster, VSphereMachine, VSphereVM};
use crate::names::{CLUSTER_LABEL, GROUP, VM_FINALIZER};
use crate::vcenter::{Error, Session, VCenters};

/// How many steps are taken in one reconciliation: a task that ends at once, the BIOS UUID, the
/// metadata and the power-on fit in.
const MAX_STEPS: usize = 8;
/// The longest wait for a change that is watched.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Reconciles a VSphereVM.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    _failures: u32,
) -> Result<Outcome, kube::Error> {
    let mut depends = BTreeSet::new();
    let outcome = run(context, key, &mut depends).await;
    match &outcome {
        Ok(Outcome::Gone) => context.forget(key),
        _ => context.set_dependencies(key, depends),
    }
    outcome
}

async fn run(
    context: &Context,
    key: &Key,
    depends: &mut BTreeSet<Dependency>,
) -> Result<Outcome, kube::Error> {
    let client = context.client(key.space.as_deref());
    let vms: Api<VSphereVM> = Api::namespaced(client, key.namespace_or_empty());
    let Some(vm) = vms.get_opt(&key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let family = owning_cluster::of(context, key, label(&vm), depends).await?;
    let mut reconciliation = Reconciliation {
        context,
        key,
        asker: key.text(),
        vms,
        stored: vm.clone(),
        vm,
    };
    if let Some(why) = paused(family.cluster.as_ref(), &reconciliation.vm, "VSphereVM") {
        context.sessions.release(&reconciliation.asker);
        reconciliation.status_writer().paused(Some(&why));
        reconciliation.commit().await?;
        return Ok(Outcome::Settled(context.resync_after(key)));
    }
    reconciliation.status_writer().paused(None);
    reconciliation.handle_finalizer(family, depends).await
}

fn label(vm: &VSphereVM) -> Option<&str> {
    vm.labels().get(CLUSTER_LABEL).map(String::as_str)
}

/// The reconciliation of one VSphereVM.
struct Reconciliation<'a> {
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
enum StepError {
    Api(kube::Error),
    VCenter(Error),
    Problem(Problem),
}

impl From<kube::Error> for StepError {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::VCenter(error)
    }
}

impl From<PrepareError> for StepError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Problem(problem) => Self::Problem(problem),
            PrepareError::VCenter(error) => Self::VCenter(error),
        }
    }
}

impl Reconciliation<'_> {
    /// Adds the finalizer, or removes it at once from a VSphereVM that never reached a vCenter.
    async fn handle_finalizer(
        &mut self,
        family: OwningCluster,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<Outcome, kube::Error> {
        let is_deleting = self.vm.metadata.deletion_timestamp.is_some();
        let held = commit::has_finalizer(&self.vm, VM_FINALIZER);
        match (is_deleting, held) {
            (true, false) => {
                // Other finalizers are left, or it is about to disappear.
                self.context.sessions.release(&self.asker);
                return Ok(Outcome::Waits(self.context.resync_after(self.key)));
            }
            (true, true) if !remove::is_started(&self.vm) => return self.remove_finalizer().await,
            (false, false) => self.add_finalizer().await?,
            _ => {}
        }
        match self.cluster(family, depends).await? {
            Ok(cluster) => self.identify(&cluster, depends).await,
            Err(no_cluster) => {
                self.context.sessions.release(&self.asker);
                self.refuse(no_cluster.reason, no_cluster.message).await?;
                Ok(Outcome::Waits(MAX_WAIT))
            }
        }
    }

    /// Returns the cluster that it belongs to; the label of its machine must agree.
    async fn cluster(
        &self,
        family: OwningCluster,
        depends: &mut BTreeSet<Dependency>,
    ) -> Result<Result<VSphereCluster, NoCluster>, kube::Error> {
        let cluster = match family.infrastructure {
            Ok(cluster) => cluster,
            Err(no_cluster) => return Ok(Err(no_cluster)),
        };
        if let Some(secret) = &self.vm.spec.bootstrap_ref {
            let on = self.secret(&secret.name);
            self.context.depend_on(self.key, depends, on);
        }
        let mismatch = |message| NoCluster {
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
        let namespace = self.key.namespace_or_empty();
        let on = Dependency::VSphereMachine {
            space: self.key.space.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
        };
        self.context.depend_on(self.key, depends, on);
        let client = self.context.client(self.key.space.as_deref());
        let machines: Api<VSphereMachine> = Api::namespaced(client, namespace);
        let is_deleting = self.vm.metadata.deletion_timestamp.is_some();
        let Some(machine) = get_named(&machines, &owner.name).await? else {
            let name = &owner.name;
            return Ok(match is_deleting {
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
                "its label names Cluster {:?}, and that of its VSphereMachine {:?} names {:?}",
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
        match resolve::for_vm(context, key, &self.vm, cluster, depends).await? {
            Ok(access) => self.with_session(access).await,
            Err(refusal) => {
                context.sessions.release(&self.asker);
                let message = resolve::full_message(&refusal);
                self.refuse(reason(refusal.reason), message).await?;
                Ok(Outcome::Waits(MAX_WAIT))
            }
        }
    }

    async fn with_session(&mut self, access: Access) -> Result<Outcome, kube::Error> {
        let Access {
            credential,
            session,
        } = access;
        let sessions = &self.context.sessions;
        let held = match sessions.get(&self.asker, session, &credential) {
            Ok(held) => held,
            // The session wakes this object when it is open.
            Err(Unavailable::Wait) => {
                self.commit().await?;
                return Ok(Outcome::Waits(MAX_WAIT));
            }
            Err(Unavailable::Failed { error, retry_after }) => {
                let refusal = resolve::login_refusal(&credential.source, error);
                let message = resolve::full_message(&refusal);
                self.refuse(reason(refusal.reason), message).await?;
                return Ok(Outcome::Waits(retry_after));
            }
        };
        match self.take_steps(&held).await {
            Ok(outcome) => {
                held.mark_responsive();
                Ok(outcome)
            }
            Err(error) => self.fail(&held, error).await,
        }
    }

    /// Takes steps for as long as each one makes progress.
    async fn take_steps(&mut self, session: &Session) -> Result<Outcome, StepError> {
        for _ in 0..MAX_STEPS {
            let asks = self.status_writer().status().retry_after.is_none();
            let observed = observe(session, &self.vm).await?;
            if asks {
                self.status_writer().available();
            }
            if let Found::Machine(object, machine) = &observed.found {
                self.status_writer().observed(object, machine);
            }
            let intervals = &self.context.intervals;
            let plan = match self.vm.metadata.deletion_timestamp {
                Some(_) => remove::plan(&self.vm, &observed, intervals),
                None => plan::plan(&self.vm, &observed, intervals),
            };
            if let Some(outcome) = self.carry_out(session, &observed, plan).await? {
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
            self.status_writer()
                .not_provisioned(&Problem::new("Deleting", why));
        }
        self.status_writer().unavailable(reason, message);
        self.commit().await
    }

    /// Handles a failed step: updates the session and the status.
    async fn fail(
        &mut self,
        held: &HeldSession<VCenters>,
        error: StepError,
    ) -> Result<Outcome, kube::Error> {
        let again = self.context.intervals.retry;
        let error = match error {
            StepError::Api(error) => return Err(error),
            StepError::Problem(problem) => {
                self.status_writer().not_provisioned(&problem);
                self.commit().await?;
                return Ok(Outcome::Waits(again));
            }
            StepError::VCenter(error) => error,
        };
        match &error {
            Error::NotAuthenticated => held.mark_dead(),
            // The object changed during the observation, which is repeated.
            Error::Gone(_) => {}
            Error::Fault { fault, .. } if is_transient(fault) => {}
            Error::Fault { .. } => {
                self.status_writer().available();
                // The write of the status triggers a reconciliation; `retry_after` keeps it from
                // asking the vCenter again at once.
                self.status_writer().pause_until(Timestamp::now() + again);
                self.status_writer()
                    .not_provisioned(&Problem::new("TaskFailed", error.to_string()));
                self.commit().await?;
                return Ok(Outcome::Waits(again));
            }
            Error::Unreachable(_) | Error::NotTrusted(_) => {
                held.mark_unresponsive();
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

    fn status_writer(&mut self) -> StatusWriter<'_> {
        StatusWriter {
            vm: &mut self.vm,
            now: Timestamp::now(),
        }
    }

    fn secret(&self, name: &str) -> Dependency {
        Dependency::Secret {
            space: self.key.space.clone(),
            namespace: self.key.namespace_or_empty().to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Returns whether a fault is caused by a concurrent operation.
fn is_transient(fault: &str) -> bool {
    matches!(
        fault,
        "InvalidPowerState" | "TaskInProgress" | "ConcurrentAccess"
    )
}
