//! Reconciles virtual machines.

mod act;
mod clone;
mod conclude;
mod metadata;
mod observe;
mod plan;
mod remove;
mod write;

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::owning_cluster::{self, NoCluster, OwningCluster};
use insula_capi::{owner, paused};
use insula_identity::reason::Reason;
use insula_identity::session::HeldSession;
use insula_operator::commit::{self, StatusChange};
use insula_operator::provider::{Access, Closed, MAX_WAIT, full_message};
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::warn;

use self::clone::PrepareError;
pub(super) use self::conclude::PROVISIONED;
use self::conclude::StatusWriter;
use self::observe::observe;
use self::plan::{Found, Problem};
pub(super) use self::plan::{bios_uuid, is_ready, needs_addresses};
use super::condition::reason;
use super::context::Reconciliation;
use super::credentials;
use crate::kinds::{VSphereCluster, VSphereMachine, VSphereVM};
use crate::names::{GROUP, VM_FINALIZER};
use crate::vcenter::{Error, Session, VCenters};

/// How many steps are taken in one reconciliation: a task that ends at once, the BIOS UUID, the
/// metadata and the power-on fit in.
const MAX_STEPS: usize = 8;

/// Reconciles a VSphereVM.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let vms = of.api::<VSphereVM>();
    let Some(vm) = vms.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let family = owning_cluster::read(of, label(&vm)).await?;
    let why = paused::paused(family.cluster.as_ref(), &vm, "VSphereVM");
    if let Some(why) = why {
        return paused::pause(of, &vms, &vm, &why).await;
    }
    let mut reconciler = VmReconciler {
        of,
        vm: StatusChange::new(vms, vm),
    };
    reconciler.status_writer().not_paused();
    reconciler.handle_finalizer(family).await
}

fn label(vm: &VSphereVM) -> Option<&str> {
    vm.labels().get(CLUSTER_LABEL).map(String::as_str)
}

/// The reconciliation of one VSphereVM.
struct VmReconciler<'a> {
    of: &'a Reconciliation<'a>,
    vm: StatusChange<VSphereVM>,
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

impl VmReconciler<'_> {
    /// Adds the finalizer, or removes it at once from a VSphereVM that never reached a vCenter.
    async fn handle_finalizer(
        &mut self,
        family: OwningCluster<VSphereCluster>,
    ) -> Result<Outcome, kube::Error> {
        let held = commit::has_finalizer(&self.vm.object, VM_FINALIZER);
        match (self.is_deleting(), held) {
            (true, false) => {
                // Other finalizers are left, or it is about to disappear.
                self.of.release_session();
                return Ok(Outcome::Waits(self.of.resync_after()));
            }
            (true, true) if !remove::is_started(&self.vm.object) => {
                return self.remove_finalizer().await;
            }
            (false, false) => self.vm.add_finalizer(VM_FINALIZER).await?,
            _ => {}
        }
        match self.cluster(family).await? {
            Ok(cluster) => self.identify(&cluster).await,
            Err(no_cluster) => {
                self.of.release_session();
                self.refuse(&no_cluster.reason, no_cluster.message).await?;
                Ok(Outcome::Waits(MAX_WAIT))
            }
        }
    }

    fn is_deleting(&self) -> bool {
        self.vm.object.metadata.deletion_timestamp.is_some()
    }

    /// Returns the cluster that it belongs to; the label of its machine must agree.
    async fn cluster(
        &self,
        family: OwningCluster<VSphereCluster>,
    ) -> Result<Result<VSphereCluster, NoCluster>, kube::Error> {
        let cluster = match family.infrastructure {
            Ok(cluster) => cluster,
            Err(no_cluster) => return Ok(Err(no_cluster)),
        };
        let vm = &self.vm.object;
        if let Some(secret) = &vm.spec.bootstrap_ref {
            let namespace = self.of.key.namespace.as_deref();
            self.of.depend_on_object::<Secret>(namespace, &secret.name);
        }
        let mismatch = |message| NoCluster::new("OwnerMismatch", message);
        let Some(owner) = owner::of_kind(vm, GROUP, "VSphereMachine") else {
            return Ok(Ok(cluster));
        };
        let Some(machine) = self.of.read::<VSphereMachine>(owner).await? else {
            return Ok(match self.is_deleting() {
                true => Ok(cluster),
                false => Err(mismatch(format!(
                    "there is no VSphereMachine {owner:?}, which owns it"
                ))),
            });
        };
        let theirs = machine.labels().get(CLUSTER_LABEL).map(String::as_str);
        let agrees = theirs.is_none() || theirs == label(vm);
        Ok(match agrees {
            true => Ok(cluster),
            false => Err(mismatch(format!(
                "its label names Cluster {:?}, and that of its VSphereMachine {owner:?} names {:?}",
                label(vm).unwrap_or_default(),
                theirs.unwrap_or_default(),
            ))),
        })
    }

    async fn identify(&mut self, cluster: &VSphereCluster) -> Result<Outcome, kube::Error> {
        let (namespace, machine) = (
            self.of.key.namespace_or_empty(),
            &self.vm.object.spec.machine,
        );
        let bounds = &self.of.context.bounds;
        let question = credentials::machine_question(bounds, namespace, machine, cluster);
        let held = match self.of.access(question).await? {
            Access::Open(held, _) => held,
            Access::Closed(why, outcome) => {
                if let Closed::Refused(refusal) = why {
                    let message = full_message(&refusal);
                    self.refuse(reason(refusal.reason), message).await?;
                } else {
                    self.vm.commit().await?;
                }
                return Ok(outcome);
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
            let observed = observe(session, &self.vm.object).await?;
            if asks {
                self.status_writer().available();
            }
            if let Found::Machine(object, machine) = &observed.found {
                self.status_writer().observed(object, machine);
            }
            let intervals = &self.of.context.provider.intervals;
            let plan = match self.is_deleting() {
                true => remove::plan(&self.vm.object, &observed, intervals),
                false => plan::plan(&self.vm.object, &observed, intervals),
            };
            if let Some(outcome) = self.carry_out(session, &observed, plan).await? {
                return Ok(outcome);
            }
        }
        self.vm.commit().await?;
        Ok(Outcome::Progressed)
    }

    /// Reports why its vCenter cannot be used, and that this blocks a deletion.
    async fn refuse(&mut self, reason: &str, message: String) -> Result<(), kube::Error> {
        if self.is_deleting() {
            let why = format!("it cannot be destroyed: {message}");
            self.status_writer()
                .not_provisioned(&Problem::new("Deleting", why));
        }
        self.status_writer().unavailable(reason, message);
        self.vm.commit().await
    }

    /// Handles a failed step: updates the session and the status.
    async fn fail(
        &mut self,
        held: &HeldSession<VCenters>,
        error: StepError,
    ) -> Result<Outcome, kube::Error> {
        let again = self.of.context.provider.intervals.retry;
        let error = match error {
            StepError::Api(error) => return Err(error),
            StepError::Problem(problem) => {
                self.status_writer().not_provisioned(&problem);
                self.vm.commit().await?;
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
                self.vm.commit().await?;
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
        warn!(vm = %self.of.key, %error, "vCenter call failed");
        Ok(Outcome::Failed(Class::Transient))
    }

    fn status_writer(&mut self) -> StatusWriter<'_> {
        StatusWriter {
            vm: &mut self.vm.object,
            now: Timestamp::now(),
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
