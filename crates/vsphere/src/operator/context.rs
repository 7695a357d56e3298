//! The state that all reconcilers share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::Sessions;
use insula_operator::dependencies::DependencyIndex;
use insula_operator::event::EventRateLimit;
use insula_operator::spaces;
use kube::Client;
use tokio::sync::watch;

use super::intervals::Intervals;
use super::key::{Key, Kind};
use super::requeue::Requeue;
use super::resolve::Bounds;
use super::session_liveness::SessionLiveness;
use crate::vcenter::VCenters;

/// Static credentials for clusters that reference no identity.
#[derive(Clone, Debug, Default)]
pub struct StaticCredentials {
    /// The values by key, as in a Secret.
    pub data: BTreeMap<String, Hidden>,
    /// The servers that they may be sent to.
    pub bound: AllowedEndpoints,
}

/// An object that a reconciliation used; its changes trigger a new reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Dependency {
    Identity {
        space: Option<Arc<str>>,
        name: String,
    },
    Namespace {
        space: Option<Arc<str>>,
        name: String,
    },
    Secret {
        space: Option<Arc<str>>,
        namespace: String,
        name: String,
    },
    /// A Cluster of Cluster API.
    Owner {
        space: Option<Arc<str>>,
        namespace: String,
        name: String,
    },
    VSphereCluster {
        space: Option<Arc<str>>,
        namespace: String,
        name: String,
    },
    VSphereMachine {
        space: Option<Arc<str>>,
        namespace: String,
        name: String,
    },
    VSphereVM {
        space: Option<Arc<str>>,
        namespace: String,
        name: String,
    },
    /// A Machine of Cluster API.
    Machine {
        space: Option<Arc<str>>,
        namespace: String,
        name: String,
    },
    /// Deletions of machines and virtual machines of a Cluster.
    Members {
        space: Option<Arc<str>>,
        namespace: String,
        cluster: String,
    },
    /// Any zone of the space.
    Zones {
        space: Option<Arc<str>>,
    },
    FailureDomain {
        space: Option<Arc<str>>,
        name: String,
    },
    StaticCredentials,
}

/// The state that all reconcilers share.
pub(super) struct Context {
    /// A client for the operator's own space.
    pub client: Client,
    /// Whether the operator also works in tenants' spaces.
    pub tenants: bool,
    /// The only namespaces to work in; all if empty.
    pub namespaces: BTreeSet<String>,
    /// The required value of the label `cluster.x-k8s.io/watch-filter`.
    pub watch_filter: Option<String>,
    /// The namespace with the Secrets of identities, in every space.
    pub operator_namespace: String,
    pub sessions: Arc<Sessions<VCenters>>,
    pub depends: DependencyIndex<Dependency>,
    /// When each session was last checked for a cluster.
    pub liveness: SessionLiveness,
    /// The identities that each object was last found to use.
    pub identities_in_use: Mutex<HashMap<Arc<str>, BTreeSet<Dependency>>>,
    /// The static credentials, as the file has them now.
    pub static_credentials: watch::Receiver<Option<StaticCredentials>>,
    /// The tenants' spaces in which they may be used too.
    pub static_credentials_for: BTreeSet<String>,
    /// The servers that credentials may be sent to.
    pub bounds: Bounds,
    /// How long an object is left alone that is in order.
    pub resync: Duration,
    /// How often states are polled that are not watched.
    pub intervals: Intervals,
    /// The name of this instance of the operator.
    pub instance: String,
    pub event_rate_limit: EventRateLimit,
    /// Objects to reconcile again.
    pub requeue: Arc<Requeue>,
}

impl Context {
    /// Returns a client for a space.
    pub fn client(&self, space: Option<&str>) -> Client {
        match space {
            None => self.client.clone(),
            Some(space) => spaces::client_for(&self.client, space),
        }
    }

    /// Records a dependency. This is done before the object is read, so that no change is missed.
    pub fn depend_on(&self, key: &Key, depends: &mut BTreeSet<Dependency>, on: Dependency) {
        self.depends.add(&key.text(), &on);
        depends.insert(on);
    }

    /// Replaces the dependencies of an object by exactly these. Identities count the clusters and
    /// zones that use them, and are triggered when that changes.
    pub fn set_dependencies(&self, key: &Key, depends: BTreeSet<Dependency>) {
        let asker = key.text();
        let counts = matches!(key.kind, Kind::Cluster | Kind::Zone);
        let is_counted = |on: &&Dependency| counts && matches!(on, Dependency::Identity { .. });
        let now: BTreeSet<_> = depends.iter().filter(is_counted).cloned().collect();
        self.depends.set(&asker, depends);
        let mut identities_in_use = self
            .identities_in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = match now.is_empty() {
            true => identities_in_use.remove(&asker),
            false => identities_in_use.insert(asker, now.clone()),
        };
        drop(identities_in_use);
        for changed in before.unwrap_or_default().symmetric_difference(&now) {
            if let Dependency::Identity { space, name } = changed {
                let key = Key::cluster_scoped(Kind::Identity, space.clone(), name);
                self.requeue.add(key.text());
            }
        }
    }

    /// Forgets an object that no longer exists or belongs to another operator.
    pub fn forget(&self, key: &Key) {
        self.set_dependencies(key, BTreeSet::new());
        self.sessions.release(&key.text());
    }

    /// Forgets all objects and releases their sessions, after leadership was lost.
    pub fn forget_all(&self) {
        let mut identities_in_use = self
            .identities_in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        identities_in_use.clear();
        drop(identities_in_use);
        for asker in self.depends.clear() {
            self.sessions.release(&asker);
        }
    }

    /// Returns when to reconcile an object again that is in order, spread out by its key.
    pub fn resync_after(&self, key: &Key) -> Duration {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let part = u32::try_from(hasher.finish() % 100).unwrap_or_default();
        self.resync + self.resync / 200 * part
    }
}
