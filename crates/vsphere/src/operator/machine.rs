//! Reconciles machines.

mod conclude;
mod name;
mod wanted;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use insula_operator::retry::Outcome;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;
use tracing::info;

use self::conclude::Telling;
use self::wanted::{Ground, Zone, changes, is_owned};
use super::commit;
use super::condition::reason;
use super::context::{Context, Dependency};
use super::family::{self, Family};
use super::identify::endpoint;
use super::key::Key;
use super::paused::paused;
use super::read::named;
use super::vm::bios_uuid;
use crate::capi::Machine;
use crate::kinds::{
    VSphereCluster, VSphereDeploymentZone, VSphereFailureDomain, VSphereMachine, VSphereVM,
};
use crate::names::{CAPI, CLUSTER_LABEL, MACHINE_FINALIZER};

/// The longest wait for a change that is watched.
const WAITING: Duration = Duration::from_secs(60);

/// Reconciles a machine.
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
    let machines: Api<VSphereMachine> = Api::namespaced(client, key.place());
    let Some(machine) = machines.get_opt(&key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let mut work = Work {
        context,
        key,
        machines,
        stored: machine.clone(),
        machine,
        depends,
    };
    let owner = work.owner().await?;
    let named = work.cluster_name(owner.as_ref());
    let family = family::of(context, key, named.as_deref(), work.depends).await?;
    if let Some(why) = paused(family.cluster.as_ref(), &work.machine, "VSphereMachine") {
        work.telling().paused(Some(&why));
        work.commit().await?;
        return Ok(Outcome::Settled(context.anyway(key)));
    }
    work.telling().paused(None);
    match work.machine.metadata.deletion_timestamp {
        Some(_) => work.remove(named.as_deref()).await,
        None => work.make(owner, family).await,
    }
}

/// The reconciliation of one machine.
struct Work<'a> {
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
struct Say {
    reason: &'static str,
    message: String,
}

impl Work<'_> {
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
        self.note(|space, namespace| Dependency::Machine {
            space,
            namespace,
            name: name.clone(),
        });
        named(&self.api::<Machine>(), &name).await
    }

    /// Returns the cluster name of its Machine, or that of its own label.
    fn cluster_name(&self, owner: Option<&Machine>) -> Option<String> {
        let said = owner.map(|owner| owner.spec.cluster_name.clone());
        let labelled = || self.machine.labels().get(CLUSTER_LABEL).cloned();
        said.filter(|name| !name.is_empty()).or_else(labelled)
    }

    /// Creates its VSphereVM, or copies the state of the existing one.
    async fn make(
        &mut self,
        owner: Option<Machine>,
        family: Family,
    ) -> Result<Outcome, kube::Error> {
        self.hold().await?;
        let Some(owner) = owner else {
            let message = "no Machine owns it yet";
            return self.wait("MachineNotFound", message).await;
        };
        let (cluster, infrastructure) = match (family.cluster, family.infrastructure) {
            (Some(cluster), Ok(infrastructure)) => (cluster, infrastructure),
            (_, Err(stray)) => return self.wait(stray.reason, &stray.message).await,
            (None, Ok(_)) => return self.wait("ClusterNotFound", "there is no Cluster").await,
        };
        let machine = self.machine.clone();
        let ground = Ground {
            machine: &machine,
            owner: &owner,
            cluster: &cluster,
            infrastructure: &infrastructure,
        };
        let name = match ground.name() {
            Ok(name) => name,
            Err(error) => return self.wait("NotProvisioned", &error.to_string()).await,
        };
        let clash = match self.find(Some(&name), Some(&cluster.name_any())).await? {
            Found::Ours(vm) => return self.follow(*vm, ground.zone()).await,
            Found::Others => true,
            Found::Nothing => false,
        };
        if self.is_known() {
            let message = "its virtual machine is gone, and is not made again";
            return self.wait("NotProvisioned", message).await;
        }
        if let Some((reason, message)) = ground.waits() {
            return self.wait(reason, message).await;
        }
        if clash {
            let message = format!("VSphereVM {name:?} is there and not this machine's");
            return self.wait("NameTaken", &message).await;
        }
        match self.zone(&ground).await? {
            Err(say) => self.wait(say.reason, &say.message).await,
            Ok(zone) => {
                let vm = ground.vm(&name, zone.as_ref());
                self.create(vm, ground.zone()).await
            }
        }
    }

    /// Returns whether it has been provisioned: its virtual machine must not be replaced.
    fn is_known(&self) -> bool {
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
        self.follow(made, zone).await
    }

    /// Updates its VSphereVM, and copies its state to the machine.
    async fn follow(&mut self, vm: VSphereVM, zone: Option<&str>) -> Result<Outcome, kube::Error> {
        if let Some(changes) = changes(&self.machine, &vm, zone) {
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": vm.resource_version()},
                "spec": changes,
            }));
            let vms = self.api::<VSphereVM>();
            vms.patch(&vm.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        self.note_uuid(&vm).await?;
        self.telling().mirror(&vm);
        self.commit().await?;
        let is_ready = vm
            .status
            .as_ref()
            .is_some_and(|status| status.ready == Some(true));
        Ok(match is_ready {
            true => Outcome::Settled(self.context.anyway(self.key)),
            false => Outcome::Waits(WAITING),
        })
    }

    /// Records the BIOS UUID as `providerID`, once.
    async fn note_uuid(&mut self, vm: &VSphereVM) -> Result<(), kube::Error> {
        let Some(uuid) = bios_uuid(vm).filter(|_| !self.is_known()) else {
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
        if !commit::is_held(&self.machine, MACHINE_FINALIZER) {
            return Ok(Outcome::Waits(self.context.anyway(self.key)));
        }
        let vm = match self.find(None, cluster).await? {
            Found::Ours(vm) => vm,
            _ => {
                commit::let_go(&self.machines, &self.stored, MACHINE_FINALIZER).await?;
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
        let told = vm.status.as_ref().and_then(|status| {
            let told = super::condition::find(&status.conditions, super::vm::PROVISIONED)?;
            (told.reason == "Deleting").then(|| told.message.clone())
        });
        let message = told.unwrap_or_else(|| "its virtual machine goes".to_owned());
        self.wait("Deleting", &message).await
    }

    /// Finds its VSphereVM by name, or among all of its cluster: the name of one that was moved
    /// here may have been derived from another UID.
    async fn find(
        &mut self,
        name: Option<&str>,
        cluster: Option<&str>,
    ) -> Result<Found, kube::Error> {
        let mut others = false;
        let vms = self.api::<VSphereVM>();
        if let Some(name) = name {
            self.note(|space, namespace| Dependency::VSphereVM {
                space,
                namespace,
                name: name.to_owned(),
            });
            match named(&vms, name).await? {
                Some(vm) if is_owned(&vm, &self.machine) => return Ok(Found::Ours(Box::new(vm))),
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
                self.note(|space, namespace| Dependency::VSphereVM {
                    space,
                    namespace,
                    name: vm.name_any(),
                });
                Found::Ours(Box::new(vm))
            }
            None if others => Found::Others,
            None => Found::Nothing,
        })
    }

    /// Returns the zone that it is placed in, if any; it has to be on its cluster's vCenter.
    async fn zone(
        &mut self,
        ground: &Ground<'_>,
    ) -> Result<Result<Option<Zone>, Say>, kube::Error> {
        let Some(name) = ground.zone() else {
            return Ok(Ok(None));
        };
        let (space, missing) = (self.key.space.clone(), "FailureDomainNotFound");
        let say = |reason, message| Ok(Err(Say { reason, message }));
        let on = Dependency::Zones {
            space: space.clone(),
        };
        self.context.note(self.key, self.depends, on);
        let client = self.context.client(self.key.space.as_deref());
        let zones: Api<VSphereDeploymentZone> = Api::all(client.clone());
        let Some(zone) = named(&zones, name).await? else {
            return say(
                missing,
                format!("there is no VSphereDeploymentZone {name:?}"),
            );
        };
        if let Err(say) = is_home(&zone, ground.infrastructure) {
            return Ok(Err(say));
        }
        let domain = &zone.spec.failure_domain;
        let on = Dependency::FailureDomain {
            space,
            name: domain.clone(),
        };
        self.context.note(self.key, self.depends, on);
        let domains: Api<VSphereFailureDomain> = Api::all(client);
        match named(&domains, domain).await? {
            Some(domain) => Ok(Ok(Some(Zone { zone, domain }))),
            None => say(
                missing,
                format!("there is no VSphereFailureDomain {domain:?}"),
            ),
        }
    }

    async fn wait(&mut self, reason: &str, message: &str) -> Result<Outcome, kube::Error> {
        self.telling().hindered(reason, message);
        self.commit().await?;
        Ok(Outcome::Waits(WAITING))
    }

    async fn hold(&mut self) -> Result<(), kube::Error> {
        let held = commit::hold(&self.machines, &self.stored, MACHINE_FINALIZER).await?;
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

    fn telling(&mut self) -> Telling<'_> {
        Telling {
            machine: &mut self.machine,
            now: Timestamp::now(),
        }
    }

    fn note(&mut self, on: impl FnOnce(Option<Arc<str>>, String) -> Dependency) {
        let on = on(self.key.space.clone(), self.key.place().to_owned());
        self.context.note(self.key, self.depends, on);
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    {
        let client = self.context.client(self.key.space.as_deref());
        Api::namespaced(client, self.key.place())
    }
}

/// The result of the search for a VSphereVM.
enum Found {
    Nothing,
    Ours(Box<VSphereVM>),
    /// A VSphereVM of that name belongs to another owner.
    Others,
}

/// Checks that a zone is on the vCenter of a cluster: the cluster's credential is for no other.
fn is_home(zone: &VSphereDeploymentZone, cluster: &VSphereCluster) -> Result<(), Say> {
    let not = |reason, message| Err(Say { reason, message });
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
