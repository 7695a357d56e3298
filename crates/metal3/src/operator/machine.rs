//! Reconciles machines: gives them hosts, provisions these, and releases them.
//!
//! | module | content |
//! |---|---|
//! | `gate` | what a machine needs before it is reconciled |
//! | `access` | the hosts that it may use |
//! | `search` | which host it searches for, and why there is none |
//! | `reuse` | the machines that inherit their hosts from one another |
//! | `associate` | chooses and claims its host |
//! | `pause` | annotations of its host for moves |
//! | `data` | the claim for rendered data, and its result |
//! | `secrets` | the Secrets that the host reads |
//! | `provision` | what the host is to run |
//! | `node` | its node, and its provider ID |
//! | `labels` | labels of its host on its node |
//! | `remove` | releases its host |
//! | `conclude` | its conditions |

mod access;
mod associate;
mod conclude;
mod data;
mod gate;
mod labels;
mod node;
mod pause;
mod provision;
mod remove;
mod reuse;
mod search;
mod secrets;

use std::time::Duration;

use insula_capi::{owner, owning_cluster, paused};
use insula_operator::commit::StatusChange;
use insula_operator::condition::find_in;
use insula_operator::event::NewEvent;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use tracing::info;

pub(crate) use self::conclude::HOST;
use self::conclude::{Report, State, conclude, is_reported};
use self::gate::{Family, Owners};
use super::context::Reconciliation;
use super::host_secret::SecretOwner;
use crate::hosts::consumer::{Consumer, is_owned};
use crate::hosts::proof::{ProofDigest, proof};
use crate::kinds::host::BareMetalHost;
use crate::kinds::machine::{Metal3Machine, Metal3MachineStatus};
use crate::names::{HOST_ANNOTATION, MACHINE_FINALIZER};
use crate::pool::HostPool;

/// How long a machine waits for what no watch may report.
const RETRY: Duration = Duration::from_secs(30);

/// Reconciles a machine.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let machines = of.api::<Metal3Machine>();
    let Some(machine) = machines.get_opt(&of.key.name).await? else {
        of.context.provider.reported.forget(&of.key.text());
        return Ok(Outcome::Gone);
    };
    let owner = match owner::machine(&machine) {
        Some(name) => of.read(name).await?,
        None => None,
    };
    let name = gate::cluster_name(&machine, owner.as_ref());
    let owning = owning_cluster::read(of, name.as_deref()).await?;
    let family = Family {
        machine: owner,
        cluster: owning.cluster,
        infrastructure: owning.infrastructure,
    };
    let mut reconciler = MachineReconciler {
        of,
        machine: StatusChange::new(machines, machine),
        report: Report::default(),
    };
    let machine = &reconciler.machine.stored;
    if let Some(why) = paused::paused(family.cluster.as_ref(), machine, "Metal3Machine") {
        return reconciler.pause(&family, &why).await;
    }
    let outcome = match machine.metadata.deletion_timestamp {
        Some(_) => reconciler.remove(&family).await,
        None => reconciler.provide(&family).await,
    };
    let outcome = match outcome {
        Ok(Outcome::Gone) => return Ok(Outcome::Gone),
        Ok(outcome) | Err(Halt::Stop(outcome)) => outcome,
        Err(Halt::Api(error) | Halt::Hosts(error)) => return Err(error),
    };
    reconciler.commit().await?;
    Ok(outcome)
}

/// The reconciliation of one machine.
struct MachineReconciler<'a> {
    of: &'a Reconciliation<'a>,
    /// The machine. Steps write fields of its status; conditions come from the report.
    machine: StatusChange<Metal3Machine>,
    report: Report,
}

/// Why a reconciliation ends before its last step.
enum Halt {
    /// A request to the operator's own server failed.
    Api(kube::Error),
    /// A request to the server of the hosts failed.
    Hosts(kube::Error),
    /// The machine waits, and the report says what for.
    Stop(Outcome),
}

impl From<kube::Error> for Halt {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

type Step<T> = Result<T, Halt>;

impl MachineReconciler<'_> {
    /// Gives the machine a host, and provisions it.
    async fn provide(&mut self, family: &Family) -> Step<Outcome> {
        let owners = match gate::owners(family) {
            Ok(owners) => owners,
            Err(state) => {
                self.of.release_session();
                self.report.host = Some(state);
                return Err(self.wait_for_events());
            }
        };
        self.copy_failure_domain(&owners).await?;
        let access = self.open(family).await?;
        let provisioned = self.use_hosts(&access.pool, &owners).await;
        let host = self.explain_failure(&access, provisioned)?;
        // Others wait for the session, and the workload cluster may be silent.
        drop(access);
        let done = self.find_node(&owners, &host).await?;
        self.sync_labels(&owners, &host, done).await
    }

    /// Continues with the hosts that the machine may use. Returns its host when that is
    /// provisioned.
    async fn use_hosts(&mut self, pool: &HostPool, owners: &Owners<'_>) -> Step<BareMetalHost> {
        self.machine.add_finalizer(MACHINE_FINALIZER).await?;
        let host = match self.annotation() {
            Some(annotation) => self.own_host(pool, owners, &annotation).await?,
            None => self.associate(pool, owners).await?,
        };
        pool.follow_host(self.of.key.text(), &host.name_any());
        let host = self.take_over(pool, host).await?;
        let message = match is_owned(&host) {
            true => associate::owned(&host),
            false => format!("BareMetalHost {}", host_text(&host)),
        };
        self.report.host = Some(State::new(true, conclude::ASSOCIATED, message));
        let host = self.prepare_for_moves(pool, owners.cluster, host).await?;
        let rendered = self.rendered_data().await?;
        let secrets = self.secrets(pool, owners, &host, &rendered).await?;
        let host = self.provision(pool, host, &secrets).await?;
        self.wait_until_provisioned(&host)?;
        Ok(host)
    }

    async fn copy_failure_domain(&mut self, owners: &Owners<'_>) -> Step<()> {
        let wanted = owners.machine.failure_domain();
        let own = self.machine.stored.spec.failure_domain.as_deref();
        if wanted.is_none() || wanted == own {
            return Ok(());
        }
        let spec = json!({"failureDomain": wanted});
        Ok(self.machine.patch(json!({ "spec": spec })).await?)
    }

    /// Returns the annotation that names its host.
    fn annotation(&self) -> Option<String> {
        let annotations = self.machine.stored.annotations();
        annotations.get(HOST_ANNOTATION).cloned()
    }

    /// Returns the machine as the user of a host.
    fn consumer(&self, pool: &HostPool) -> Consumer {
        let proof = proof(&self.machine.stored);
        super::access::consumer(self.of, pool, &self.of.key.name, proof.as_deref())
    }

    /// Returns the machine as the owner of Secrets next to its host.
    fn secret_owner(&self) -> SecretOwner {
        SecretOwner {
            tenant: self.of.key.space.as_deref().map(str::to_owned),
            namespace: self.of.key.namespace_or_empty().to_owned(),
            name: self.of.key.name.clone(),
            digest: proof(&self.machine.stored).as_deref().map(ProofDigest::of),
        }
    }

    fn status(&mut self) -> &mut Metal3MachineStatus {
        self.machine.object.status.get_or_insert_default()
    }

    /// Ends the reconciliation until something changes that it has read.
    fn wait_for_events(&self) -> Halt {
        Halt::Stop(Outcome::Waits(self.of.resync_after()))
    }

    /// Writes the status, and records events about what has changed.
    async fn commit(&mut self) -> Result<(), kube::Error> {
        let before = self.machine.stored.clone();
        let change = &mut self.machine;
        let now = Timestamp::now();
        conclude(&mut change.object, &change.stored, &self.report, now);
        change.commit().await?;
        let after = &self.machine.stored;
        for kind in conclude::ALL {
            let Some(condition) = find_in(after, kind) else {
                continue;
            };
            if !is_reported(find_in(&before, kind), condition) {
                continue;
            }
            let reason = condition.reason.as_str();
            info!(key = %self.of.key, kind, reason, "condition changed");
            let note = NewEvent {
                warning: condition.status != "True",
                reason,
                note: condition.message.clone(),
            };
            self.of.record_event(after, note).await;
        }
        Ok(())
    }
}

/// Returns namespace and name of a host.
fn host_text(host: &BareMetalHost) -> String {
    let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", host.name_any())
}

/// Returns the reference to a Secret next to a host.
fn beside(name: impl Into<String>, pool: &HostPool) -> SecretReference {
    SecretReference {
        name: Some(name.into()),
        namespace: Some(pool.namespace().to_owned()),
    }
}
