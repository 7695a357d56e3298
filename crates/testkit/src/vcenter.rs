//! A fake vCenter on loopback, over HTTPS, with accounts, an inventory and a journal, and with
//! faults on request.
//!
//! Its answers and faults are those of a vCenter on the wire, as far as a client of virtual
//! machines needs them, including the required order of elements in a request. Its first datacenter
//! is `DC0`, with the usual content of vCenter simulators: the cluster `DC0_C0`, the datastore
//! `LocalDS_0`, the networks `VM Network` and `DC0_DVPG0`, and the templates `/DC0/vm/ubuntu` and
//! `/DC0/vm/templates/linked`, which has a snapshot `base`.

mod account;
mod certificate;
mod collect;
mod element;
mod fault;
mod faults;
mod inventory;
mod journal;
mod machine;
mod operations;
mod order;
mod serve;
mod state;
mod task;
mod value;
mod view;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use fault::Fault;
pub use faults::ConnectionMode;
pub use journal::{Call, Login, Machine, OpenSession};

use certificate::Certificate;
use faults::RequestedFaults;
use serve::{Shared, lock};
use state::VCenterState;

/// A fake vCenter. Dropping it stops the server.
pub struct FakeVCenter {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// How long a test waits before it fails.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// How often state that changes only with time is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl FakeVCenter {
    /// Starts one on a free port, with these accounts and their passwords.
    pub async fn start(accounts: &[(&str, &str)]) -> anyhow::Result<Self> {
        let listener = serve::bind((Ipv4Addr::LOCALHOST, 0).into())?.listen(1024)?;
        let address = listener.local_addr()?;
        let mut world = VCenterState::new();
        add_default_inventory(&mut world).context("the first datacenter is complete")?;
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
            faults: watch::Sender::default(),
            journal: watch::Sender::default(),
            certificate: Mutex::new(Certificate::generate(&names())?),
        });
        let serving = tokio::spawn(serve::serve(listener, address, Arc::clone(&shared)));
        let this = Self {
            address,
            shared,
            serving,
        };
        for (account, password) in accounts {
            this.set_password(account, password);
        }
        Ok(this)
    }

    /// Its address, as in `127.0.0.1:8989`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The same address by another name, as in `localhost:8989`.
    pub fn other_address(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// The SHA-1 thumbprint of its certificate, in upper case with colons.
    pub fn thumbprint_sha1(&self) -> String {
        lock(&self.shared.certificate).sha1()
    }

    /// The SHA-256 thumbprint.
    pub fn thumbprint_sha256(&self) -> String {
        lock(&self.shared.certificate).sha256()
    }

    /// The CA of its certificate.
    pub fn ca_pem(&self) -> String {
        lock(&self.shared.certificate).ca_pem.clone()
    }

    /// The same in DER.
    pub fn ca_der(&self) -> anyhow::Result<Vec<u8>> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        Ok(CertificateDer::from_pem_slice(self.ca_pem().as_bytes())?.to_vec())
    }

    /// Replaces its certificate with one of another CA.
    pub fn renew_certificate(&self) -> anyhow::Result<()> {
        *lock(&self.shared.certificate) = Certificate::generate(&names())?;
        Ok(())
    }

    /// Stops it: connections are refused from now on.
    pub async fn stop(&mut self) {
        self.serving.abort();
        (&mut self.serving).await.ok();
    }
}

/// Accounts and sessions.
impl FakeVCenter {
    /// Changes the password of an account. Its sessions continue.
    pub fn set_password(&self, account: &str, password: &str) {
        self.world(|world| {
            let account = world.accounts.accounts.entry(account.to_owned());
            password.clone_into(&mut account.or_default().password);
        });
    }

    /// Removes an account and its sessions.
    pub fn remove_account(&self, account: &str) {
        self.world(|world| {
            world.accounts.accounts.remove(account);
            world.accounts.terminate_all(account);
        });
    }

    /// Takes the right to list sessions from an account.
    pub fn limit(&self, account: &str) {
        self.world(|world| {
            if let Some(account) = world.accounts.accounts.get_mut(account) {
                account.limited = true;
            }
        });
    }

    /// Locks accounts after this many failed logins in a row.
    pub fn lock_out_after(&self, failures: u32) {
        self.world(|world| world.accounts.max_failures = Some(failures));
    }

    /// Whether an account is locked.
    pub fn is_locked(&self, account: &str) -> bool {
        self.world(|world| {
            let account = world.accounts.accounts.get(account);
            account.is_some_and(|account| account.locked)
        })
    }

    /// Unlocks an account.
    pub fn unlock(&self, account: &str) {
        self.world(|world| {
            if let Some(account) = world.accounts.accounts.get_mut(account) {
                (account.locked, account.failures) = (false, 0);
            }
        });
    }

    /// Sessions end after being idle for this long.
    pub fn idle_timeout(&self, after: Duration) {
        self.world(|world| world.accounts.idle = Some(after));
    }

    /// Sessions end after this long, used or not.
    pub fn lifetime(&self, most: Duration) {
        self.world(|world| world.accounts.lifetime = Some(most));
    }

    /// Terminates a session, as an administrator does. Returns whether it existed.
    pub fn terminate(&self, key: &str) -> bool {
        self.world(|world| world.accounts.terminate(key))
    }

    /// Terminates all sessions of an account.
    pub fn terminate_all(&self, account: &str) {
        self.world(|world| world.accounts.terminate_all(account));
    }
}

/// Faults.
impl FakeVCenter {
    /// Calls of this method (`*` for all) take this long from now on.
    pub fn delay(&self, method: &str, by: Duration) {
        self.faults(|faults| {
            faults.delays.insert(method.to_owned(), by);
        });
    }

    /// Calls of this method (`*` for all) are not answered until [`Self::resume`].
    pub fn hang(&self, method: &str) {
        self.faults(|faults| {
            faults.hangs.insert(method.to_owned());
        });
    }

    /// Changes how connections are accepted. Once it is closed, existing connections are closed
    /// too.
    pub async fn set_connection_mode(&self, connection_mode: ConnectionMode) {
        self.faults(|faults| faults.connection_mode = connection_mode);
        self.await_connection_mode(connection_mode).await;
    }

    /// The next call of this method (`*` for any) fails with this fault and has no effect.
    pub fn fault_next(&self, method: &str, fault: Fault) {
        self.faults(|faults| faults.faults.push_back((method.to_owned(), fault)));
    }

    /// The next call of this method (`*` for any) takes effect, and its answer is lost.
    pub fn drop_connection_after(&self, method: &str) {
        self.faults(|faults| faults.lost_answers.push_back(method.to_owned()));
    }

    /// Ends all faults. Calls that hang are answered.
    pub async fn resume(&self) {
        self.faults(|faults| *faults = RequestedFaults::default());
        self.await_connection_mode(ConnectionMode::Open).await;
    }

    /// Waits until connections are accepted in this mode, or the server was stopped.
    async fn await_connection_mode(&self, connection_mode: ConnectionMode) {
        let mut journal = self.shared.journal.subscribe();
        let shown = journal.wait_for(|journal| journal.connection_mode == connection_mode);
        tokio::time::timeout(WAIT_TIMEOUT, shown).await.ok();
    }
}

/// Inventory, virtual machines and tasks.
impl FakeVCenter {
    /// Reports another version.
    pub fn version(&self, version: &str) {
        self.world(|world| version.clone_into(&mut world.version));
    }

    /// Reports another API type: `HostAgent` is an ESXi.
    pub fn api_type(&self, of: &str) {
        self.world(|world| of.clone_into(&mut world.api_type));
    }

    /// Adds a datacenter with all that `DC0` has but its templates.
    pub fn add_datacenter(&self, name: &str) {
        self.world(|world| world.inventory.add_datacenter(name));
    }

    /// Adds a folder, as in `/DC0/vm/team`. Its parent must exist.
    pub fn add_folder(&self, path: &str) {
        self.add("Folder", "group-v", path);
    }

    /// Adds a resource pool, as in `/DC0/host/DC0_C0/Resources/team`.
    pub fn add_pool(&self, path: &str) {
        self.add("ResourcePool", "resgroup-", path);
    }

    /// Adds a datastore, as in `/DC0/datastore/fast`.
    pub fn add_datastore(&self, path: &str) {
        self.add("Datastore", "datastore-", path);
    }

    /// Adds a standard network, as in `/DC0/network/team`.
    pub fn add_network(&self, path: &str) {
        self.add("Network", "network-", path);
    }

    /// Adds a network that another product manages.
    pub fn add_opaque_network(&self, path: &str) {
        self.add("OpaqueNetwork", "network-o", path);
    }

    /// Adds a template, as in `/DC0/vm/debian`, optionally with a snapshot. Returns its ID.
    pub fn add_template(&self, path: &str, snapshot: Option<&str>) -> String {
        self.add_vm(path, true, snapshot)
    }

    /// Adds a powered-off virtual machine. Returns its ID.
    pub fn add_machine(&self, path: &str) -> String {
        self.add_vm(path, false, None)
    }

    /// Tasks take this long from now on.
    pub fn tasks_take(&self, long: Duration) {
        self.world(|world| world.tasks_take = long);
    }

    /// The next task of this method is accepted, and fails with this fault.
    pub fn fail_next_task(&self, method: &str, fault: Fault) {
        self.world(|world| world.task_faults.push_back((method.to_owned(), fault)));
    }

    /// Removes all finished tasks, as vCenters do after a while.
    pub fn forget_tasks(&self) {
        self.world(VCenterState::forget_tasks);
    }

    /// Guests have addresses and running tools this long after power on.
    pub fn addresses_after(&self, long: Duration) {
        self.world(|world| world.addresses_after = long);
    }

    /// Sets the guest addresses of a virtual machine.
    pub fn set_addresses(&self, id: &str, addresses: &[&str]) {
        self.world(|world| {
            if let Some(vm) = world.vms.get_mut(id) {
                vm.addresses = addresses
                    .iter()
                    .map(|&address| address.to_owned())
                    .collect();
            }
        });
    }

    /// Guests take this long to shut down; forever, if it is the maximum.
    pub fn shutdown_takes(&self, long: Duration) {
        self.world(|world| world.shutdown_takes = long);
    }

    /// Answers hold at most this many objects.
    pub fn page(&self, most: usize) {
        self.world(|world| world.page = most);
    }

    /// Destroys a virtual machine without the client's knowledge.
    pub fn destroy(&self, id: &str) {
        self.world(|world| {
            world.vms.remove(id);
            world.inventory.remove(id);
        });
    }

    /// Renames a virtual machine without the client's knowledge.
    pub fn rename(&self, id: &str, name: &str) {
        self.world(|world| world.inventory.rename(id, name));
    }

    /// Hides a virtual machine from all accounts: it exists, and is not found.
    pub fn hide(&self, id: &str) {
        self.world(|world| world.hidden.insert(id.to_owned()));
    }

    /// Makes it visible again.
    pub fn reveal(&self, id: &str) {
        self.world(|world| world.hidden.remove(id));
    }

    fn add(&self, kind: &'static str, prefix: &str, path: &str) {
        let added = self.world(|world| world.inventory.add_at(kind, prefix, path));
        assert!(added.is_some(), "the parent of {path} is not there");
    }

    fn add_vm(&self, path: &str, template: bool, snapshot: Option<&str>) -> String {
        let added = self.world(|world| world.add_machine(path, template, snapshot));
        assert!(added.is_some(), "the parent of {path} is not there");
        added.unwrap_or_default()
    }
}

/// The journal.
impl FakeVCenter {
    /// The number of connections, including those without a request.
    pub fn connections(&self) -> usize {
        self.shared.journal.borrow().connections
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.shared.journal.borrow().open
    }

    /// All login attempts.
    pub fn logins(&self) -> Vec<Login> {
        self.shared.journal.borrow().logins.clone()
    }

    /// All calls, in the order in which they arrived.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.journal.borrow().calls.clone()
    }

    /// The number of calls of a method.
    pub fn called(&self, method: &str) -> usize {
        let journal = self.shared.journal.borrow();
        journal
            .calls
            .iter()
            .filter(|call| call.method == method)
            .count()
    }

    /// Clears the logins, calls and connections so far; open connections stay counted.
    pub fn clear_log(&self) {
        self.shared.journal.send_modify(|journal| {
            journal.connections = 0;
            journal.logins.clear();
            journal.calls.clear();
        });
    }

    /// The open sessions, by account and key.
    pub fn open_sessions(&self) -> Vec<OpenSession> {
        let mut open: Vec<_> = self.world(|world| {
            let sessions = world.accounts.sessions();
            let sessions = sessions.map(|session| OpenSession {
                account: session.account.clone(),
                key: session.key.clone(),
                user_agent: session.agent.clone(),
                calls: session.calls,
            });
            sessions.collect()
        });
        open.sort_by(|a, b| (&a.account, &a.key).cmp(&(&b.account, &b.key)));
        open
    }

    /// All virtual machines, including templates.
    pub fn machines(&self) -> Vec<Machine> {
        self.world(|world| world.machines())
    }

    /// The virtual machine at a path.
    pub fn machine(&self, path: &str) -> Option<Machine> {
        self.machines()
            .into_iter()
            .find(|machine| machine.path == path)
    }

    /// Waits until this holds.
    pub async fn wait_for(&self, what: &str, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let mut journal = self.shared.journal.subscribe();
        let waiting = async {
            loop {
                journal.borrow_and_update();
                if holds(self) {
                    return;
                }
                // State that changes only with time sends no notification.
                tokio::time::timeout(POLL_INTERVAL, journal.changed())
                    .await
                    .ok();
            }
        };
        let waited = tokio::time::timeout(WAIT_TIMEOUT, waiting).await;
        waited.with_context(|| format!("not in time: {what}"))
    }

    fn world<T>(&self, act: impl FnOnce(&mut VCenterState) -> T) -> T {
        let mut world = lock(&self.shared.world);
        world.complete_due_tasks();
        act(&mut world)
    }

    fn faults(&self, act: impl FnOnce(&mut RequestedFaults)) {
        self.shared.faults.send_modify(act);
    }
}

impl Drop for FakeVCenter {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn names() -> Vec<String> {
    ["localhost", "127.0.0.1"].map(str::to_owned).to_vec()
}

fn add_default_inventory(world: &mut VCenterState) -> Option<()> {
    world.inventory.add_datacenter("DC0");
    world.add_machine("/DC0/vm/ubuntu", true, None)?;
    world
        .inventory
        .add_at("Folder", "group-v", "/DC0/vm/templates")?;
    world.add_machine("/DC0/vm/templates/linked", true, Some("base"))?;
    Some(())
}
