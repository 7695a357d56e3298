//! The objects of a vCenter as a session sees them.

use std::time::Instant;

use super::collect::Objects;
use super::fault::Fault;
use super::machine::Vm;
use super::state::VCenterState;
use super::value::{Data, Reference, Value};

/// The view of a session.
pub(super) struct View<'a> {
    pub world: &'a VCenterState,
    /// The session; `None` before a login.
    pub cookie: Option<&'a str>,
    pub account: &'a str,
}

impl Objects for View<'_> {
    fn object(&self, id: &str) -> Option<Reference> {
        match id {
            "SessionManager" => Some(Reference::new("SessionManager", id)),
            "ServiceInstance" => Some(Reference::new("ServiceInstance", id)),
            _ if self.world.tasks.contains_key(id) => Some(Reference::new("Task", id)),
            _ if self.world.views.contains_key(id) => Some(Reference::new("ContainerView", id)),
            _ => self.world.inventory.reference(id),
        }
    }

    fn property(&self, object: &Reference, name: &str) -> Option<Result<Option<Value>, Fault>> {
        let world = self.world;
        let id = object.id.as_str();
        Some(Ok(Some(match (object.kind, name) {
            ("SessionManager", _) => return self.session(name),
            ("ServiceInstance", "content") => world.content().into(),
            ("Task", "info") => world.tasks.get(id)?.info(id).into(),
            ("ContainerView", "view") => world.views.get(id)?.clone().into(),
            ("ResourcePool", "vm") => world.machines_where(|vm| vm.pool == id),
            ("Datastore", "vm") => world.machines_where(|vm| vm.datastore == id),
            ("VirtualMachine", _) if world.hidden.contains(id) => {
                return Some(Err(Fault::no_permission("System.Read")));
            }
            ("VirtualMachine", _) => return Some(Ok(world.of_machine(id, name)?)),
            _ => return Some(Ok(world.inventory.property(id, name)?)),
        })))
    }
}

impl View<'_> {
    fn session(&self, name: &str) -> Option<Result<Option<Value>, Fault>> {
        let Some(cookie) = self.cookie else {
            let known = ["currentSession", "sessionList", "message"].contains(&name);
            return known.then(|| Err(Fault::not_authenticated("SessionManager:SessionManager")));
        };
        match name {
            "currentSession" => {
                let session = self.world.accounts.peek(cookie)?;
                Some(Ok(Some(session.data().into())))
            }
            "sessionList" if self.world.accounts.is_limited(self.account) => {
                Some(Err(Fault::no_permission("Sessions.TerminateSession")))
            }
            "sessionList" => {
                let sessions = self.world.accounts.sessions();
                let sessions: Vec<_> = sessions.map(|session| session.data()).collect();
                Some(Ok(Some(sessions.into())))
            }
            _ => None,
        }
    }
}

impl VCenterState {
    fn machines_where(&self, is: impl Fn(&Vm) -> bool) -> Value {
        let all = self.vms.iter().filter(|(_, vm)| is(vm));
        let all: Vec<_> = all
            .map(|(id, _)| Reference::new("VirtualMachine", id.clone()))
            .collect();
        all.into()
    }

    fn of_machine(&self, id: &str, property: &str) -> Option<Option<Value>> {
        let vm = self.vms.get(id)?;
        let name = self.inventory.get(id)?.name.as_str();
        let (after, now) = (self.addresses_after, Instant::now());
        Some(Some(match property {
            "config" => vm.config(id, name).into(),
            "guest" => vm.guest(name, after, now).into(),
            "runtime" => vm.runtime().into(),
            "snapshot" => return Some(vm.snapshot(id).map(Value::from)),
            "resourcePool" if vm.template => return Some(None),
            "resourcePool" => Reference::new("ResourcePool", vm.pool.clone()).into(),
            "datastore" => vec![Reference::new("Datastore", vm.datastore.clone())].into(),
            "network" => {
                let networks = vm.cards.iter().map(|card| card.network.object.clone());
                networks.collect::<Vec<_>>().into()
            }
            "recentTask" => self.recent(id),
            "summary" => {
                let config = Data::new("VirtualMachineConfigSummary")
                    .with("name", name)
                    .with("template", vm.template)
                    .with("uuid", vm.bios_uuid.as_str())
                    .with("instanceUuid", vm.instance_uuid.as_str());
                let of = Reference::new("VirtualMachine", id);
                let summary = Data::new("VirtualMachineSummary").with("vm", of);
                summary
                    .with("runtime", vm.runtime())
                    .with("config", config)
                    .into()
            }
            "guestHeartbeatStatus" => Value::text("ManagedEntityStatus", "green"),
            other => return self.inventory.property(id, other),
        }))
    }

    fn recent(&self, id: &str) -> Value {
        let tasks = self.tasks.iter().filter(|(_, task)| task.entity.id == id);
        let tasks: Vec<_> = tasks
            .map(|(id, _)| Reference::new("Task", id.clone()))
            .collect();
        tasks.into()
    }
}
