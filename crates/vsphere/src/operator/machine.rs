//! Reconciles machines.

mod conclude;
mod desired;

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::owning_cluster::{self, OwningCluster};
use insula_capi::{Machine, ProviderId, owner, paused};
use insula_operator::commit::{self, StatusChange};
use insula_operator::condition::find_in;
use insula_operator::provider::MAX_WAIT;
use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tracing::info;

use self::conclude::StatusWriter;
use self::desired::{Inputs, Zone, changes, is_owned};
use super::condition::reason;
use super::context::Reconciliation;
use super::credentials::endpoint;
use super::vm::{bios_uuid, is_ready};
use crate::kinds::{
    VSphereCluster, VSphereDeploymentZone, VSphereFailureDomain, VSphereMachine, VSphereVM,
};
use crate::names::MACHINE_FINALIZER;

/// The scheme of provider IDs.
const SCHEME: &str = "vsphere";

/// Reconciles a machine.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let machines = of.api::<VSphereMachine>();
    let Some(machine) = machines.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let owner = match owner::machine(&machine) {
        Some(name) => of.read::<Machine>(name).await?,
        None => None,
    };
    let named = cluster_name(&machine, owner.as_ref());
    let family = owning_cluster::read(of, named.as_deref()).await?;
    let why = paused::paused(family.cluster.as_ref(), &machine, "VSphereMachine");
    if let Some(why) = why {
        return paused::pause(of, &machines, &machine, &why).await;
    }
    let mut reconciler = MachineReconciler {
        of,
        machine: StatusChange::new(machines, machine),
    };
    reconciler.status_writer().not_paused();
    match reconciler.machine.stored.metadata.deletion_timestamp {
        Some(_) => reconciler.remove(named.as_deref()).await,
        None => reconciler.provision(owner, family).await,
    }
}

/// Returns the cluster name of its Machine, or that of its own label.
fn cluster_name(machine: &VSphereMachine, owner: Option<&Machine>) -> Option<String> {
    let named = owner.map(|owner| owner.spec.cluster_name.clone());
    let labelled = || machine.labels().get(CLUSTER_LABEL).cloned();
    named.filter(|name| !name.is_empty()).or_else(labelled)
}

/// The reconciliation of one machine.
struct MachineReconciler<'a> {
    of: &'a Reconciliation<'a>,
    machine: StatusChange<VSphereMachine>,
}

/// Why a machine cannot be provisioned.
struct Problem {
    reason: &'static str,
    message: String,
}

impl MachineReconciler<'_> {
    /// Creates its VSphereVM, or copies the state of the existing one.
    async fn provision(
        &mut self,
        owner: Option<Machine>,
        family: OwningCluster<VSphereCluster>,
    ) -> Result<Outcome, kube::Error> {
        self.machine.add_finalizer(MACHINE_FINALIZER).await?;
        let Some(owner) = owner else {
            let message = "no Machine owns it yet";
            return self.wait("MachineNotFound", message).await;
        };
        let (cluster, infrastructure) = match (family.cluster, family.infrastructure) {
            (Some(cluster), Ok(infrastructure)) => (cluster, infrastructure),
            (_, Err(no_cluster)) => {
                return self.wait(&no_cluster.reason, &no_cluster.message).await;
            }
            (None, Ok(_)) => return self.wait("ClusterNotFound", "there is no Cluster").await,
        };
        let machine = self.machine.object.clone();
        let inputs = Inputs {
            machine: &machine,
            owner: &owner,
            cluster: &cluster,
            infrastructure: &infrastructure,
        };
        let name = match inputs.name() {
            Ok(name) => name,
            Err(error) => return self.wait("NotProvisioned", &error.to_string()).await,
        };
        let clash = match self.find(Some(&name), Some(&cluster.name_any())).await? {
            VmSearch::Owned(vm) => return self.mirror_vm(*vm, inputs.zone()).await,
            VmSearch::Foreign => true,
            VmSearch::NotFound => false,
        };
        if self.has_provider_id() {
            let message = "its virtual machine is gone, and is not created again";
            return self.wait("NotProvisioned", message).await;
        }
        if let Some((reason, message)) = inputs.wait_reason() {
            return self.wait(reason, message).await;
        }
        if clash {
            let message = format!("VSphereVM {name:?} exists and does not belong to this machine");
            return self.wait("NameTaken", &message).await;
        }
        match self.zone(&inputs).await? {
            Err(problem) => self.wait(problem.reason, &problem.message).await,
            Ok(zone) => {
                let vm = inputs.vm(&name, zone.as_ref());
                self.create(vm, inputs.zone()).await
            }
        }
    }

    /// Returns whether it has been provisioned: its virtual machine must not be replaced.
    fn has_provider_id(&self) -> bool {
        let id = self.machine.stored.spec.provider_id.as_deref();
        id.is_some_and(|id| !id.is_empty())
    }

    async fn create(&mut self, vm: VSphereVM, zone: Option<&str>) -> Result<Outcome, kube::Error> {
        let name = vm.name_any();
        let vms = self.of.api::<VSphereVM>();
        let made = vms.create(&PostParams::default(), &vm).await?;
        info!(machine = %self.of.key, vm = name, "VSphereVM created");
        self.mirror_vm(made, zone).await
    }

    /// Updates its VSphereVM, and copies its state to the machine.
    async fn mirror_vm(
        &mut self,
        vm: VSphereVM,
        zone: Option<&str>,
    ) -> Result<Outcome, kube::Error> {
        if let Some(changes) = changes(&self.machine.object, &vm, zone) {
            commit::patch(&self.of.api(), &vm, json!({"spec": changes})).await?;
        }
        self.record_provider_id(&vm).await?;
        self.status_writer().mirror(&vm);
        self.machine.commit().await?;
        Ok(match is_ready(&vm) {
            true => Outcome::Settled(self.of.resync_after()),
            false => Outcome::Waits(MAX_WAIT),
        })
    }

    /// Records the BIOS UUID as `providerID`, once.
    async fn record_provider_id(&mut self, vm: &VSphereVM) -> Result<(), kube::Error> {
        let uuid = bios_uuid(vm).filter(|_| !self.has_provider_id());
        let id = uuid.and_then(|uuid| ProviderId::new(SCHEME, uuid).ok());
        match id {
            Some(id) => {
                let spec = json!({"providerID": id.to_string()});
                self.machine.patch(json!({"spec": spec})).await
            }
            None => Ok(()),
        }
    }

    /// Deletes its VSphereVM, and removes the finalizer when that is gone.
    async fn remove(&mut self, cluster: Option<&str>) -> Result<Outcome, kube::Error> {
        if !commit::has_finalizer(&self.machine.stored, MACHINE_FINALIZER) {
            return Ok(Outcome::Waits(self.of.resync_after()));
        }
        let vm = match self.find(None, cluster).await? {
            VmSearch::Owned(vm) => vm,
            _ => {
                self.machine.remove_finalizer(MACHINE_FINALIZER).await?;
                info!(machine = %self.of.key, "machine deleted");
                return Ok(Outcome::Gone);
            }
        };
        if vm.metadata.deletion_timestamp.is_none() {
            commit::delete(&self.of.api(), &*vm).await?;
        }
        let condition = find_in(&*vm, super::vm::PROVISIONED);
        let message = condition.filter(|condition| condition.reason == "Deleting");
        let message = message.map(|condition| condition.message.as_str());
        let message = message.unwrap_or("its virtual machine is being deleted");
        self.wait("Deleting", message).await
    }

    /// Finds its VSphereVM by name, or among all of its cluster: the name of one that was moved
    /// here may have been derived from another UID.
    async fn find(
        &self,
        name: Option<&str>,
        cluster: Option<&str>,
    ) -> Result<VmSearch, kube::Error> {
        let mut others = false;
        if let Some(name) = name {
            match self.of.read::<VSphereVM>(name).await? {
                Some(vm) if is_owned(&vm, &self.machine.stored) => {
                    return Ok(VmSearch::Owned(Box::new(vm)));
                }
                there => others = there.is_some(),
            }
        }
        let vms = self.of.api::<VSphereVM>();
        let mut parameters = ListParams::default();
        if let Some(cluster) = cluster {
            parameters = parameters.labels(&format!("{CLUSTER_LABEL}={cluster}"));
        }
        let listed = vms.list(&parameters).await?;
        let ours = listed
            .items
            .into_iter()
            .find(|vm| is_owned(vm, &self.machine.stored));
        Ok(match ours {
            Some(vm) => {
                let namespace = self.of.key.namespace.as_deref();
                self.of
                    .depend_on_object::<VSphereVM>(namespace, &vm.name_any());
                VmSearch::Owned(Box::new(vm))
            }
            None if others => VmSearch::Foreign,
            None => VmSearch::NotFound,
        })
    }

    /// Returns the zone that it is placed in, if any; it has to be on its cluster's vCenter.
    async fn zone(
        &self,
        inputs: &Inputs<'_>,
    ) -> Result<Result<Option<Zone>, Problem>, kube::Error> {
        let Some(name) = inputs.zone() else {
            return Ok(Ok(None));
        };
        let missing = |kind: &str, name: &str| Problem {
            reason: "FailureDomainNotFound",
            message: format!("there is no {kind} {name:?}"),
        };
        let zones = self.of.read_cluster_scoped::<VSphereDeploymentZone>(name);
        let Some(zone) = zones.await? else {
            return Ok(Err(missing("VSphereDeploymentZone", name)));
        };
        if let Err(problem) = ensure_same_server(&zone, inputs.infrastructure) {
            return Ok(Err(problem));
        }
        let name = &zone.spec.failure_domain;
        let domains = self.of.read_cluster_scoped::<VSphereFailureDomain>(name);
        Ok(match domains.await? {
            Some(domain) => Ok(Some(Zone { zone, domain })),
            None => Err(missing("VSphereFailureDomain", name)),
        })
    }

    async fn wait(&mut self, reason: &str, message: &str) -> Result<Outcome, kube::Error> {
        self.status_writer().not_provisioned(reason, message);
        self.machine.commit().await?;
        Ok(Outcome::Waits(MAX_WAIT))
    }

    fn status_writer(&mut self) -> StatusWriter<'_> {
        StatusWriter {
            machine: &mut self.machine.object,
            now: Timestamp::now(),
        }
    }
}

/// The result of the search for a VSphereVM.
enum VmSearch {
    NotFound,
    Owned(Box<VSphereVM>),
    /// A VSphereVM of that name belongs to another owner.
    Foreign,
}

/// Checks that a zone is on the vCenter of a cluster: the cluster's credential is for no other.
fn ensure_same_server(
    zone: &VSphereDeploymentZone,
    cluster: &VSphereCluster,
) -> Result<(), Problem> {
    let not = |reason, message| Err(Problem { reason, message });
    match (endpoint(&zone.spec.server), endpoint(&cluster.spec.server)) {
        (Ok(zone), Ok(cluster)) if zone == cluster => Ok(()),
        (Ok(_), Ok(_)) => not(
            "FailureDomainMismatch",
            format!(
                "VSphereDeploymentZone {:?} is on {}, and VSphereCluster {:?} on {}",
                zone.name_any(),
                zone.spec.server,
                cluster.name_any(),
                cluster.spec.server
            ),
        ),
        (Err(refusal), _) | (_, Err(refusal)) => not(reason(refusal.reason), refusal.message),
    }
}
