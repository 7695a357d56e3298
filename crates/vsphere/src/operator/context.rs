//! What all work stands on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::Bound;
use insula_identity::session::Sessions;
use insula_operator::depends::Depends;
use insula_operator::spaces;
use kube::Client;
use tokio::sync::watch;

use crate::vcenter::VCenters;

/// What the operator was given for clusters that name no identity.
#[derive(Clone, Debug, Default)]
pub struct Static {
    pub data: BTreeMap<String, Hidden>,
    pub bound: Bound,
}

/// What an object was looked at with: a change of it calls for work on the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Dependency {
    Identity { space: Option<Arc<str>>, name: String },
    Namespace { space: Option<Arc<str>>, name: String },
    Secret { space: Option<Arc<str>>, namespace: String, name: String },
    /// A Cluster of Cluster API.
    Owner { space: Option<Arc<str>>, namespace: String, name: String },
    VSphereCluster { space: Option<Arc<str>>, namespace: String, name: String },
    /// Any zone of the space.
    Zones { space: Option<Arc<str>> },
    FailureDomain { space: Option<Arc<str>>, name: String },
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
    /// What it was given, as the file says now.
    pub given: watch::Receiver<Option<Static>>,
    /// In which tenants' spaces that may be used too.
    pub given_for: BTreeSet<String>,
    /// Where credentials of identities may be sent that say nothing about it themselves.
    pub default_bound: Bound,
}

impl Context {
    /// A client for a space.
    pub fn client(&self, space: Option<&str>) -> Client {
        match space {
            None => self.client.clone(),
            Some(space) => spaces::within(&self.client, space),
        }
    }
}
