//! Reconciles machines.

mod conclude;
mod desired;
mod name;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;
use tracing::info;

use self::conclude::StatusWriter;
use self::desired::{Inputs, Zone, changes, is_owned};
use super::commit;
use super::condition::reason;
use super::context::{Context, Dependency};
use super::key::Key;
use super::owning_cluster::{self, OwningCluster};
use super::paused::paused;
use super::read::get_named;
use super::resolve::endpoint;
use super::vm::bios_uuid;
use crate::capi::Machine;
use crate::kinds::{
    VSphereCluster, VSphereDeploymentZone, VSphereFailureDomain, VSphereMachine, VSphereVM,
};
use crate::names::{CAPI, CLUSTER_LABEL, MACHINE_FINALIZER};

/// The longest wait for a change that is watched.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Reconciles a machine.
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
    let machines: Api<VSphereMachine> = Api::namespaced(client, key.namespace_or_empty());
    let Some(machine) = machines.get_opt(&key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let mut reconciliation = Reconciliation {
        context,
        key,
        machines,
        stored: machine.clone(),
        machine,
        depends,
    };
    let owner = reconciliation.owner().await?;
    let named = reconciliation.cluster_name(owner.as_ref());
    let family = owning_cluster::of(context, key, named.as_deref(), reconciliation.depends).await?;
    if let Some(why) = paused(
        family.cluster.as_ref(),
        &reconciliation.machine,
        "VSphereMachine",
    ) {
        reconciliation.status_writer().paused(Some(&why));
        reconciliation.commit().await?;
        return Ok(Outcome::Settled(context.resync_after(key)));
    }
    reconciliation.status_writer().paused(None);
    match reconciliation.machine.metadata.deletion_timestamp {
        Some(_) => reconciliation.remove(named.as_deref()).await,
        None => reconciliation.provision(owner, family).await,
    }
}

/// The reconciliation of one machine.
struct Reconciliation<'a> {
    context: &'a Context,
    key: &'a Key,
    machines: Api<VSphereMachine>,
    /// The machine as it is stored.
    stored: VSphereMachine,
    /// The machine with its new status.
    machine: VSphereMachine,
    depends: &'a mut BTreeSet<Dependency>,
}

/// Why a machine cannot be provisioned.
struct Problem {
    reason: &'static str,
    message: String,
}

impl Reconciliation<'_> {
    /// Returns the Machine that owns it.
    async fn owner(&mut self) -> Result<Option<Machine>, kube::Error> {
        let owners = self.machine.owner_references().iter();
        let owner = owners.into_iter().find(|owner| {
            let group = owner.api_version.split('/').next();
            owner.kind == "Machine" && group == Some(CAPI)
        });
        let Some(name) = owner.map(|owner| owner.name.clone()) else {
            return Ok(None);
        };
        self.depend_on(|space, namespace| Dependency::Machine {
            space,
            namespace,
            name: name.clone(),
        });
        get_named(&self.api::<Machine>(), &name).await
    }

    /// Returns the cluster name of its Machine, or that of its own label.
    fn cluster_name(&self, owner: Option<&Machine>) -> Option<String> {
        let named = owner.map(|owner| owner.spec.cluster_name.clone());
        let labelled = || self.machine.labels().get(CLUSTER_LABEL).cloned();
        named.filter(|name| !name.is_empty()).or_else(labelled)
    }

    /// Creates its VSphereVM, or copies the state of the existing one.
    async fn provision(
        &mut self,
        owner: Option<Machine>,
        family: OwningCluster,
    ) -> Result<Outcome, kube::Error> {
        self.add_finalizer().await?;
        let Some(owner) = owner else {
            let message = "no Machine owns it yet";
            return self.wait("MachineNotFound", message).await;
        };
        let (cluster, infrastructure) = match (family.cluster, family.infrastructure) {
            (Some(cluster), Ok(infrastructure)) => (cluster, infrastructure),
            (_, Err(no_cluster)) => return self.wait(no_cluster.reason, &no_cluster.message).await,
            (None, Ok(_)) => return self.wait("ClusterNotFound", "there is no Cluster").await,
        };
        let machine = self.machine.clone();
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
        let id = self.machine.spec.provider_id.as_deref();
        id.is_some_and(|id| !id.is_empty())
    }

    async fn create(&mut self, vm: VSphereVM, zone: Option<&str>) -> Result<Outcome, kube::Error> {
        let name = vm.name_any();
        let made = self
            .api::<VSphereVM>()
            .create(&PostParams::default(), &vm)
            .await?;
        info!(machine = %self.key, vm = name, "VSphereVM created");
        self.mirror_vm(made, zone).await
    }

    /// Updates its VSphereVM, and copies its state to the machine.
    async fn mirror_vm(
        &mut self,
        vm: VSphereVM,
        zone: Option<&str>,
    ) -> Result<Outcome, kube::Error> {
        if let Some(changes) = changes(&self.machine, &vm, zone) {
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": vm.resource_version()},
                "spec": changes,
            }));
            let vms = self.api::<VSphereVM>();
            vms.patch(&vm.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        self.record_provider_id(&vm).await?;
        self.status_writer().mirror(&vm);
        self.commit().await?;
        let is_ready = vm
            .status
            .as_ref()
            .is_some_and(|status| status.ready == Some(true));
        Ok(match is_ready {
            true => Outcome::Settled(self.context.resync_after(self.key)),
            false => Outcome::Waits(MAX_WAIT),
        })
    }

    /// Records the BIOS UUID as `providerID`, once.
    async fn record_provider_id(&mut self, vm: &VSphereVM) -> Result<(), kube::Error> {
        let Some(uuid) = bios_uuid(vm).filter(|_| !self.has_provider_id()) else {
            return Ok(());
        };
        let patch = json!({
            "metadata": {"resourceVersion": self.stored.resource_version()},
            "spec": {"providerID": format!("vsphere://{uuid}")},
        });
        let patch = Patch::Merge(patch);
        let patched = self
            .machines
            .patch(&self.key.name, &PatchParams::default(), &patch)
            .await?;
        self.adopt(patched);
        Ok(())
    }

    /// Deletes its VSphereVM, and removes the finalizer when that is gone.
    async fn remove(&mut self, cluster: Option<&str>) -> Result<Outcome, kube::Error> {
        if !commit::has_finalizer(&self.machine, MACHINE_FINALIZER) {
            return Ok(Outcome::Waits(self.context.resync_after(self.key)));
        }
        let vm = match self.find(None, cluster).await? {
            VmSearch::Owned(vm) => vm,
            _ => {
                commit::remove_finalizer(&self.machines, &self.stored, MACHINE_FINALIZER).await?;
                info!(machine = %self.key, "machine deleted");
                return Ok(Outcome::Gone);
            }
        };
        if vm.metadata.deletion_timestamp.is_none() {
            let parameters = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: vm.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match self
                .api::<VSphereVM>()
                .delete(&vm.name_any(), &parameters)
                .await
            {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                done => drop(done?),
            }
        }
        let message = vm.status.as_ref().and_then(|status| {
            let condition = super::condition::find(&status.conditions, super::vm::PROVISIONED)?;
            (condition.reason == "Deleting").then(|| condition.message.clone())
        });
        let message = message.unwrap_or_else(|| "its virtual machine is being deleted".to_owned());
        self.wait("Deleting", &message).await
    }

    /// Finds its VSphereVM by name, or among all of its cluster: the name of one that was moved
    /// here may have been derived from another UID.
    async fn find(
        &mut self,
        name: Option<&str>,
        cluster: Option<&str>,
    ) -> Result<VmSearch, kube::Error> {
        let mut others = false;
        let vms = self.api::<VSphereVM>();
        if let Some(name) = name {
            self.depend_on(|space, namespace| Dependency::VSphereVM {
                space,
                namespace,
                name: name.to_owned(),
            });
            match get_named(&vms, name).await? {
                Some(vm) if is_owned(&vm, &self.machine) => {
                    return Ok(VmSearch::Owned(Box::new(vm)));
                }
                there => others = there.is_some(),
            }
        }
        let mut parameters = ListParams::default();
        if let Some(cluster) = cluster {
            parameters = parameters.labels(&format!("{CLUSTER_LABEL}={cluster}"));
        }
        let listed = vms.list(&parameters).await?;
        let ours = listed
            .items
            .into_iter()
            .find(|vm| is_owned(vm, &self.machine));
        Ok(match ours {
            Some(vm) => {
                self.depend_on(|space, namespace| Dependency::VSphereVM {
                    space,
                    namespace,
                    name: vm.name_any(),
                });
                VmSearch::Owned(Box::new(vm))
            }
            None if others => VmSearch::Foreign,
            None => VmSearch::NotFound,
        })
    }

    /// Returns the zone that it is placed in, if any; it has to be on its cluster's vCenter.
    async fn zone(
        &mut self,
        inputs: &Inputs<'_>,
    ) -> Result<Result<Option<Zone>, Problem>, kube::Error> {
        let Some(name) = inputs.zone() else {
            return Ok(Ok(None));
        };
        let (space, missing) = (self.key.space.clone(), "FailureDomainNotFound");
        let refuse = |reason, message| Ok(Err(Problem { reason, message }));
        let on = Dependency::Zones {
            space: space.clone(),
        };
        self.context.depend_on(self.key, self.depends, on);
        let client = self.context.client(self.key.space.as_deref());
        let zones: Api<VSphereDeploymentZone> = Api::all(client.clone());
        let Some(zone) = get_named(&zones, name).await? else {
            return refuse(
                missing,
                format!("there is no VSphereDeploymentZone {name:?}"),
            );
        };
        if let Err(problem) = ensure_same_server(&zone, inputs.infrastructure) {
            return Ok(Err(problem));
        }
        let domain = &zone.spec.failure_domain;
        let on = Dependency::FailureDomain {
            space,
            name: domain.clone(),
        };
        self.context.depend_on(self.key, self.depends, on);
        let domains: Api<VSphereFailureDomain> = Api::all(client);
        match get_named(&domains, domain).await? {
            Some(domain) => Ok(Ok(Some(Zone { zone, domain }))),
            None => refuse(
                missing,
                format!("there is no VSphereFailureDomain {domain:?}"),
            ),
        }
    }

    async fn wait(&mut self, reason: &str, message: &str) -> Result<Outcome, kube::Error> {
        self.status_writer().not_provisioned(reason, message);
        self.commit().await?;
        Ok(Outcome::Waits(MAX_WAIT))
    }

    async fn add_finalizer(&mut self) -> Result<(), kube::Error> {
        let held = commit::add_finalizer(&self.machines, &self.stored, MACHINE_FINALIZER).await?;
        self.adopt(held);
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), kube::Error> {
        commit::status(&self.machines, &self.stored, &self.machine).await?;
        Ok(())
    }

    /// Takes over a newly stored object, and keeps the status that is not written yet.
    fn adopt(&mut self, stored: VSphereMachine) {
        let status = self.machine.status.take();
        self.machine = VSphereMachine {
            status,
            ..stored.clone()
        };
        self.stored = stored;
    }

    fn status_writer(&mut self) -> StatusWriter<'_> {
        StatusWriter {
            machine: &mut self.machine,
            now: Timestamp::now(),
        }
    }

    fn depend_on(&mut self, on: impl FnOnce(Option<Arc<str>>, String) -> Dependency) {
        let on = on(
            self.key.space.clone(),
            self.key.namespace_or_empty().to_owned(),
        );
        self.context.depend_on(self.key, self.depends, on);
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        let client = self.context.client(self.key.space.as_deref());
        Api::namespaced(client, self.key.namespace_or_empty())
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
