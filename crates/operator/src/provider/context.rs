//! The state that all reconciliations of a provider share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::session::Sessions;
use kube::Client;
use kube::api::{ApiResource, ObjectMeta};
use tokio::sync::watch;

use super::own_writes::OwnWrites;
use super::requeue::Requeue;
use super::{Provider, WatchedKind};
use crate::account::ServiceAccount;
use crate::dependencies::DependencyIndex;
use crate::event::EventRateLimit;
use crate::key::{GroupKind, Key, Space};
use crate::spaces;

/// The operator's own credentials, for objects that reference none.
#[derive(Clone, Debug, Default)]
pub struct StaticCredentials {
    /// The values by key, as in a Secret.
    pub data: BTreeMap<String, Hidden>,
    /// The servers that they may be sent to.
    pub bound: AllowedEndpoints,
}

/// The servers that credentials may be sent to.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// For identities and the operator's static credentials that name no servers themselves.
    pub default: AllowedEndpoints,
    /// The upper bound for Secrets of namespaces.
    pub namespace_secrets: AllowedEndpoints,
}

impl Bounds {
    /// Bounds of a caller that does not know the operator's.
    pub const ANYWHERE: Self = Self {
        default: AllowedEndpoints::Anywhere,
        namespace_secrets: AllowedEndpoints::Anywhere,
    };
}

/// What a reconciliation used; a change of it triggers a new reconciliation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dependency {
    /// An object.
    Object(Key),
    /// Any object of a kind.
    Kind {
        /// The kind.
        kind: GroupKind,
        /// The space.
        space: Space,
    },
    /// Deletions of the members of a group: objects with this value of the member label.
    Members {
        /// The space.
        space: Space,
        /// The namespace.
        namespace: String,
        /// The value of the label.
        value: String,
    },
    /// The operator's static credentials.
    StaticCredentials,
}

/// The state that all reconciliations share.
pub struct Context<P: Provider> {
    /// The provider.
    pub provider: P,
    /// A client for the operator's own space.
    pub client: Client,
    /// Whether the operator also works in tenants' spaces.
    pub tenants: bool,
    /// The only namespaces to work in; all if empty.
    pub namespaces: BTreeSet<String>,
    /// Whether Namespaces are watched.
    pub(super) watch_namespaces: bool,
    /// The required value of the provider's watch label.
    pub watch_filter: Option<String>,
    /// The namespace with the Secrets of identities, in every space.
    pub operator_namespace: String,
    /// The service account to act as in the namespaces of objects; none to act as the operator.
    pub(super) service_account: Option<String>,
    /// The sessions at the provider's servers.
    pub sessions: Arc<Sessions<P::Connector>>,
    /// The servers that credentials may be sent to.
    pub bounds: Bounds,
    pub(super) kinds: Vec<WatchedKind>,
    pub(super) depends: DependencyIndex<Dependency>,
    /// The identities that each object was last found to use.
    pub(super) identities_in_use: Mutex<HashMap<Arc<str>, BTreeSet<Key>>>,
    /// The static credentials, as the file has them now.
    pub(super) static_credentials: watch::Receiver<Option<StaticCredentials>>,
    /// The tenants' spaces in which they may be used too.
    pub(super) static_credentials_for: BTreeSet<String>,
    /// How long an object is left alone that is in order.
    pub(super) resync: Duration,
    /// The name of this instance of the operator.
    pub(super) instance: String,
    pub(super) event_rate_limit: EventRateLimit,
    /// Writes of the operator itself.
    pub(super) own_writes: OwnWrites,
    /// Objects to reconcile again.
    pub(super) requeue: Arc<Requeue>,
}

impl<P: Provider> Context<P> {
    /// Returns a client for a space.
    pub fn client(&self, space: Option<&str>) -> Client {
        match space {
            None => self.client.clone(),
            Some(space) => spaces::client_for(&self.client, space),
        }
    }

    /// Returns the service account to act as for an object of a namespace. The operator's own
    /// namespace is its own responsibility.
    pub(super) fn account_for<'a>(&'a self, key: &'a Key) -> Option<ServiceAccount<'a>> {
        let namespace = key.namespace.as_deref();
        let namespace = namespace.filter(|&namespace| namespace != self.operator_namespace)?;
        Some(ServiceAccount {
            space: key.space.as_deref(),
            namespace,
            name: self.service_account.as_deref()?,
        })
    }

    /// Replaces the dependencies of an object by exactly these. Identities count the objects that
    /// use them, and are triggered when that changes.
    pub(super) fn set_dependencies(
        &self,
        key: &Key,
        depends: BTreeSet<Dependency>,
        borrowed: Option<Key>,
    ) {
        let asker = key.text();
        let mut now = self.identities_among(key, &depends);
        if self.is_user(key) {
            now.extend(borrowed);
        }
        self.depends.set(&asker, depends);
        let mut identities_in_use = self.identities_in_use();
        let before = match now.is_empty() {
            true => identities_in_use.remove(&asker),
            false => identities_in_use.insert(asker, now.clone()),
        };
        drop(identities_in_use);
        for changed in before.unwrap_or_default().symmetric_difference(&now) {
            self.requeue.add(changed.text());
        }
    }

    /// Returns whether an object counts as a user of identities.
    fn is_user(&self, key: &Key) -> bool {
        let mut users = P::IDENTITIES.iter().flat_map(|identities| identities.users);
        users.any(|user| user.kind == key.kind.kind && (user.resource)().group == key.kind.group)
    }

    /// Returns the identities of its own space among the dependencies of a user. Those of the
    /// operator's space count only if they are granted: a tenant could trigger them otherwise by
    /// naming them.
    fn identities_among(&self, key: &Key, depends: &BTreeSet<Dependency>) -> BTreeSet<Key> {
        let Some(identities) = P::IDENTITIES.filter(|_| self.is_user(key)) else {
            return BTreeSet::new();
        };
        let kind = GroupKind::of_resource(&(identities.resource)());
        let used = depends.iter().filter_map(|on| match on {
            Dependency::Object(object) if object.kind == kind && object.space == key.space => {
                Some(object.clone())
            }
            _ => None,
        });
        used.collect()
    }

    /// Returns whether an object was last found to borrow an identity.
    pub(super) fn borrows(&self, key: &Key, identity: &Key) -> bool {
        let in_use = self.identities_in_use();
        let of_object = in_use.get(&key.text());
        of_object.is_some_and(|identities| identities.contains(identity))
    }

    /// Forgets an object that no longer exists or belongs to another operator.
    pub(super) fn forget(&self, key: &Key) {
        self.set_dependencies(key, BTreeSet::new(), None);
        self.sessions.release(&key.text());
        self.own_writes.forget(&key.text());
    }

    /// Forgets all objects and releases their sessions, after leadership was lost.
    pub(super) fn forget_all(&self) {
        self.identities_in_use().clear();
        self.own_writes.clear();
        for asker in self.depends.clear() {
            self.sessions.release(&asker);
        }
    }

    /// Returns when to reconcile an object again that is in order, spread out by its key.
    pub(super) fn resync_after(&self, key: &Key) -> Duration {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let part = u32::try_from(hasher.finish() % 100).unwrap_or_default();
        self.resync + self.resync / 200 * part
    }

    /// Returns whether an object is assigned to this operator.
    pub(super) fn is_assigned(&self, metadata: &ObjectMeta) -> bool {
        let Some(wanted) = &self.watch_filter else {
            return true;
        };
        let labels = metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(P::NAMES.watch_label)) == Some(wanted)
    }

    /// Returns the resource of a kind that is reconciled.
    pub(super) fn reconciled_resource(&self, kind: &GroupKind) -> Option<ApiResource> {
        let mut kinds = self.kinds.iter().filter(|known| known.is_reconciled);
        let known = kinds.find(|known| known.group_kind() == *kind);
        known.map(|known| known.resource.clone())
    }

    fn identities_in_use(&self) -> MutexGuard<'_, HashMap<Arc<str>, BTreeSet<Key>>> {
        let identities_in_use = self.identities_in_use.lock();
        identities_in_use.unwrap_or_else(PoisonError::into_inner)
    }
}
