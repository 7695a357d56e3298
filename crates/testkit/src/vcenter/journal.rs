//! The journal of a vCenter: connections, logins and calls.

use std::time::Instant;

use super::faults::ConnectionMode;

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal {
    /// Connections, including those without a request.
    pub connections: usize,
    /// Open connections.
    pub open: usize,
    /// How the next connection is accepted.
    pub connection_mode: ConnectionMode,
    pub logins: Vec<Login>,
    pub calls: Vec<Call>,
}

/// A login attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The account.
    pub account: String,
    /// Whether it succeeded.
    pub ok: bool,
    /// The time.
    pub at: Instant,
}

/// A received call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its method, as in `CloneVM_Task`.
    pub method: String,
    /// The account of its session.
    pub account: Option<String>,
    /// Its target object, as in `VirtualMachine:vm-1`.
    pub object: String,
    /// The time.
    pub at: Instant,
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSession {
    /// Its account.
    pub account: String,
    /// The key by which it can be terminated.
    pub key: String,
    /// The user agent of the client.
    pub user_agent: String,
    /// The number of calls.
    pub calls: u64,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its ID, as in `vm-65`.
    pub id: String,
    /// Its path, as in `/DC0/vm/ubuntu`.
    pub path: String,
    /// Its name.
    pub name: String,
    /// The UUID that its guest sees.
    pub bios_uuid: String,
    /// The UUID that its owner chose.
    pub instance_uuid: String,
    /// Whether it is a template.
    pub template: bool,
    /// Whether it is powered on.
    pub powered_on: bool,
    /// The number of CPUs.
    pub cpus: i32,
    /// CPUs per socket.
    pub cores_per_socket: i32,
    /// The memory size.
    pub memory_mib: i64,
    /// The sizes of its disks.
    pub disks_gib: Vec<i64>,
    /// The networks of its network cards, by name.
    pub networks: Vec<String>,
    /// The MAC addresses of its network cards.
    pub macs: Vec<String>,
    /// The extra configuration that its guest can read.
    pub extra: std::collections::BTreeMap<String, String>,
    /// The path of its resource pool.
    pub pool: String,
    /// The path of its datastore.
    pub datastore: String,
    /// Whether it is a linked clone of its template.
    pub linked: bool,
    /// Whether its guest sees the UUIDs of its disks.
    pub disk_uuids: bool,
    /// The account that cloned it; empty if it existed from the start.
    pub created_by: String,
}
