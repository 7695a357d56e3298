//! A vCenter's whole state, and what its methods do to it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::account::Accounts;
use super::collect::{Objects, collect};
use super::element::Element;
use super::fault::{Fault, returnval};
use super::inventory::{Inventory, ROOT, is_a};
use super::journal::Machine;
use super::machine::{Card, Disk, Network, Snapshot, Vm, fresh_mac};
use super::order;
use super::task::{Effect, State, Task};
use super::value::{Data, Reference, Value, escape};

/// Everything a vCenter knows.
#[derive(Debug)]
pub(super) struct World {
    pub accounts: Accounts,
    pub inventory: Inventory,
    pub vms: BTreeMap<String, Vm>,
    pub tasks: BTreeMap<String, Task>,
    /// What the next tasks of a method fail with.
    pub doomed: VecDeque<(String, Fault)>,
    pub version: String,
    pub api_type: String,
    pub instance_uuid: String,
    pub tasks_take: Duration,
    pub shutdown_takes: Duration,
    pub addresses_after: Duration,
    /// Answers hold no more objects than that, whatever a client asks.
    pub page: usize,
    pages: BTreeMap<String, Vec<String>>,
    views: BTreeMap<String, Vec<Reference>>,
    shutting_down: Vec<(Instant, String)>,
    next_address: u32,
}

/// A call.
pub(super) struct Call<'a> {
    pub method: &'a Element,
    pub cookie: Option<&'a str>,
    pub agent: &'a str,
}

/// What a call is answered with, and a cookie that comes with it.
pub(super) struct Answer {
    pub body: Result<String, Fault>,
    pub cookie: Option<String>,
}

impl World {
    pub fn new() -> Self {
        Self {
            accounts: Accounts::default(),
            inventory: Inventory::empty(),
            vms: BTreeMap::new(),
            tasks: BTreeMap::new(),
            doomed: VecDeque::new(),
            version: "8.0.3".to_owned(),
            api_type: "VirtualCenter".to_owned(),
            instance_uuid: uuid::Uuid::new_v4().to_string(),
            tasks_take: Duration::ZERO,
            shutdown_takes: Duration::ZERO,
            addresses_after: Duration::ZERO,
            page: 100,
            pages: BTreeMap::new(),
            views: BTreeMap::new(),
            shutting_down: Vec::new(),
            next_address: 1,
        }
    }

    /// Carries out a call.
    pub fn call(&mut self, call: &Call<'_>) -> Answer {
        self.settle();
        if call.method.name == "Login" {
            return self.log_in(call);
        }
        let body = self.carry_out(call);
        let body = body.map(|content| {
            let name = &call.method.name;
            format!("<{name}Response xmlns=\"urn:vim25\">{content}</{name}Response>")
        });
        Answer { body, cookie: None }
    }

    fn log_in(&mut self, call: &Call<'_>) -> Answer {
        let opened = order::check(call.method).map_err(|why| Fault::invalid_request(&why));
        let opened = opened.and_then(|()| {
            let name = call.method.text_of("userName").unwrap_or_default();
            let password = call.method.text_of("password").unwrap_or_default();
            self.accounts
                .log_in(call.cookie, name, password, call.agent)
        });
        match opened {
            Ok((cookie, session)) => Answer {
                body: Ok(format!(
                    "<LoginResponse xmlns=\"urn:vim25\">{}</LoginResponse>",
                    session.element("returnval")
                )),
                cookie: Some(cookie),
            },
            Err(fault) => Answer {
                body: Err(fault),
                cookie: None,
            },
        }
    }

    fn carry_out(&mut self, call: &Call<'_>) -> Result<String, Fault> {
        let method = call.method;
        let this = method
            .child("_this")
            .ok_or_else(|| Fault::invalid_request("no _this"))?;
        order::check(method).map_err(|why| Fault::invalid_request(&why))?;
        if method.name == "RetrieveServiceContent" {
            return Ok(returnval(self.content()));
        }
        let account = call
            .cookie
            .and_then(|cookie| self.accounts.used(cookie, Instant::now()));
        let Some(account) = account.map(|session| session.account.clone()) else {
            return self.unauthenticated(method, this);
        };
        match method.name.as_str() {
            "Logout" => {
                self.accounts.log_out(call.cookie.unwrap_or_default());
                Ok(String::new())
            }
            "CurrentTime" => {
                let now = Value::text("xsd:dateTime", jiff::Timestamp::now());
                Ok(now.element("returnval"))
            }
            "SessionIsActive" => self.session_is_active(method, &account),
            "TerminateSession" => self.terminate(method, &account),
            "RetrievePropertiesEx" => {
                let session = call.cookie.unwrap_or_default().to_owned();
                let view = View {
                    world: self,
                    cookie: Some(&session),
                    account: &account,
                };
                let found = collect(&view, method)?;
                Ok(self.page(method, found))
            }
            "ContinueRetrievePropertiesEx" => {
                let token = method.text_of("token").unwrap_or_default();
                let rest = self.pages.remove(token);
                let rest = rest.ok_or_else(|| Fault::new("InvalidArgument", "no such token"))?;
                Ok(self.page(method, rest))
            }
            "CancelRetrievePropertiesEx" => {
                self.pages
                    .remove(method.text_of("token").unwrap_or_default());
                Ok(String::new())
            }
            "CreateContainerView" => self.create_view(method),
            "DestroyView" => {
                self.views.remove(&this.text);
                Ok(String::new())
            }
            "FindByInventoryPath" => {
                let path = method.text_of("inventoryPath").unwrap_or_default();
                Ok(self.found(self.inventory.find(path)))
            }
            "FindChild" => {
                let entity = method.text_of("entity").unwrap_or_default();
                let name = method.text_of("name").unwrap_or_default();
                Ok(self.found(self.inventory.below(entity, name)))
            }
            "FindByUuid" => Ok(self.found(self.with_uuid(method).into_iter().next())),
            "FindAllByUuid" => {
                let all = self.with_uuid(method).into_iter();
                Ok(all.map(|id| self.found(Some(id))).collect())
            }
            _ => self.on_machine(method, this, &account),
        }
    }

    fn unauthenticated(&self, method: &Element, this: &Element) -> Result<String, Fault> {
        let mut about = method
            .all("specSet")
            .flat_map(|filter| filter.all("objectSet"));
        let of_session = |set: &Element| {
            set.child("obj").and_then(|obj| obj.kind.as_deref()) == Some("SessionManager")
        };
        if method.name == "RetrievePropertiesEx" && about.all(of_session) {
            let view = View {
                world: self,
                cookie: None,
                account: "",
            };
            let found: String = collect(&view, method)?.concat();
            return Ok(format!("<returnval>{found}</returnval>"));
        }
        Err(Fault::not_authenticated(&this.reference()))
    }

    /// What everybody may know.
    fn content(&self) -> Data {
        let about = Data::new("AboutInfo")
            .with("name", "VMware vCenter Server")
            .with(
                "fullName",
                format!("VMware vCenter Server {} build-1", self.version),
            )
            .with("vendor", "VMware, Inc.")
            .with("version", self.version.as_str())
            .with("build", "1")
            .with("osType", "linux-x64")
            .with("productLineId", "vpx")
            .with("apiType", self.api_type.as_str())
            .with("apiVersion", self.version.as_str())
            .with("instanceUuid", self.instance_uuid.as_str());
        Data::new("ServiceContent")
            .with("rootFolder", Reference::new("Folder", ROOT))
            .with(
                "propertyCollector",
                Reference::new("PropertyCollector", "propertyCollector"),
            )
            .with("viewManager", Reference::new("ViewManager", "ViewManager"))
            .with("about", about)
            .with(
                "sessionManager",
                Reference::new("SessionManager", "SessionManager"),
            )
            .with("taskManager", Reference::new("TaskManager", "TaskManager"))
            .with("searchIndex", Reference::new("SearchIndex", "SearchIndex"))
    }

    fn session_is_active(&self, method: &Element, account: &str) -> Result<String, Fault> {
        if self.accounts.is_limited(account) {
            return Err(Fault::no_permission("Sessions.ValidateSession"));
        }
        let key = method.text_of("sessionID").unwrap_or_default();
        let there = self.accounts.sessions().any(|session| session.key == key);
        Ok(Value::from(there).element("returnval"))
    }

    fn terminate(&mut self, method: &Element, account: &str) -> Result<String, Fault> {
        if self.accounts.is_limited(account) {
            return Err(Fault::no_permission("Sessions.TerminateSession"));
        }
        let keys: Vec<_> = method.all("sessionId").map(|id| id.text.clone()).collect();
        for key in keys {
            if !self.accounts.terminate(&key) {
                return Err(Fault::new("NotFound", "there is no such session"));
            }
        }
        Ok(String::new())
    }

    /// As many objects as fit, and a token for the rest.
    fn page(&mut self, method: &Element, mut found: Vec<String>) -> String {
        if found.is_empty() {
            return String::new();
        }
        let options = method.child("options");
        let most = options.and_then(|options| options.number_of("maxObjects"));
        let most = most.unwrap_or(self.page).min(self.page).max(1);
        let mut token = String::new();
        if found.len() > most {
            let rest = found.split_off(most);
            let name = uuid::Uuid::new_v4().to_string();
            token = format!("<token>{name}</token>");
            self.pages.insert(name, rest);
        }
        format!("<returnval>{token}{}</returnval>", found.concat())
    }

    fn create_view(&mut self, method: &Element) -> Result<String, Fault> {
        let container = method.child("container");
        let container = container.ok_or_else(|| Fault::invalid_request("no container"))?;
        if self.inventory.get(&container.text).is_none() {
            return Err(Fault::not_found(&container.reference()));
        }
        let kinds: Vec<_> = method.all("type").map(|of| of.text.as_str()).collect();
        let all = self
            .inventory
            .descendants(&container.text, method.says("recursive"));
        let all = all.iter().filter_map(|id| self.inventory.reference(id));
        let all = all.filter(|it| kinds.is_empty() || kinds.iter().any(|of| is_a(it.kind, of)));
        let all = all.collect();
        let id = format!("session[{0}]{0}", uuid::Uuid::new_v4());
        self.views.insert(id.clone(), all);
        Ok(Value::from(Reference::new("ContainerView", id)).element("returnval"))
    }

    fn found(&self, id: Option<String>) -> String {
        let object = id.and_then(|id| self.inventory.reference(&id));
        let Some(Reference { kind, id }) = object else {
            return String::new();
        };
        format!("<returnval type=\"{kind}\">{}</returnval>", escape(&id))
    }

    fn with_uuid(&self, method: &Element) -> Vec<String> {
        let uuid = method.text_of("uuid").unwrap_or_default();
        let instance = method.says("instanceUuid");
        let within = method.text_of("datacenter");
        let is = |vm: &Vm| {
            if instance {
                vm.instance_uuid == uuid
            } else {
                vm.bios_uuid == uuid
            }
        };
        let found = self
            .vms
            .iter()
            .filter(|(_, vm)| method.says("vmSearch") && is(vm));
        let found = found.map(|(id, _)| id.clone());
        let inside = |id: &String| {
            within.is_none_or(|dc| self.inventory.datacenter_of(id).as_deref() == Some(dc))
        };
        found.filter(inside).collect()
    }

    fn on_machine(
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
        let at = self.doomed.iter().position(|(of, _)| *of == method.name);
        let doomed = at.and_then(|at| self.doomed.remove(at));
        let effect = doomed.map_or(effect, |(_, fault)| Effect::Fail(fault));
        // What cannot be is refused at once.
        let takes = match effect {
            Effect::Fail(ref fault) if fault.of == "DuplicateName" => Duration::ZERO,
            _ => self.tasks_take,
        };
        let task = Task::new(
            &method.name,
            entity,
            account,
            Instant::now() + takes,
            effect,
        );
        let id = self.inventory.fresh("task-");
        self.tasks.insert(id.clone(), task);
        if takes.is_zero() {
            self.settle();
        }
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
        self.settle();
        Ok(String::new())
    }

    /// Carries out what is due.
    pub fn settle(&mut self) {
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
        let due = self
            .tasks
            .iter()
            .filter(|(_, task)| matches!(task.state, State::Running(_)) && task.ends <= now);
        let mut due: Vec<_> = due.map(|(id, task)| (task.ends, id.clone())).collect();
        due.sort();
        for (_, id) in due {
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
            // A template is in no pool, so a machine that is made of it has to be told.
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
        vm.template = spec.says("template");
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
        if spec.says("powerOn") {
            vm.powered_on = Some(Instant::now());
        }
        let id = self.inventory.add("VirtualMachine", "vm-", name, folder);
        self.vms.insert(id.clone(), vm);
        Ok(Reference::new("VirtualMachine", id))
    }

    /// Forgets tasks that have ended.
    pub fn forget_tasks(&mut self) {
        self.tasks
            .retain(|_, task| matches!(task.state, State::Running(_)));
    }

    /// All machines, for those who look.
    pub fn machines(&self) -> Vec<Machine> {
        let known = |(id, vm): (&String, &Vm)| Machine {
            id: id.clone(),
            path: self.inventory.path(id),
            name: self
                .inventory
                .get(id)
                .map(|node| node.name.clone())
                .unwrap_or_default(),
            bios_uuid: vm.bios_uuid.clone(),
            instance_uuid: vm.instance_uuid.clone(),
            template: vm.template,
            powered_on: vm.powered_on.is_some(),
            cpus: vm.cpus,
            cores_per_socket: vm.cores_per_socket,
            memory_mib: vm.memory_mib,
            disks_gib: vm.disks.iter().map(|disk| disk.kib >> 20).collect(),
            networks: vm
                .cards
                .iter()
                .map(|card| card.network.name.clone())
                .collect(),
            macs: vm.cards.iter().map(|card| card.mac.clone()).collect(),
            extra: vm.extra.clone(),
            pool: self.inventory.path(&vm.pool),
            datastore: self.inventory.path(&vm.datastore),
            linked: vm.linked,
            disk_uuids: vm.disk_uuids,
            created_by: vm.created_by.clone(),
        };
        self.vms.iter().map(known).collect()
    }

    /// A machine at a path, which is ours from the beginning.
    pub fn add_machine(
        &mut self,
        path: &str,
        template: bool,
        snapshot: Option<&str>,
    ) -> Option<String> {
        let datacenter = self
            .inventory
            .find(path.trim_start_matches('/').split('/').next()?)?;
        let first = |kind: &str| {
            let all = self.inventory.descendants(&datacenter, true).into_iter();
            let mut all = all.filter(|id| self.inventory.get(id).is_some_and(|it| it.kind == kind));
            all.next()
        };
        let network = Network::of(&first("Network")?, &self.inventory)?;
        let (pool, datastore) = (first("ResourcePool")?, first("Datastore")?);
        let host = first("HostSystem")?;
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

/// What a session sees.
struct View<'a> {
    world: &'a World,
    cookie: Option<&'a str>,
    account: &'a str,
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

impl World {
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
