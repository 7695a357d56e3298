//! Operations on virtual machines: tasks are started, and take effect when they end.

use std::time::{Duration, Instant};

use super::element::Element;
use super::fault::Fault;
use super::inventory::is_a;
use super::machine::{Card, Disk, Network, Snapshot, Vm, fresh_mac};
use super::state::VCenterState;
use super::task::{Effect, State, Task};
use super::value::Reference;

impl VCenterState {
    /// Starts the operation of a method on a virtual machine.
    pub fn on_machine(
        &mut self,
        method: &Element,
        this: &Element,
        account: &str,
    ) -> Result<String, Fault> {
        let effect = match method.name.as_str() {
            "CloneVM_Task" => self.clone_of(method)?,
            "ReconfigVM_Task" => {
                let spec = method
                    .child("spec")
                    .ok_or_else(|| Fault::invalid_request("no spec"))?;
                Effect::Configure(spec.clone())
            }
            "PowerOnVM_Task" => Effect::PowerOn,
            "PowerOffVM_Task" => Effect::PowerOff,
            "Destroy_Task" => Effect::Destroy,
            "ShutdownGuest" => return self.shut_down(this),
            name => {
                return Err(Fault::invalid_request(&format!(
                    "{name:?} is not known here"
                )));
            }
        };
        if !self.vms.contains_key(&this.text) {
            return Err(Fault::not_found(&this.reference()));
        }
        let entity = Reference::new("VirtualMachine", this.text.clone());
        let at = self
            .task_faults
            .iter()
            .position(|(of, _)| *of == method.name);
        let task_faults = at.and_then(|at| self.task_faults.remove(at));
        let effect = task_faults.map_or(effect, |(_, fault)| Effect::Fail(fault));
        // Invalid operations are refused at once.
        let takes = match effect {
            Effect::Fail(ref fault) if fault.of == "DuplicateName" => Duration::ZERO,
            _ => self.tasks_take,
        };
        let ends = Instant::now() + takes;
        let task = Task::new(&method.name, entity, account, effect);
        let id = self.inventory.fresh("task-");
        self.tasks.insert(id.clone(), task);
        self.due.insert((ends, id.clone()));
        self.complete_due_tasks();
        Ok(format!("<returnval type=\"Task\">{id}</returnval>"))
    }

    fn clone_of(&self, method: &Element) -> Result<Effect, Fault> {
        let folder = method.child("folder");
        let folder = folder.ok_or_else(|| Fault::invalid_request("no folder"))?;
        if self
            .inventory
            .get(&folder.text)
            .is_none_or(|node| node.kind != "Folder")
        {
            return Err(Fault::not_found(&folder.reference()));
        }
        let spec = method
            .child("spec")
            .ok_or_else(|| Fault::invalid_request("no spec"))?;
        let name = method.text_of("name").unwrap_or_default();
        let (folder, name, spec) = (folder.text.clone(), name.to_owned(), spec.clone());
        let taken = self.inventory.below(&folder, &name);
        let reserved = self
            .tasks
            .values()
            .any(|task| task.reserves(&folder, &name));
        if taken.is_some() || reserved {
            let object = taken.unwrap_or_else(|| "vm-0".to_owned());
            let object = Reference::new("VirtualMachine", object);
            return Ok(Effect::Fail(Fault::duplicate_name(&name, object)));
        }
        Ok(Effect::Clone { folder, name, spec })
    }

    fn shut_down(&mut self, this: &Element) -> Result<String, Fault> {
        let vm = self.vms.get(&this.text);
        let vm = vm.ok_or_else(|| Fault::not_found(&this.reference()))?;
        if vm.powered_on.is_none() {
            return Err(Fault::invalid_power_state("poweredOn", "poweredOff"));
        }
        if vm
            .addresses(self.addresses_after, Instant::now())
            .is_empty()
        {
            let why = "VMware Tools are not running in the guest";
            return Err(Fault::new("ToolsUnavailable", why));
        }
        let now = Instant::now();
        let Some(at) = now.checked_add(self.shutdown_takes) else {
            return Ok(String::new());
        };
        self.shutting_down.push((at, this.text.clone()));
        self.complete_due_tasks();
        Ok(String::new())
    }

    /// Completes the tasks that are due.
    pub fn complete_due_tasks(&mut self) {
        let now = Instant::now();
        self.accounts.expire(now);
        let (due, later) = self.shutting_down.drain(..).partition(|(at, _)| *at <= now);
        self.shutting_down = later;
        let due: Vec<(Instant, String)> = due;
        for (_, id) in due {
            if let Some(vm) = self.vms.get_mut(&id) {
                vm.powered_on = None;
            }
        }
        while let Some((at, id)) = self.due.pop_first() {
            if at > now {
                self.due.insert((at, id));
                break;
            }
            self.end(&id);
        }
    }

    fn end(&mut self, id: &str) {
        let Some(task) = self.tasks.get_mut(id) else {
            return;
        };
        let (entity, account) = (task.entity.id.clone(), task.account.clone());
        let done = State::Done(None);
        let State::Running(effect) = std::mem::replace(&mut task.state, done) else {
            return;
        };
        let ended = match self.take_effect(&entity, &account, *effect) {
            Ok(result) => State::Done(result),
            Err(fault) => State::Failed(fault),
        };
        if let Some(task) = self.tasks.get_mut(id) {
            task.state = ended;
        }
    }

    fn take_effect(
        &mut self,
        entity: &str,
        account: &str,
        effect: Effect,
    ) -> Result<Option<Reference>, Fault> {
        let gone = || Fault::not_found(&format!("VirtualMachine:{entity}"));
        let address = self.next_address;
        let vm = self.vms.get_mut(entity).ok_or_else(gone)?;
        match effect {
            Effect::Fail(fault) => return Err(fault),
            Effect::Clone { folder, name, spec } => {
                let copy = vm.clone();
                return self.copy(copy, &folder, &name, &spec, account).map(Some);
            }
            Effect::Configure(spec) => vm.configure(&spec, &self.inventory)?,
            Effect::PowerOn if vm.template => {
                return Err(Fault::new("InvalidState", "a template is not powered on"));
            }
            Effect::PowerOn if vm.powered_on.is_some() => {
                return Err(Fault::invalid_power_state("poweredOn", "poweredOn"));
            }
            Effect::PowerOn => {
                vm.powered_on = Some(Instant::now());
                if vm.addresses.is_empty() {
                    let [_, a, b, c] = address.to_be_bytes();
                    vm.addresses = vec![format!("10.{a}.{b}.{c}")];
                    self.next_address += 1;
                }
            }
            Effect::PowerOff if vm.powered_on.is_none() => {
                return Err(Fault::invalid_power_state("poweredOff", "poweredOff"));
            }
            Effect::PowerOff => vm.powered_on = None,
            Effect::Destroy if vm.powered_on.is_some() => {
                return Err(Fault::invalid_power_state("poweredOff", "poweredOn"));
            }
            Effect::Destroy => {
                self.vms.remove(entity);
                self.inventory.remove(entity);
            }
        }
        Ok(None)
    }

    fn copy(
        &mut self,
        mut vm: Vm,
        folder: &str,
        name: &str,
        spec: &Element,
        account: &str,
    ) -> Result<Reference, Fault> {
        let wrong = |what: &str| Fault::new("InvalidArgument", what).with("invalidProperty", what);
        let location = spec
            .child("location")
            .ok_or_else(|| wrong("spec.location"))?;
        let snapshot = spec.text_of("snapshot");
        if let Some(snapshot) = snapshot {
            let there = vm.snapshots.iter().any(|it| it.id == snapshot);
            there.then_some(()).ok_or_else(|| wrong("spec.snapshot"))?;
        }
        let chosen = |of: &str, kind: &str, before: &str| match location.text_of(of) {
            Some(id) if self.inventory.get(id).is_some_and(|it| is_a(it.kind, kind)) => {
                Ok(id.to_owned())
            }
            Some(id) => Err(Fault::not_found(&format!("{kind}:{id}"))),
            // A template has no pool, so the clone spec has to name one.
            None if before.is_empty() || (vm.template && kind == "ResourcePool") => {
                Err(wrong("spec.location.pool"))
            }
            None => Ok(before.to_owned()),
        };
        let pool = chosen("pool", "ResourcePool", &vm.pool)?;
        let datastore = chosen("datastore", "Datastore", &vm.datastore)?;
        vm.linked = location.text_of("diskMoveType") == Some("createNewChildDiskBacking");
        if vm.linked && snapshot.is_none() {
            return Err(wrong("spec.snapshot"));
        }
        (vm.pool, vm.datastore) = (pool, datastore);
        vm.template = spec.is_true("template");
        vm.snapshots.clear();
        vm.addresses.clear();
        vm.powered_on = None;
        vm.bios_uuid = uuid::Uuid::new_v4().to_string();
        vm.instance_uuid = uuid::Uuid::new_v4().to_string();
        account.clone_into(&mut vm.created_by);
        for card in &mut vm.cards {
            card.mac = fresh_mac();
        }
        if let Some(config) = spec.child("config") {
            vm.configure(config, &self.inventory)?;
        }
        if spec.is_true("powerOn") {
            vm.powered_on = Some(Instant::now());
        }
        let id = self.inventory.add("VirtualMachine", "vm-", name, folder);
        self.vms.insert(id.clone(), vm);
        Ok(Reference::new("VirtualMachine", id))
    }

    /// Adds a virtual machine at a path, as existing from the start.
    pub fn add_machine(
        &mut self,
        path: &str,
        template: bool,
        snapshot: Option<&str>,
    ) -> Option<String> {
        let datacenter = path.trim_start_matches('/').split('/').next()?;
        let find = |place: &str| self.inventory.find(&format!("{datacenter}/{place}"));
        let cluster = format!("host/{datacenter}_C0");
        let network = Network::of(&find("network/VM Network")?, &self.inventory)?;
        let datastore = find("datastore/LocalDS_0")?;
        let pool = find(&format!("{cluster}/Resources"))?;
        let host = find(&format!("{cluster}/{datacenter}_C0_H0"))?;
        let snapshots = snapshot.map(|name| Snapshot {
            id: self.inventory.fresh("snapshot-"),
            name: name.to_owned(),
        });
        let vm = Vm {
            bios_uuid: uuid::Uuid::new_v4().to_string(),
            instance_uuid: uuid::Uuid::new_v4().to_string(),
            template,
            cpus: 1,
            cores_per_socket: 1,
            memory_mib: 1024,
            disks: vec![Disk {
                key: 2000,
                kib: 10 << 20,
            }],
            cards: vec![Card {
                key: 4000,
                of: "VirtualE1000",
                mac: fresh_mac(),
                assigned: true,
                network,
            }],
            pool,
            datastore,
            host,
            snapshots: snapshots.into_iter().collect(),
            ..Vm::default()
        };
        let id = self.inventory.add_at("VirtualMachine", "vm-", path)?;
        self.vms.insert(id.clone(), vm);
        Some(id)
    }
}
