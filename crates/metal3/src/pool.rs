//! The hosts of one namespace of an API server, as one credential reaches them.
//!
//! | module | content |
//! |---|---|
//! | `connect` | opens pools: the operator's own server, or one that a kubeconfig names |
//! | `client` | the client of such a server |
//! | `rights` | checks of the rights that a kubeconfig's user needs |
//! | `watch` | the watch of the hosts |
//! | `memory` | the memory that hosts take |
//! | `interest` | the machines to reconcile when a host changes |

mod client;
mod connect;
mod interest;
mod memory;
pub mod rights;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use insula_identity::endpoint::Endpoint;
use insula_operator::provider::Requeue;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};

use crate::hosts::patch::{Guard, between};
use crate::kinds::host::BareMetalHost;
use interest::Interest;
use memory::PoolMemory;

pub use connect::{IN_CLUSTER, OpenPool, Pools, in_cluster};
pub use memory::HostMemory;

/// The number of hosts of a namespace that are used. A server that a tenant chose may list any
/// number, and all of them are kept in memory.
const MAX_HOSTS: usize = 10_000;

/// The hosts of one namespace of an API server.
pub struct HostPool {
    client: Client,
    endpoint: Endpoint,
    namespace: String,
    is_in_cluster: bool,
    /// Held while a machine chooses and claims a host, so that no two of this operator choose the
    /// same one. Other operators are kept off by the version of the host.
    claiming: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    requeue: Arc<Requeue>,
}

struct State {
    /// The hosts, as the watch last saw them.
    hosts: BTreeMap<String, KnownHost>,
    memory: PoolMemory,
    interest: Interest,
    /// Whether the watch has failed since the access was last verified.
    is_in_doubt: bool,
    /// Whether the last request of the watch failed.
    is_watch_failing: bool,
}

/// A host, and the memory that it takes.
struct KnownHost {
    host: Arc<BareMetalHost>,
    size: usize,
}

impl State {
    /// Takes over a host. Returns whether there is room for it; one that is not taken over is
    /// not known in its earlier version either.
    fn insert(&mut self, mut host: BareMetalHost) -> bool {
        let name = host.name_any();
        host.metadata.managed_fields = None;
        let size = memory::estimate(&host);
        let known = self.hosts.get(&name).map(|known| known.size);
        let has_room = known.is_some() || self.hosts.len() < MAX_HOSTS;
        if !has_room || !self.memory.replace(known.unwrap_or_default(), size) {
            self.remove(&name);
            return false;
        }
        let host = Arc::new(host);
        self.hosts.insert(name, KnownHost { host, size });
        true
    }

    fn remove(&mut self, name: &str) {
        if let Some(known) = self.hosts.remove(name) {
            self.memory.replace(known.size, 0);
        }
    }
}

impl HostPool {
    fn new(
        client: Client,
        endpoint: Endpoint,
        namespace: String,
        is_in_cluster: bool,
        memory: PoolMemory,
        requeue: Arc<Requeue>,
    ) -> Self {
        Self {
            client,
            endpoint,
            namespace,
            is_in_cluster,
            claiming: tokio::sync::Mutex::default(),
            state: Mutex::new(State {
                hosts: BTreeMap::new(),
                memory,
                interest: Interest::default(),
                is_in_doubt: false,
                is_watch_failing: false,
            }),
            requeue,
        }
    }

    /// Returns the namespace of the hosts.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns whether the hosts are those of the operator's own server, in the namespace of the
    /// machine.
    pub fn is_in_cluster(&self) -> bool {
        self.is_in_cluster
    }

    /// Returns the hosts at their server.
    pub fn hosts(&self) -> Api<BareMetalHost> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the Secrets next to the hosts.
    pub fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until no other machine of this operator chooses a host here.
    pub async fn claiming(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.claiming.lock().await
    }

    /// Returns the hosts as the watch last saw them. They may be out of date, so what is chosen of
    /// them is claimed only in the same version.
    pub fn seen(&self) -> Vec<Arc<BareMetalHost>> {
        let state = self.state();
        let hosts = state.hosts.values();
        hosts.map(|known| Arc::clone(&known.host)).collect()
    }

    /// Remembers a host that this operator read or wrote, until the watch reports it.
    pub fn remember(&self, host: BareMetalHost) {
        let mut state = self.state();
        let known = state.hosts.get(&host.name_any());
        // The watch may have been faster, and reports each version only once.
        if known.is_none_or(|known| revision(&known.host) <= revision(&host)) {
            state.insert(host);
        }
    }

    /// Writes the changes of a host, if it has not changed since it was read. Returns it as it is
    /// stored then.
    ///
    /// # Errors
    ///
    /// If the server refuses the request, for example because the host has changed.
    pub async fn change(
        &self,
        before: &BareMetalHost,
        after: &BareMetalHost,
    ) -> Result<BareMetalHost, kube::Error> {
        let Some(patch) = between(before, after, Guard::SameVersion) else {
            return Ok(before.clone());
        };
        let (name, patch) = (before.name_any(), Patch::Merge(patch));
        let hosts = self.hosts();
        let written = hosts.patch(&name, &PatchParams::default(), &patch).await?;
        self.remember(written.clone());
        Ok(written)
    }

    /// Forgets a host that does not exist any more, before the watch reports it.
    pub fn forget_host(&self, name: &str) {
        self.state().remove(name);
    }

    /// Triggers a machine when its host changes.
    pub fn follow_host(&self, machine: Arc<str>, host: &str) {
        self.state().interest.follow(machine, host);
    }

    /// Triggers an object once, when a host changes. It need not be forgotten when it is deleted.
    pub fn follow_host_once(&self, key: Arc<str>, host: &str) {
        self.state().interest.follow_once(key, host);
    }

    /// Triggers a machine when there is a free host that it could use.
    pub fn wait_for_host(
        &self,
        machine: Arc<str>,
        could_use: impl Fn(&BareMetalHost) -> bool + Send + 'static,
    ) {
        self.state().interest.wait(machine, Box::new(could_use));
    }

    /// Triggers a cluster when the hosts can no longer be watched.
    pub fn follow_access(&self, cluster: Arc<str>) {
        self.state().interest.follow_access(cluster);
    }

    /// Triggers an object no longer.
    pub fn forget(&self, key: &str) {
        self.state().interest.forget(key);
    }

    /// Returns whether the last request of the watch failed: what it reported before may be out of
    /// date.
    pub fn is_watch_failing(&self) -> bool {
        self.state().is_watch_failing
    }

    /// Takes over a host that the watch reports or lists. Machines are triggered if it differs.
    /// Returns whether there is room for it.
    fn observe(&self, host: BareMetalHost) -> bool {
        let mut state = self.state();
        let known = state.hosts.get(&host.name_any());
        let known = known.and_then(|known| known.host.resource_version());
        let keys = match known.is_some() && known == host.resource_version() {
            true => Vec::new(),
            false => {
                let mut keys = state.interest.of_changed(&host);
                keys.extend(state.interest.take_once(&host.name_any()));
                keys
            }
        };
        let is_used = state.insert(host);
        drop(state);
        self.trigger(keys);
        is_used
    }

    /// Removes a host that the watch reports as deleted.
    fn observe_deleted(&self, name: &str) {
        let mut state = self.state();
        state.remove(name);
        let mut keys = state.interest.of_host(name);
        keys.extend(state.interest.take_once(name));
        drop(state);
        self.trigger(keys);
    }

    /// Removes the hosts that a new list does not have.
    fn observe_listed(&self, names: &BTreeSet<String>) {
        let known: Vec<_> = self.state().hosts.keys().cloned().collect();
        for name in known.iter().filter(|name| !names.contains(*name)) {
            self.observe_deleted(name);
        }
    }

    /// Returns whether the watch has failed since the access was last verified.
    pub fn is_in_doubt(&self) -> bool {
        self.state().is_in_doubt
    }

    /// Records whether the watch fails. If it begins to, what depends on the access to the hosts
    /// is triggered, and the access has to be verified again.
    fn observe_failing(&self, is_failing: bool) {
        let mut state = self.state();
        state.is_in_doubt |= is_failing;
        let was_failing = std::mem::replace(&mut state.is_watch_failing, is_failing);
        let keys = match is_failing && !was_failing {
            true => state.interest.of_access(),
            false => Vec::new(),
        };
        drop(state);
        self.trigger(keys);
    }

    fn trigger(&self, keys: Vec<Arc<str>>) {
        for key in keys {
            self.requeue.add(key);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the version of a host as a number; none if it is none.
fn revision(host: &BareMetalHost) -> Option<u64> {
    host.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
