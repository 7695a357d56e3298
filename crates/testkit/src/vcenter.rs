//! A vCenter on loopback, over HTTPS, with accounts, an inventory and a log: it does what a
//! vCenter does, and wrong what it is told to do wrong.
//!
//! What it says and refuses is what a vCenter says and refuses on the wire, as far as a
//! client of virtual machines comes: also that the elements of a request have an order.
//! Its first datacenter is `DC0`, with what vCenter simulators have in theirs: the cluster
//! `DC0_C0`, the datastore `LocalDS_0`, the networks `VM Network` and `DC0_DVPG0`, and the
//! templates `/DC0/vm/ubuntu` and `/DC0/vm/templates/linked`, which has a snapshot `base`.

mod account;
mod certificate;
mod collect;
mod element;
mod fault;
mod inventory;
mod journal;
mod machine;
mod order;
mod serve;
mod task;
mod trouble;
mod value;
mod view;
mod work;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use fault::Fault;
pub use journal::{Call, Login, Machine, OpenSession};
pub use trouble::Door;

use certificate::Certificate;
use serve::{Shared, lock};
use trouble::Trouble;
use world::World;

/// A vCenter. It ends with this value.
pub struct FakeVCenter {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// A test that waits longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What only time changes is looked at so often.
const LOOK: Duration = Duration::from_millis(10);

impl FakeVCenter {
    /// One on a free port, with these accounts and their passwords.
    pub async fn start(accounts: &[(&str, &str)]) -> anyhow::Result<Self> {
        let listener = serve::bind((Ipv4Addr::LOCALHOST, 0).into())?.listen(1024)?;
        let address = listener.local_addr()?;
        let mut world = World::new();
        furnish(&mut world).context("the first datacenter is complete")?;
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
            trouble: watch::Sender::default(),
            journal: watch::Sender::default(),
            certificate: Mutex::new(Certificate::make(&names())?),
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

    /// Where it is, as in `127.0.0.1:8989`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The same place by another name, as in `localhost:8989`.
    pub fn other_address(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// The thumbprint of its certificate, in upper case with colons.
    pub fn thumbprint_sha1(&self) -> String {
        lock(&self.shared.certificate).sha1()
    }

    /// The same, by the newer digest.
    pub fn thumbprint_sha256(&self) -> String {
        lock(&self.shared.certificate).sha256()
    }

    /// Who vouches for it.
    pub fn ca_pem(&self) -> String {
        lock(&self.shared.certificate).ca_pem.clone()
    }

    /// The same, in binary.
    pub fn ca_der(&self) -> anyhow::Result<Vec<u8>> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        Ok(CertificateDer::from_pem_slice(self.ca_pem().as_bytes())?.to_vec())
    }

    /// From now on it shows another certificate, of another authority.
    pub fn renew_certificate(&self) -> anyhow::Result<()> {
        *lock(&self.shared.certificate) = Certificate::make(&names())?;
        Ok(())
    }

    /// Stops it: nobody listens there any more.
    pub async fn stop(&mut self) {
        self.serving.abort();
        (&mut self.serving).await.ok();
    }
}

/// Accounts and sessions.
impl FakeVCenter {
    /// An account has this password from now on. Its sessions go on.
    pub fn set_password(&self, account: &str, password: &str) {
        self.world(|world| {
            let account = world.accounts.accounts.entry(account.to_owned());
            password.clone_into(&mut account.or_default().password);
        });
    }

    /// There is no such account any more, nor a session of it.
    pub fn remove_account(&self, account: &str) {
        self.world(|world| {
            world.accounts.accounts.remove(account);
            world.accounts.terminate_all(account);
        });
    }

    /// This account may work, but not look at sessions.
    pub fn limit(&self, account: &str) {
        self.world(|world| {
            if let Some(account) = world.accounts.accounts.get_mut(account) {
                account.limited = true;
            }
        });
    }

    /// Accounts are locked after so many failed logins in a row.
    pub fn lock_out_after(&self, failures: u32) {
        self.world(|world| world.accounts.patience = Some(failures));
    }

    /// Whether an account is locked.
    pub fn is_locked(&self, account: &str) -> bool {
        self.world(|world| {
            let account = world.accounts.accounts.get(account);
            account.is_some_and(|account| account.locked)
        })
    }

    /// An administrator unlocks an account.
    pub fn unlock(&self, account: &str) {
        self.world(|world| {
            if let Some(account) = world.accounts.accounts.get_mut(account) {
                (account.locked, account.failures) = (false, 0);
            }
        });
    }

    /// Sessions end after being unused for so long.
    pub fn idle_timeout(&self, after: Duration) {
        self.world(|world| world.accounts.idle = Some(after));
    }

    /// Sessions end after so long, used or not.
    pub fn lifetime(&self, most: Duration) {
        self.world(|world| world.accounts.lifetime = Some(most));
    }

    /// Ends a session, as an administrator does. Whether it was there.
    pub fn terminate(&self, key: &str) -> bool {
        self.world(|world| world.accounts.terminate(key))
    }

    /// Ends all sessions of an account.
    pub fn terminate_all(&self, account: &str) {
        self.world(|world| world.accounts.terminate_all(account));
    }
}

/// Trouble.
impl FakeVCenter {
    /// Calls of this method (`*` for all) take so long from now on.
    pub fn delay(&self, method: &str, by: Duration) {
        self.trouble(|trouble| {
            trouble.delays.insert(method.to_owned(), by);
        });
    }

    /// Calls of this method (`*` for all) are not answered until [`Self::resume`].
    pub fn hang(&self, method: &str) {
        self.trouble(|trouble| {
            trouble.hangs.insert(method.to_owned());
        });
    }

    /// How it receives those who connect, from now on. Once it is closed, those who are
    /// connected are hung up on.
    pub async fn door(&self, door: Door) {
        self.trouble(|trouble| trouble.door = door);
        self.shows(door).await;
    }

    /// The next call of this method (`*` for any) is not carried out and answered so.
    pub fn fault_next(&self, method: &str, fault: Fault) {
        self.trouble(|trouble| trouble.faults.push_back((method.to_owned(), fault)));
    }

    /// The next call of this method (`*` for any) is carried out, and its answer is lost.
    pub fn drop_connection_after(&self, method: &str) {
        self.trouble(|trouble| trouble.losses.push_back(method.to_owned()));
    }

    /// The end of all trouble. Calls that hang are answered.
    pub async fn resume(&self) {
        self.trouble(|trouble| *trouble = Trouble::default());
        self.shows(Door::Open).await;
    }

    /// Waits until the door is so. It is not, once the server was stopped.
    async fn shows(&self, door: Door) {
        let mut journal = self.shared.journal.subscribe();
        let shown = journal.wait_for(|journal| journal.door == door);
        tokio::time::timeout(PATIENCE, shown).await.ok();
    }
}

/// Inventory, machines and tasks.
impl FakeVCenter {
    /// Says that it is another version.
    pub fn version(&self, version: &str) {
        self.world(|world| version.clone_into(&mut world.version));
    }

    /// Says that it is of another type: `HostAgent` is an ESXi.
    pub fn api_type(&self, of: &str) {
        self.world(|world| of.clone_into(&mut world.api_type));
    }

    /// One datacenter more, with all that `DC0` has but its templates.
    pub fn add_datacenter(&self, name: &str) {
        self.world(|world| world.inventory.add_datacenter(name));
    }

    /// A folder, as in `/DC0/vm/team`. Its parent is there.
    pub fn add_folder(&self, path: &str) {
        self.add("Folder", "group-v", path);
    }

    /// A resource pool, as in `/DC0/host/DC0_C0/Resources/team`.
    pub fn add_pool(&self, path: &str) {
        self.add("ResourcePool", "resgroup-", path);
    }

    /// A datastore, as in `/DC0/datastore/fast`.
    pub fn add_datastore(&self, path: &str) {
        self.add("Datastore", "datastore-", path);
    }

    /// A standard network, as in `/DC0/network/team`.
    pub fn add_network(&self, path: &str) {
        self.add("Network", "network-", path);
    }

    /// A network that another product manages.
    pub fn add_opaque_network(&self, path: &str) {
        self.add("OpaqueNetwork", "network-o", path);
    }

    /// A template, as in `/DC0/vm/debian`, with a snapshot if one is named. Its ID.
    pub fn add_template(&self, path: &str, snapshot: Option<&str>) -> String {
        self.add_vm(path, true, snapshot)
    }

    /// A machine which does not run. Its ID.
    pub fn add_machine(&self, path: &str) -> String {
        self.add_vm(path, false, None)
    }

    /// Tasks take so long from now on.
    pub fn tasks_take(&self, long: Duration) {
        self.world(|world| world.tasks_take = long);
    }

    /// The next task of this method is accepted, and fails so.
    pub fn fail_next_task(&self, method: &str, fault: Fault) {
        self.world(|world| world.doomed.push_back((method.to_owned(), fault)));
    }

    /// It forgets all tasks that have ended, as vCenters do after a while.
    pub fn forget_tasks(&self) {
        self.world(World::forget_tasks);
    }

    /// Guests have addresses, and tools that run, so long after power on.
    pub fn addresses_after(&self, long: Duration) {
        self.world(|world| world.addresses_after = long);
    }

    /// What the guest of this machine has for addresses.
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

    /// Guests that are asked to shut down take so long; forever, if it is the maximum.
    pub fn shutdown_takes(&self, long: Duration) {
        self.world(|world| world.shutdown_takes = long);
    }

    /// Answers hold at most so many objects.
    pub fn page(&self, most: usize) {
        self.world(|world| world.page = most);
    }

    /// Somebody destroys a machine behind everybody's back.
    pub fn destroy(&self, id: &str) {
        self.world(|world| {
            world.vms.remove(id);
            world.inventory.remove(id);
        });
    }

    /// Somebody renames a machine.
    pub fn rename(&self, id: &str, name: &str) {
        self.world(|world| world.inventory.rename(id, name));
    }

    /// Accounts may not look at this machine from now on: it is there, and is not found.
    pub fn hide(&self, id: &str) {
        self.world(|world| world.hidden.insert(id.to_owned()));
    }

    /// They may again.
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

/// The log.
impl FakeVCenter {
    /// How many connections there were, also those on which nothing was said.
    pub fn connections(&self) -> usize {
        self.shared.journal.borrow().connections
    }

    /// How many connections there are.
    pub fn open_connections(&self) -> usize {
        self.shared.journal.borrow().open
    }

    /// All attempts to log in.
    pub fn logins(&self) -> Vec<Login> {
        self.shared.journal.borrow().logins.clone()
    }

    /// All calls, in the order in which they arrived.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.journal.borrow().calls.clone()
    }

    /// How often a method was called.
    pub fn called(&self, method: &str) -> usize {
        let journal = self.shared.journal.borrow();
        journal
            .calls
            .iter()
            .filter(|call| call.method == method)
            .count()
    }

    /// Forgets logins, calls and connections so far; what is open stays counted.
    pub fn clear_log(&self) {
        self.shared.journal.send_modify(|journal| {
            journal.connections = 0;
            journal.logins.clear();
            journal.calls.clear();
        });
    }

    /// The sessions that are open, by account and key.
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

    /// All machines, templates too.
    pub fn machines(&self) -> Vec<Machine> {
        self.world(|world| world.machines())
    }

    /// The machine at a path.
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
                // Nobody tells what only time changes.
                tokio::time::timeout(LOOK, journal.changed()).await.ok();
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.with_context(|| format!("not in time: {what}"))
    }

    fn world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let mut world = lock(&self.shared.world);
        world.settle();
        act(&mut world)
    }

    fn trouble(&self, act: impl FnOnce(&mut Trouble)) {
        self.shared.trouble.send_modify(act);
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

fn furnish(world: &mut World) -> Option<()> {
    world.inventory.add_datacenter("DC0");
    world.add_machine("/DC0/vm/ubuntu", true, None)?;
    world
        .inventory
        .add_at("Folder", "group-v", "/DC0/vm/templates")?;
    world.add_machine("/DC0/vm/templates/linked", true, Some("base"))?;
    Some(())
}
