//! What all work stands on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::Bound;
use insula_identity::session::Sessions;
use insula_operator::depends::Depends;
use insula_operator::event::Ration;
use insula_operator::spaces;
use kube::Client;
use tokio::sync::watch;

use super::heard::Heard;
use super::identify::Bounds;
use super::key::{Key, Kind};
use super::pace::Pace;
use super::wake::Wakes;
use crate::vcenter::VCenters;

/// What the operator was given for clusters that name no identity.
#[derive(Clone, Debug, Default)]
pub struct Static {
    /// By key, as in a Secret.
    pub data: BTreeMap<String, Hidden>,
    /// Where it may be sent.
    pub bound: Bound,
}

/// What an object was looked at with: a change of it calls for work on the object.
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
    /// Any machine or virtual machine of a Cluster of Cluster API that goes.
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
    Static,
}

/// What all work stands on.
pub(super) struct Context {
    /// Of the space that the operator belongs to.
    pub client: Client,
    /// Whether it works in tenants' spaces too.
    pub tenants: bool,
    /// Only in these namespaces; everywhere if there are none.
    pub namespaces: BTreeSet<String>,
    /// Only on what has this value of the label `cluster.x-k8s.io/watch-filter`.
    pub watch_filter: Option<String>,
    /// Where the Secrets of identities are, in every space.
    pub home: String,
    pub sessions: Arc<Sessions<VCenters>>,
    pub depends: Depends<Dependency>,
    /// When each session last answered to a cluster.
    pub heard: Heard,
    /// Which identities each object was last found to use.
    pub using: Mutex<HashMap<Arc<str>, BTreeSet<Dependency>>>,
    /// What it was given, as the file says now.
    pub given: watch::Receiver<Option<Static>>,
    /// In which tenants' spaces that may be used too.
    pub given_for: BTreeSet<String>,
    /// Where credentials may be sent that say nothing about it themselves, and others at most.
    pub bounds: Bounds,
    /// How long an object is left alone that is as it should be.
    pub resync: Duration,
    /// How often is looked at what nobody tells of.
    pub pace: Pace,
    /// As which of several this one works.
    pub instance: String,
    pub ration: Ration,
    /// Who is to be looked at again.
    pub wakes: Arc<Wakes>,
}

impl Context {
    /// A client for a space.
    pub fn client(&self, space: Option<&str>) -> Client {
        match space {
            None => self.client.clone(),
            Some(space) => spaces::within(&self.client, space),
        }
    }

    /// Notes what an object is looked at with, before it is: so no change of it is missed.
    pub fn note(&self, key: &Key, depends: &mut BTreeSet<Dependency>, on: Dependency) {
        self.depends.add(&key.text(), &on);
        depends.insert(on);
    }

    /// An object was looked at with exactly these. Identities count the clusters and zones
    /// that use them.
    pub fn settle(&self, key: &Key, depends: BTreeSet<Dependency>) {
        let asker = key.text();
        let counts = matches!(key.kind, Kind::Cluster | Kind::Zone);
        let is_counted = |on: &&Dependency| counts && matches!(on, Dependency::Identity { .. });
        let now: BTreeSet<_> = depends.iter().filter(is_counted).cloned().collect();
        self.depends.set(&asker, depends);
        let mut using = self.using.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match now.is_empty() {
            true => using.remove(&asker),
            false => using.insert(asker, now.clone()),
        };
        drop(using);
        for changed in before.unwrap_or_default().symmetric_difference(&now) {
            if let Dependency::Identity { space, name } = changed {
                let key = Key::cluster_scoped(Kind::Identity, space.clone(), name);
                self.wakes.say(key.text());
            }
        }
    }

    /// An object is not there any more, or none of ours.
    pub fn forget(&self, key: &Key) {
        self.settle(key, BTreeSet::new());
        self.sessions.release(&key.text());
    }

    /// Everything that is known of objects is forgotten, and all sessions are given back:
    /// somebody else works now.
    pub fn forget_all(&self) {
        let mut using = self.using.lock().unwrap_or_else(PoisonError::into_inner);
        using.clear();
        drop(using);
        for asker in self.depends.clear() {
            self.sessions.release(&asker);
        }
    }

    /// When an object that is as it should be is looked at again: not all at once.
    pub fn anyway(&self, key: &Key) -> Duration {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let part = u32::try_from(hasher.finish() % 100).unwrap_or_default();
        self.resync + self.resync / 200 * part
    }
}
