//! A vCenter, over SOAP: sessions, inventory, virtual machines, tasks.

use insula_identity::credential::Credential;
use insula_identity::endpoint::{Endpoint, Trust};
use insula_identity::session::{Connector, LoginError};

/// Something in a vCenter, by type and ID, as in `VirtualMachine:vm-65`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    pub kind: String,
    pub id: String,
}

/// What a vCenter says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub version: String,
    pub api_version: String,
    /// `VirtualCenter`, or it is none.
    pub api_type: String,
    pub instance_uuid: String,
}

/// Why a vCenter did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The session is over.
    #[error("the session is over")]
    NotAuthenticated,
    /// The object is not there any more.
    #[error("{0} is not there any more")]
    Gone(String),
    /// It says why, by the type of its fault (`InvalidPowerState`, `DuplicateName`,
    /// `NoPermission`) and in its own words.
    #[error("the vCenter refuses {method}: {message} ({fault})")]
    Fault { method: &'static str, fault: String, message: String },
    /// It does not answer.
    #[error("the vCenter does not answer: {0}")]
    Unreachable(String),
    /// It answers, but not as a vCenter does.
    #[error("the vCenter's answer to {method} is not to be understood: {why}")]
    Unexpected { method: &'static str, why: String },
}

/// Opens sessions.
pub struct VCenters {}

/// A session. One at a time for each account, whoever uses it.
pub struct Session {}

impl VCenters {
    /// `patience` is how long any request may take. Certificates are verified with the
    /// machine's roots and these.
    pub fn new(patience: std::time::Duration, further_roots: Vec<Vec<u8>>) -> Self {
        todo!("{patience:?}{further_roots:?}")
    }
}

impl Connector for VCenters {
    type Session = Session;
    async fn log_in(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        credential: &Credential,
    ) -> Result<Session, LoginError> {
        todo!("{endpoint:?}{trust:?}{credential:?}")
    }
    async fn is_alive(&self, _: &Session) -> Result<bool, LoginError> {
        todo!()
    }
    async fn log_out(&self, _: &Session) {
        todo!()
    }
}

/// What a clone is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clone {
    pub name: String,
    /// The UID of its VSphereVM: a clone is found by it before its BIOS UUID is known.
    pub instance_uuid: String,
    pub folder: Option<Object>,
    pub pool: Option<Object>,
    pub datastore: Option<Object>,
    /// The snapshot that a linked clone stands on.
    pub snapshot: Option<Object>,
    pub hardware: Hardware,
    /// Keys and values for the guest. Values are secret: they hold what a machine starts with.
    pub extra: Vec<(String, insula_identity::credential::Hidden)>,
    /// Cards of the template are removed, these are added.
    pub cards: Vec<Card>,
    /// Cards (by key) that the template has.
    pub cards_of_template: Vec<i32>,
    /// Disk sizes in GiB, of the template's first disk, with its key, if it is to grow.
    pub first_disk: Option<(i32, i64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    pub cpus: i32,
    pub cores_per_socket: Option<i32>,
    pub memory_mib: i64,
}

/// A network card that is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub network: Object,
    pub mac: Option<String>,
}

/// What is known of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub name: String,
    pub bios_uuid: Option<String>,
    pub instance_uuid: Option<String>,
    pub powered_on: bool,
    pub host: Option<Object>,
    pub host_name: Option<String>,
    pub guest_host_name: Option<String>,
    /// Whether VMware Tools run, so that it can be asked to shut down.
    pub tools_running: bool,
    /// Cards in order of their keys.
    pub cards: Vec<MachineCard>,
    /// `guestinfo.metadata`, as it is set.
    pub metadata: Option<String>,
    pub current_snapshot: Option<Object>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineCard {
    pub key: i32,
    pub mac: String,
    pub network: Option<String>,
    pub connected: bool,
    pub addresses: Vec<String>,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    Running,
    Done(Option<Object>),
    Failed { fault: String, message: String },
    /// A vCenter forgets tasks after a while.
    Unknown,
}

impl Session {
    pub fn about(&self) -> &About {
        todo!()
    }
    /// The object at a path like `/DC0/vm/templates/ubuntu`.
    pub async fn find_by_path(&self, path: &str) -> Result<Option<Object>, Error> {
        todo!("{path}")
    }
    pub async fn find_vm_by_bios_uuid(&self, uuid: &str) -> Result<Option<Object>, Error> {
        todo!("{uuid}")
    }
    pub async fn find_vm_by_instance_uuid(&self, uuid: &str) -> Result<Option<Object>, Error> {
        todo!("{uuid}")
    }
    /// What stands for a datacenter, folder, pool, datastore, network or virtual machine that
    /// is written as people do: a path from the root, a path below the datacenter's folder of
    /// such things, a name that is unique there, or nothing (or `*`) for the only one.
    pub async fn locate(&self, what: Place, within: &Object, text: Option<&str>)
    -> Result<Object, NotLocated> {
        todo!("{what:?}{within:?}{text:?}")
    }
    pub async fn datacenter(&self, text: Option<&str>) -> Result<Object, NotLocated> {
        todo!("{text:?}")
    }
    pub async fn machine(&self, vm: &Object) -> Result<Machine, Error> {
        todo!("{vm:?}")
    }
    pub async fn clone_vm(&self, template: &Object, clone: &Clone) -> Result<Object, Error> {
        todo!("{template:?}{clone:?}")
    }
    pub async fn set_extra(&self, vm: &Object, extra: &[(String, String)]) -> Result<Object, Error> {
        todo!("{vm:?}{extra:?}")
    }
    pub async fn power_on(&self, vm: &Object) -> Result<Object, Error> {
        todo!("{vm:?}")
    }
    pub async fn power_off(&self, vm: &Object) -> Result<Object, Error> {
        todo!("{vm:?}")
    }
    pub async fn shut_down_guest(&self, vm: &Object) -> Result<(), Error> {
        todo!("{vm:?}")
    }
    pub async fn destroy(&self, vm: &Object) -> Result<Object, Error> {
        todo!("{vm:?}")
    }
    pub async fn task(&self, task: &Object) -> Result<Task, Error> {
        todo!("{task:?}")
    }
}

/// What is looked for in a datacenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Folder,
    ResourcePool,
    Datastore,
    Network,
    ComputeCluster,
    VirtualMachine,
}

/// Why something was not found in an inventory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLocated {
    #[error("there is no {what} {text:?}")]
    Missing { what: &'static str, text: String },
    #[error("{what} {text:?} may be any of {found}")]
    Ambiguous { what: &'static str, text: String, found: String },
    #[error(transparent)]
    Error(#[from] Error),
}
