//! The reconciliation of one object: reads with dependencies, events, credentials and sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use insula_identity::credential::Credential;
use insula_identity::session::{self, HeldSession, Unavailable};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tracing::debug;

use super::{Context, Dependency, Provider};
use crate::account::ServiceAccount;
use crate::event::{self, NewEvent, Reporter};
use crate::key::{GroupKind, Key};
use crate::read::{get_named, list_each, list_pages, parse};

/// The reconciliation of one object. It records what is read as dependencies of the object.
pub struct Reconciliation<'a, P: Provider> {
    /// The shared state.
    pub context: &'a Context<P>,
    /// The object.
    pub key: &'a Key,
    /// How many reconciliations in a row failed before this one.
    pub failures: u32,
    /// The service account to act as in the namespace of the object.
    account: Option<ServiceAccount<'a>>,
    depends: Mutex<BTreeSet<Dependency>>,
    /// The Secrets that were read, by namespace and name, if the provider guards its writes.
    secrets_read: Mutex<BTreeMap<(String, String), Option<Secret>>>,
    /// The identity of the operator's own space that the object was granted.
    borrowed: Mutex<Option<Key>>,
}

impl<'a, P: Provider> Reconciliation<'a, P> {
    pub(super) fn new(
        context: &'a Context<P>,
        key: &'a Key,
        failures: u32,
        account: Option<ServiceAccount<'a>>,
    ) -> Self {
        Self {
            context,
            key,
            failures,
            account,
            depends: Mutex::default(),
            secrets_read: Mutex::default(),
            borrowed: Mutex::default(),
        }
    }

    /// Returns what the object depends on, and the identity that it borrows.
    pub(super) fn into_dependencies(self) -> (BTreeSet<Dependency>, Option<Key>) {
        let depends = self.depends.into_inner();
        let borrowed = self.borrowed.into_inner();
        (
            depends.unwrap_or_else(PoisonError::into_inner),
            borrowed.unwrap_or_else(PoisonError::into_inner),
        )
    }

    pub(super) fn set_borrowed(&self, identity: Option<Key>) {
        let mut borrowed = self.borrowed.lock().unwrap_or_else(PoisonError::into_inner);
        *borrowed = identity;
    }

    /// Returns a client for the space of the object, with the rights of the operator.
    pub fn client(&self) -> Client {
        self.context.client(self.key.space.as_deref())
    }

    /// Returns a client for objects in a namespace. In the namespace of the object it has the
    /// rights of the service account that the operator acts as.
    fn client_in(&self, namespace: &str) -> Client {
        let account = self.account.filter(|one| one.namespace == namespace);
        match account {
            Some(account) => account.impersonate(&self.client()),
            None => self.client(),
        }
    }

    /// Returns the name of the service account that the operator acts as in the namespace of the
    /// object; none if it acts as itself.
    pub fn service_account(&self) -> Option<&str> {
        self.account.map(|account| account.name)
    }

    /// Returns the objects of a kind in the namespace of the object.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let namespace = self.key.namespace_or_empty();
        Api::namespaced(self.client_in(namespace), namespace)
    }

    /// Returns the cluster-scoped objects of a kind in the space of the object.
    pub fn cluster_api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
    {
        Api::all(self.client())
    }

    /// Returns the Secrets of a namespace in the space of the object.
    pub fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client_in(namespace), namespace)
    }

    /// Returns a Secret of the object's space, which is read once if the provider guards its
    /// writes.
    pub(super) async fn read_secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Secret>, kube::Error> {
        let place = (namespace.to_owned(), name.to_owned());
        let known = self.secrets_read().get(&place).cloned();
        match known.filter(|_| P::GUARDS_WRITES) {
            Some(known) => Ok(known),
            None => self.read_secret_again(namespace, name).await,
        }
    }

    /// Reads a Secret of the object's space, whether it was read before or not.
    pub(super) async fn read_secret_again(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Secret>, kube::Error> {
        let found = get_named(&self.secrets(namespace), name).await?;
        let place = (namespace.to_owned(), name.to_owned());
        self.secrets_read().insert(place, found.clone());
        Ok(found)
    }

    /// Forgets the Secrets that were read, so that the next hold is taken on a Secret that is read
    /// after the last write of the object.
    pub fn forget_secrets(&self) {
        self.secrets_read().clear();
    }

    fn secrets_read(&self) -> MutexGuard<'_, BTreeMap<(String, String), Option<Secret>>> {
        let read = self.secrets_read.lock();
        read.unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the version of the object that was read.
    pub fn note_read(&self, version: &str) {
        self.context.own_writes.read(&self.key.text(), version);
    }

    /// Records the version of the object that was written.
    pub fn note_written(&self, version: &str) {
        self.context.own_writes.written(&self.key.text(), version);
    }

    /// Records a dependency. This is done before the object is read, so that no change is missed.
    pub fn depend_on(&self, on: Dependency) {
        self.context.depends.add(&self.key.text(), &on);
        let mut depends = self.depends.lock().unwrap_or_else(PoisonError::into_inner);
        depends.insert(on);
    }

    /// Records a dependency on an object in the space of this one.
    pub fn depend_on_object<K>(&self, namespace: Option<&str>, name: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.depend_on_kind(GroupKind::of::<K>(), namespace, name);
    }

    pub(super) fn depend_on_kind(&self, kind: GroupKind, namespace: Option<&str>, name: &str) {
        self.depend_on(Dependency::Object(Key {
            kind,
            space: self.key.space.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }));
    }

    /// Records a dependency on deletions of the members of a group in a namespace.
    pub fn depend_on_members(&self, namespace: &str, value: &str) {
        self.depend_on(Dependency::Members {
            space: self.key.space.clone(),
            namespace: namespace.to_owned(),
            value: value.to_owned(),
        });
    }

    /// Returns how many objects of a kind in the namespace are members of a group.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn count_members<K>(&self, value: &str) -> Result<usize, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let label = P::NAMES.member_label;
        let members = ListParams::default().labels(&format!("{label}={value}"));
        let listed = self.api::<K>().list_metadata(&members).await?;
        Ok(listed.items.len())
    }

    /// Reads an object of the same namespace, and depends on it.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn read<K>(&self, name: &str) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        self.depend_on_object::<K>(self.key.namespace.as_deref(), name);
        get_named(&self.api::<K>(), name).await
    }

    /// Reads a cluster-scoped object, and depends on it.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn read_cluster_scoped<K>(&self, name: &str) -> Result<Option<K>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        self.depend_on_object::<K>(None, name);
        get_named(&self.cluster_api::<K>(), name).await
    }

    /// Reads all objects of a kind that can be parsed, and depends on the kind.
    ///
    /// # Errors
    ///
    /// If a request fails.
    pub async fn read_all<K>(&self) -> Result<Vec<K>, kube::Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.depend_on(Dependency::Kind {
            kind: GroupKind::of::<K>(),
            space: self.key.space.clone(),
        });
        let kind = ApiResource::erase::<K>(&());
        list_each(&self.client(), &kind, parse).await
    }

    /// Lists the objects of a kind in the namespace of the object that can be parsed, without a
    /// dependency on them.
    ///
    /// # Errors
    ///
    /// If a request fails.
    pub async fn list<K>(&self) -> Result<Vec<K>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        let namespace = self.key.namespace_or_empty();
        let kind = ApiResource::erase::<K>(&());
        let client = self.client_in(namespace);
        list_pages(&Api::namespaced_with(client, namespace, &kind), parse).await
    }

    /// Returns the resource of the object, for a provider with kinds that it has no types for.
    pub fn resource(&self) -> Option<ApiResource> {
        self.context.reconciled_resource(&self.key.kind)
    }

    /// Returns the objects of a resource in the namespace of the object.
    pub fn api_of(&self, resource: &ApiResource) -> Api<DynamicObject> {
        let namespace = self.key.namespace_or_empty();
        Api::namespaced_with(self.client_in(namespace), namespace, resource)
    }

    /// Reads an object that there is no type for, and depends on it.
    ///
    /// # Errors
    ///
    /// If the request fails.
    pub async fn read_dynamic(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<DynamicObject>, kube::Error> {
        self.depend_on_kind(GroupKind::of_resource(resource), namespace, name);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client_in(namespace), namespace, resource),
            None => Api::all_with(self.client(), resource),
        };
        get_named(&api, name).await
    }

    /// Returns the session for a credential. The object is triggered when it should ask again.
    ///
    /// # Errors
    ///
    /// If no session is available now.
    pub fn session(
        &self,
        credential: &Credential,
    ) -> Result<HeldSession<P::Connector>, Unavailable> {
        let key = self.session_key(credential);
        self.context
            .sessions
            .get(&self.requester(), key, credential)
    }

    /// Returns the key of the session for a credential.
    pub fn session_key(&self, credential: &Credential) -> session::Key {
        session::Key::of(self.key.space.clone(), credential)
    }

    /// Ends the use of a session by the object.
    pub fn release_session(&self) {
        self.context.sessions.release(&self.requester());
    }

    fn requester(&self) -> Arc<str> {
        self.key.text()
    }

    /// Returns when to reconcile the object again if it is in order.
    pub fn resync_after(&self) -> Duration {
        self.context.resync_after(self.key)
    }

    /// Records an event about an object, as the operator. A failure is only logged: no user depends on events.
    pub async fn record_event<K>(&self, object: &K, note: NewEvent<'_>)
    where
        K: Resource<DynamicType = ()> + Debug,
    {
        self.record_event_of(object, &(), note).await;
    }

    /// Records an event about an object of a kind that is known only at run time.
    pub async fn record_event_of<K: Resource>(
        &self,
        object: &K,
        kind: &K::DynamicType,
        note: NewEvent<'_>,
    ) {
        let name = self.key.to_string();
        let context = self.context;
        if !context.event_rate_limit.admit(&name, Instant::now()) {
            return;
        }
        let reporter = Reporter {
            controller: P::NAMES.controller,
            instance: &context.instance,
        };
        let event = event::event(object.object_ref(kind), note, reporter);
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client(), &namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            debug!(key = %self.key, %error, "event not recorded");
        }
    }
}
