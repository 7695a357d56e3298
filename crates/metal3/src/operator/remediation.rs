//! Reconciles remediations: restarts the hosts of unhealthy machines.
//!
//! | module | content |
//! |---|---|
//! | `family` | the objects that a remediation is about |
//! | `decide` | what it does next |
//! | `host` | the host of the machine |
//! | `node` | the node of the machine |
//! | `drain` | the taint of a node, and what it evicts |
//! | `backup` | labels and annotations of a node that is deleted |
//! | `act` | carries out the steps |
//! | `report` | events |

mod act;
mod backup;
mod decide;
mod drain;
mod family;
mod host;
mod node;
mod report;

use insula_capi::paused;
use insula_operator::commit::{StatusChange, has_finalizer};
use insula_operator::retry::{Class, Outcome};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::info;

use self::backup::Backup;
use self::decide::{Attempts, HostState, NodeState, Observed, Phase, Step};
use self::family::Family;
use self::host::{Found, HostView};
use self::node::{Detail, NodeAccess};
use super::access::{HostAccess, HostFailure, Problem};
use super::context::Reconciliation;
use crate::kinds::remediation::Metal3Remediation;
use crate::names::REMEDIATION_FINALIZER;

/// Reconciles a remediation.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let remediations = of.api::<Metal3Remediation>();
    let Some(remediation) = remediations.get_opt(&of.key.name).await? else {
        of.context.provider.reported.forget(&of.key.text());
        of.release_session();
        return Ok(Outcome::Gone);
    };
    let family = Family::read(of, &remediation).await?;
    let cluster = family.cluster.as_ref();
    if paused::paused(cluster, &remediation, "Metal3Remediation").is_some() {
        of.release_session();
        return Ok(Outcome::Settled(of.resync_after()));
    }
    let mut reconciler = RemediationReconciler {
        of,
        remediation: StatusChange::new(remediations, remediation),
    };
    let is_deleted = reconciler
        .remediation
        .stored
        .metadata
        .deletion_timestamp
        .is_some();
    let done = match is_deleted {
        true => reconciler.end(&family).await,
        false => reconciler.remediate(&family).await,
    };
    reconciler.finish(done).await
}

/// The reconciliation of one remediation.
struct RemediationReconciler<'a> {
    of: &'a Reconciliation<'a>,
    remediation: StatusChange<Metal3Remediation>,
}

/// Why a reconciliation ends before its last step.
enum Halt {
    /// A request to the operator's own server failed.
    Api(kube::Error),
    /// A request to the server of the hosts failed.
    Hosts(kube::Error),
    /// A request to the workload cluster failed.
    Workload(kube::Error),
    /// The hosts are not accessible yet.
    Stop(Outcome),
    /// Something is in the way.
    Problem(Problem, Outcome),
}

impl From<kube::Error> for Halt {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

type Progress<T> = Result<T, Halt>;

impl RemediationReconciler<'_> {
    /// Does the next step for a machine that is unhealthy.
    async fn remediate(&mut self, family: &Family) -> Progress<Outcome> {
        self.check(family)?;
        if !family.keeps_host() {
            self.of.release_session();
            return Ok(self.rest());
        }
        let access = self.open(family).await?;
        let done = self.use_host(family, &access).await;
        self.explain(&access, done)
    }

    async fn use_host(&mut self, family: &Family, access: &HostAccess) -> Progress<Outcome> {
        let host = self.own_host(family, access).await?;
        if !family.keeps_node() {
            // The machine is being deleted: it is not kept switched off meanwhile.
            return match host.state.has_request {
                true => self.act(Step::PowerOn, access, &host, None).await,
                false => Ok(self.rest()),
            };
        }
        let (known, node) = self.observe(family, &host).await?;
        let step = decide::next(&known);
        self.act(step, access, &host, node.as_ref()).await
    }

    async fn observe(
        &self,
        family: &Family,
        host: &HostView,
    ) -> Progress<(Observed, Option<NodeAccess>)> {
        let phase = Phase::of(&self.remediation.stored);
        let is_held = has_finalizer(&self.remediation.stored, REMEDIATION_FINALIZER);
        let (node, access) = match phase {
            Phase::Running if host.state.is_done => {
                self.observe_node(family, Detail::Workload).await?
            }
            Phase::Waiting | Phase::Deleting | Phase::Failed if is_held => {
                self.observe_node(family, Detail::Node).await?
            }
            // Nothing is done to the node now, and nothing has to be undone.
            _ => (NodeState::None, None),
        };
        let is_handed_over = match phase {
            Phase::Waiting => self.is_handed_over(family).await?,
            _ => false,
        };
        let known = self.observed(host.state, node, is_handed_over);
        Ok((known, access))
    }

    fn observed(&self, host: HostState, node: NodeState, is_handed_over: bool) -> Observed {
        let remediation = &self.remediation.stored;
        Observed {
            phase: Phase::of(remediation),
            attempts: Attempts::of(remediation, Timestamp::now()),
            has_finalizer: has_finalizer(remediation, REMEDIATION_FINALIZER),
            has_backup: !Backup::of(remediation).is_empty(),
            is_handed_over,
            host,
            node,
        }
    }

    /// Undoes what was done to host and node, and lets the remediation go. While the host cannot
    /// be reached, the finalizer stays: it could stay switched off otherwise.
    async fn end(&mut self, family: &Family) -> Progress<Outcome> {
        if !has_finalizer(&self.remediation.stored, REMEDIATION_FINALIZER) {
            self.of.release_session();
            return Ok(Outcome::Gone);
        }
        if !family.keeps_host() {
            return self.end_without_host(family).await;
        }
        let access = self.open(family).await?;
        let done = self.end_with_host(family, &access).await;
        self.explain(&access, done)
    }

    async fn end_with_host(&mut self, family: &Family, access: &HostAccess) -> Progress<Outcome> {
        match self.find_host(family, access).await? {
            Found::Own(host) => {
                let (known, node) = self.observe_end(family, host.state).await?;
                let step = decide::end(&known, self.is_overdue());
                self.act(step, access, &host, node.as_ref()).await
            }
            // It is not the machine's any more, which withdrew all requests when it left.
            Found::Missing | Found::OfAnother => self.end_without_host(family).await,
        }
    }

    async fn end_without_host(&mut self, family: &Family) -> Progress<Outcome> {
        let (known, node) = self.observe_end(family, HostState::default()).await?;
        let step = self.end_step(&known).await;
        self.act_on_node(step, node.as_ref()).await
    }

    async fn end_step(&self, known: &Observed) -> Step {
        let step = decide::end(known, self.is_overdue());
        if step == Step::Finish && decide::end(known, false) != step {
            let note = "its node did not come back in time: labels, annotations or taints of the \
                        node may have to be corrected";
            self.warn("NodeNotRestored", note).await;
        }
        step
    }

    async fn observe_end(
        &self,
        family: &Family,
        host: HostState,
    ) -> Progress<(Observed, Option<NodeAccess>)> {
        let (node, access) = match family.keeps_node() {
            true => self.observe_node(family, Detail::Node).await?,
            // It goes with the machine.
            false => (NodeState::None, None),
        };
        Ok((self.observed(host, node, false), access))
    }

    /// Returns whether the node is waited for no longer.
    fn is_overdue(&self) -> bool {
        let remediation = &self.remediation.stored;
        let Some(deleted) = &remediation.metadata.deletion_timestamp else {
            return false;
        };
        let timeout = decide::timeout(&decide::strategy(remediation));
        Timestamp::now().duration_since(deleted.0).unsigned_abs() > timeout
    }

    /// Ends the reconciliation until something changes that it has read.
    fn rest(&self) -> Outcome {
        Outcome::Waits(self.of.resync_after())
    }

    /// Reports a failed request to the server of the hosts as a problem with the credential.
    fn explain(&self, access: &HostAccess, done: Progress<Outcome>) -> Progress<Outcome> {
        let error = match done {
            Err(Halt::Hosts(error)) => error,
            done => {
                access.pool.mark_responsive();
                return done;
            }
        };
        Err(match access.explain(error) {
            HostFailure::Own(error) => Halt::Api(error),
            HostFailure::Changed(_) => Halt::Stop(Outcome::Failed(Class::Transient)),
            HostFailure::Problem(problem, outcome) => Halt::Problem(problem, outcome),
        })
    }

    /// Reports a problem, and that it is over.
    async fn finish(&self, done: Progress<Outcome>) -> Result<Outcome, kube::Error> {
        let reported = &self.of.context.provider.reported;
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(Halt::Stop(outcome)) => return Ok(outcome),
            Err(Halt::Api(error) | Halt::Hosts(error)) => return Err(error),
            Err(Halt::Workload(error)) => {
                info!(key = %self.of.key, %error, "request to workload cluster failed");
                return Ok(Outcome::Failed(Class::Transient));
            }
            Err(Halt::Problem(problem, outcome)) => {
                if reported.is_new(&self.of.key.text(), problem.reason) {
                    let reason = problem.reason;
                    info!(key = %self.of.key, reason, "remediation delayed");
                    self.warn(reason, problem.message).await;
                }
                return Ok(outcome);
            }
        };
        reported.forget(&self.of.key.text());
        Ok(outcome)
    }

    fn name(&self) -> String {
        self.remediation.stored.name_any()
    }
}
