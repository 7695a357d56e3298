//! What a vCenter remembers of those who came.

use std::time::Instant;

use super::trouble::Door;

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// Connections, also those on which nothing was said.
    pub connections: usize,
    /// Those that are open now.
    pub open: usize,
    /// How the next is received.
    pub door: Door,
    pub logins: Vec<Login>,
    pub calls: Vec<Call>,
}

/// An attempt to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Who wanted to.
    pub account: String,
    /// Whether it worked.
    pub ok: bool,
    /// When.
    pub at: Instant,
}

/// A call that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its method, as in `CloneVM_Task`.
    pub method: String,
    /// Whose session it came with.
    pub account: Option<String>,
    /// What it was for, as in `VirtualMachine:vm-1`.
    pub object: String,
    /// When.
    pub at: Instant,
}

/// A session that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// Whose it is.
    pub account: String,
    /// Its key, by which it is terminated.
    pub key: String,
    /// What the client calls itself.
    pub user_agent: String,
    /// How often it was used.
    pub calls: u64,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its ID, as in `vm-65`.
    pub id: String,
    /// Where it is, as in `/DC0/vm/ubuntu`.
    pub path: String,
    /// Its name.
    pub name: String,
    /// The UUID that its guest sees.
    pub bios_uuid: String,
    /// The UUID that its owner chose.
    pub instance_uuid: String,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it runs.
    pub powered_on: bool,
    /// Its processors.
    pub cpus: i32,
    /// Processors in each socket.
    pub cores_per_socket: i32,
    /// Its memory.
    pub memory_mib: i64,
    /// The sizes of its disks.
    pub disks_gib: Vec<i64>,
    /// The networks of its cards, by name.
    pub networks: Vec<String>,
    /// The addresses of its cards.
    pub macs: Vec<String>,
    /// What its guest is told.
    pub extra: std::collections::BTreeMap<String, String>,
    /// Its resource pool, as a path.
    pub pool: String,
    /// Its datastore, as a path.
    pub datastore: String,
    /// Whether it stands on a snapshot of its template.
    pub linked: bool,
    /// Whether its disks show their UUIDs to the guest.
    pub disk_uuids: bool,
    /// Who cloned it; nobody if it was there from the beginning.
    pub created_by: String,
}
