//! The state of a vCenter, and its methods.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::account::Accounts;
use super::collect::collect;
use super::element::Element;
use super::fault::{Fault, returnval};
use super::inventory::{Inventory, ROOT, is_a};
use super::journal::Machine;
use super::machine::Vm;
use super::order;
use super::task::{State, Task};
use super::value::{Data, Reference, Value, escape};
use super::view::View;

/// The state of a vCenter.
#[derive(Debug)]
pub(super) struct VCenterState {
    pub accounts: Accounts,
    pub inventory: Inventory,
    pub vms: BTreeMap<String, Vm>,
    /// Virtual machines that no account can see.
    pub hidden: BTreeSet<String>,
    pub tasks: BTreeMap<String, Task>,
    /// The faults of the next tasks, by method.
    pub task_faults: VecDeque<(String, Fault)>,
    pub version: String,
    pub api_type: String,
    pub instance_uuid: String,
    pub tasks_take: Duration,
    pub shutdown_takes: Duration,
    pub addresses_after: Duration,
    /// The maximum number of objects in an answer, whatever the client requests.
    pub page: usize,
    pages: BTreeMap<String, Vec<String>>,
    pub views: BTreeMap<String, Vec<Reference>>,
    /// When running tasks end.
    pub due: BTreeSet<(Instant, String)>,
    pub shutting_down: Vec<(Instant, String)>,
    pub next_address: u32,
}

/// A call.
pub(super) struct Call<'a> {
    pub method: &'a Element,
    pub cookie: Option<&'a str>,
    pub agent: &'a str,
}

/// The answer to a call, and a cookie to set.
pub(super) struct Answer {
    pub body: Result<String, Fault>,
    pub cookie: Option<String>,
}

impl VCenterState {
    pub fn new() -> Self {
        Self {
            accounts: Accounts::default(),
            inventory: Inventory::empty(),
            vms: BTreeMap::new(),
            hidden: BTreeSet::new(),
            tasks: BTreeMap::new(),
            task_faults: VecDeque::new(),
            version: "8.0.2".to_owned(),
            api_type: "VirtualCenter".to_owned(),
            instance_uuid: uuid::Uuid::new_v4().to_string(),
            tasks_take: Duration::ZERO,
            shutdown_takes: Duration::ZERO,
            addresses_after: Duration::ZERO,
            page: 100,
            pages: BTreeMap::new(),
            views: BTreeMap::new(),
            due: BTreeSet::new(),
            shutting_down: Vec::new(),
            next_address: 1,
        }
    }

    /// Executes a call.
    pub fn call(&mut self, call: &Call<'_>) -> Answer {
        self.complete_due_tasks();
        if call.method.name == "Login" {
            return self.log_in(call);
        }
        let body = self.execute(call);
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

    fn execute(&mut self, call: &Call<'_>) -> Result<String, Fault> {
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

    /// The service content, which needs no login.
    pub fn content(&self) -> Data {
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
            .descendants(&container.text, method.is_true("recursive"));
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
        let instance = method.is_true("instanceUuid");
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
            .filter(|(id, vm)| method.is_true("vmSearch") && is(vm) && !self.hidden.contains(*id));
        let found = found.map(|(id, _)| id.clone());
        let inside = |id: &String| {
            within.is_none_or(|dc| self.inventory.datacenter_of(id).as_deref() == Some(dc))
        };
        found.filter(inside).collect()
    }

    /// Removes finished tasks.
    pub fn forget_tasks(&mut self) {
        self.tasks
            .retain(|_, task| matches!(task.state, State::Running(_)));
    }

    /// All virtual machines, for tests.
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
}
