//! The hosts of one namespace of an API server, as one credential reaches them.
//!
//! | module | content |
//! |---|---|
//! | `connect` | opens pools: the operator's own server, or one that a kubeconfig names |
//! | `client` | the client of such a server |
//! | `rights` | checks of the rights that a kubeconfig's user needs |
//! | `watch` | the watch of the hosts |
//! | `interest` | the machines to reconcile when a host changes |

mod client;
mod connect;
mod interest;
pub mod rights;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use insula_identity::endpoint::Endpoint;
use insula_operator::provider::Requeue;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

use crate::kinds::host::BareMetalHost;
use interest::Interest;

pub use connect::{IN_CLUSTER, OpenPool, Pools, in_cluster};

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

#[derive(Default)]
struct State {
    /// The hosts, as the watch last saw them.
    hosts: BTreeMap<String, Arc<BareMetalHost>>,
    interest: Interest,
    /// Whether the watch has failed since the access was last verified.
    is_in_doubt: bool,
}

impl HostPool {
    fn new(
        client: Client,
        endpoint: Endpoint,
        namespace: String,
        is_in_cluster: bool,
        requeue: Arc<Requeue>,
    ) -> Self {
        Self {
            client,
            endpoint,
            namespace,
            is_in_cluster,
            claiming: tokio::sync::Mutex::default(),
            state: Mutex::default(),
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
        self.state().hosts.values().cloned().collect()
    }

    /// Remembers a host that this operator read or wrote, until the watch reports it.
    pub fn remember(&self, host: BareMetalHost) {
        let mut state = self.state();
        let name = host.name_any();
        let known = state.hosts.get(&name);
        // The watch may have been faster, and reports each version only once.
        if known.is_none_or(|known| revision(known) <= revision(&host)) {
            state.hosts.insert(name, Arc::new(host));
        }
    }

    /// Forgets a host that does not exist any more, before the watch reports it.
    pub fn forget_host(&self, name: &str) {
        self.state().hosts.remove(name);
    }

    /// Triggers a machine when its host changes.
    pub fn follow_host(&self, machine: Arc<str>, host: &str) {
        self.state().interest.follow(machine, host);
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

    /// Takes over a host that the watch reports.
    fn observe(&self, host: BareMetalHost) {
        let mut state = self.state();
        let keys = state.interest.of_changed(&host);
        state.hosts.insert(host.name_any(), Arc::new(host));
        drop(state);
        self.trigger(keys);
    }

    /// Removes a host that the watch reports as deleted.
    fn observe_deleted(&self, name: &str) {
        let mut state = self.state();
        state.hosts.remove(name);
        let keys = state.interest.of_host(name);
        drop(state);
        self.trigger(keys);
    }

    /// Takes over all hosts of a new list. Machines are triggered by those that differ.
    fn observe_all(&self, hosts: Vec<BareMetalHost>) {
        let mut keys = Vec::new();
        let mut state = self.state();
        let mut before = std::mem::take(&mut state.hosts);
        for host in hosts {
            let name = host.name_any();
            let known = before.remove(&name);
            if known.is_none_or(|known| known.resource_version() != host.resource_version()) {
                keys.extend(state.interest.of_changed(&host));
            }
            state.hosts.insert(name, Arc::new(host));
        }
        for deleted in before.keys() {
            keys.extend(state.interest.of_host(deleted));
        }
        drop(state);
        self.trigger(keys);
    }

    /// Returns whether the watch has failed since the access was last verified.
    pub fn is_in_doubt(&self) -> bool {
        self.state().is_in_doubt
    }

    /// Triggers what depends on the access to the hosts, which has to be verified again.
    fn observe_failure(&self) {
        let mut state = self.state();
        state.is_in_doubt = true;
        let keys = state.interest.of_access();
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
