//! The objects of the server: written to the store, read from the cache.

pub mod access_kinds;
pub mod access_records;
pub mod apis;
pub mod built_in;
pub mod continue_token;
mod conversion;
pub mod definitions;
pub mod encoding;
pub(crate) mod encryption;
pub mod fair_locks;
pub mod history_turns;
pub(crate) mod hooks;
pub(crate) mod publish;
pub mod rbac_kinds;
pub mod resource;
pub mod service_range;
pub mod tenant_fields;
pub mod tenant_quota;
pub mod tenant_status;
pub mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use insula_admission::pod_security::PodSecurity;
use insula_core::{Layout, Place, ResourceName, Revision, Space, Spaces};
use insula_encryption::EncryptedStore;
use insula_kinds::{Kind, core_kind, kinds};
use insula_store::{Key, Outcome, Store, Transaction};
use tokio::sync::Notify;

use crate::egress::Egress;
use crate::flow_control::{LimitTable, Limits, SpaceLimits};
use crate::registry::access_records::AccessRecords;
use crate::registry::built_in::BuiltIns;
use crate::registry::continue_token::ContinueTokens;
use crate::registry::definitions::Definitions;
use crate::registry::fair_locks::FairLocks;
use crate::registry::history_turns::HistoryTurns;
use crate::registry::resource::Resource;
use crate::registry::tenant_fields::TenantFieldsTable;
use crate::registry::tenant_quota::TenantQuota;
use crate::status::{Result, StatusError};
use insula_cache::Keyed;
use insula_cache::{Cache, Collection, SpaceState, Stored, TenantFields};

/// Access to the objects of all spaces, and to what is needed to serve them.
pub struct Registry {
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    layout: Layout,
    tokens: ContinueTokens,
    access_records: AccessRecords,
    closing: Closing,
    definitions: Definitions,
    egress: Egress,
    pod_security: PodSecurity,
    tenant_quota: TenantQuota,
    limits: Arc<LimitTable>,
    tenant_fields: Arc<TenantFieldsTable>,
    root_ca: Option<Arc<str>>,
    built_in: Arc<BuiltIns>,
    encryption: Option<Arc<EncryptedStore>>,
    namespace_locks: FairLocks,
    history_turns: HistoryTurns,
    /// The revision of the last change that this server committed.
    committed: AtomicU64,
}

/// The shutdown signal of the server, for watches and other endless work.
#[derive(Debug, Default)]
pub struct Closing {
    closed: AtomicBool,
    signal: Notify,
}

impl Closing {
    /// Whether the server is shutting down.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the signal that is notified when the shutdown begins.
    pub const fn signal(&self) -> &Notify {
        &self.signal
    }
}

/// The address of an object, whether or not it exists.
#[derive(Clone, Debug)]
pub struct Address {
    /// The resource in its storage version.
    pub kind: Resource,
    /// Its space.
    pub space: Space,
    /// Its namespace, if the kind has any.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Address {
    /// Returns the kind's entry in the table.
    pub fn of(&self) -> &Kind {
        &self.kind
    }

    /// Returns the key within the collection: `namespace/name` or `name`.
    pub fn within(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the full path, the value of `metadata.selfLink`.
    pub fn self_link(&self) -> String {
        let kind = self.of();
        let mut path = String::with_capacity(128);
        match kind.group.as_str() {
            "" => path.push_str("/api"),
            group => path.extend(["/apis/", group]),
        }
        path.extend(["/", &kind.version]);
        if let Some(tenant) = self.space.tenant() {
            path.extend(["/tenants/", tenant.as_str()]);
        }
        if let Some(namespace) = &self.namespace {
            path.extend(["/namespaces/", namespace]);
        }
        path.extend(["/", &kind.resource, "/", &self.name]);
        path
    }
}

impl Registry {
    /// Creates a registry over a store and the cache that follows it.
    pub fn new(
        store: Arc<dyn Store>,
        cache: Arc<Cache>,
        layout: Layout,
        secret: &[u8],
        egress: Egress,
        root_ca: Option<&str>,
        built_in: Arc<BuiltIns>,
    ) -> Self {
        Self {
            store,
            cache,
            layout,
            tokens: ContinueTokens::new(secret),
            closing: Closing::default(),
            access_records: AccessRecords::default(),
            definitions: Definitions::default(),
            egress,
            pod_security: PodSecurity::default(),
            tenant_quota: TenantQuota::default(),
            limits: Arc::new(LimitTable::new(&Limits::default())),
            tenant_fields: Arc::default(),
            root_ca: root_ca.map(Arc::from),
            built_in,
            encryption: None,
            namespace_locks: FairLocks::default(),
            history_turns: HistoryTurns::default(),
            committed: AtomicU64::new(0),
        }
    }

    /// Sets the defaults and exemptions of PodSecurity.
    #[must_use]
    pub fn with_pod_security(mut self, pod_security: PodSecurity) -> Self {
        self.pod_security = pod_security;
        self
    }

    /// Sets the quota of tenants for what their objects do not set, and the limits of all spaces.
    #[must_use]
    pub fn with_tenant_limits(mut self, quota: TenantQuota, limits: Arc<LimitTable>) -> Self {
        self.tenant_quota = quota;
        self.limits = limits;
        self
    }

    /// Sets in which spaces objects are shown with the fields that name their tenant.
    #[must_use]
    pub fn with_tenant_fields(mut self, tenant_fields: Arc<TenantFieldsTable>) -> Self {
        self.tenant_fields = tenant_fields;
        self
    }

    /// Sets the store's encryption at rest.
    #[must_use]
    pub fn with_encryption(mut self, encryption: Option<Arc<EncryptedStore>>) -> Self {
        self.encryption = encryption;
        self
    }

    /// Returns the store's encryption at rest, if it is enabled.
    pub const fn encryption(&self) -> Option<&Arc<EncryptedStore>> {
        self.encryption.as_ref()
    }

    /// Ends all watches.
    pub fn close(&self) {
        self.closing.closed.store(true, Ordering::Release);
        self.closing.signal.notify_waiters();
    }

    /// Returns the shutdown signal.
    pub const fn closing(&self) -> &Closing {
        &self.closing
    }

    /// Returns the cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the issuer of continue tokens.
    pub const fn continue_tokens(&self) -> &ContinueTokens {
        &self.tokens
    }

    /// Returns the compiled custom resource definitions.
    pub const fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Returns the client that calls webhooks.
    pub const fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Returns the defaults and exemptions of PodSecurity, which are the same in all spaces.
    pub const fn pod_security(&self) -> &PodSecurity {
        &self.pod_security
    }

    /// Returns the quota of tenants for what their objects do not set.
    pub const fn tenant_quota(&self) -> &TenantQuota {
        &self.tenant_quota
    }

    /// Returns the limits of a space.
    pub fn limits(&self, space: &Space) -> SpaceLimits {
        self.limits.of(space)
    }

    /// Returns whether a request for these spaces shows the fields that name an object's tenant.
    pub fn tenant_fields_in(&self, spaces: &Spaces) -> TenantFields {
        self.tenant_fields.in_spaces(spaces)
    }

    /// Returns whether a space's webhooks get the fields that name an object's tenant.
    pub fn tenant_fields_of(&self, space: &Space) -> TenantFields {
        self.tenant_fields.of(space)
    }

    /// Returns the CA of the server's certificate, in PEM, which is published to every
    /// namespace.
    pub fn root_ca(&self) -> Option<&str> {
        self.root_ca.as_deref()
    }

    /// Returns the built-in objects, which every space has.
    pub fn built_in(&self) -> &BuiltIns {
        &self.built_in
    }

    /// The turns of watches that read the store's history.
    pub const fn history_turns(&self) -> &HistoryTurns {
        &self.history_turns
    }

    /// Returns the locks of namespaces, for changes that must be made one at a time.
    pub const fn namespace_locks(&self) -> &FairLocks {
        &self.namespace_locks
    }

    /// Returns the layout of the store's keys.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the key of an object in the store.
    pub fn key(&self, address: &Address) -> Key {
        let kind = address.of();
        let resource = ResourceName {
            group: &kind.group,
            resource: &kind.resource,
        };
        let place = Place {
            space: address.space.clone(),
            namespace: address.namespace.as_deref(),
            name: &address.name,
        };
        self.layout.key(resource, &place).into()
    }

    /// Waits until the cache shows everything that was acknowledged before the call.
    pub async fn catch_up(&self) -> Result<Revision> {
        let revision = self.store.revision().await?;
        self.cache.await_applied(revision).await;
        Ok(revision)
    }

    /// Returns which credentials are in use.
    pub const fn access_records(&self) -> &AccessRecords {
        &self.access_records
    }

    /// Waits until the cache shows every change that this server committed: a revoked right is
    /// denied from the next request on, without a round trip to the store.
    pub async fn await_own_writes(&self) {
        let committed = Revision::new(self.committed.load(Ordering::Acquire));
        self.cache.await_applied(committed).await;
    }

    /// Returns the object from the cache, which may be stale, or the built-in object.
    pub fn cached(&self, address: &Address) -> Option<Arc<Stored>> {
        let collection = self.cache.find(&address.kind, &address.space);
        let stored = collection.and_then(|collection| collection.get(&address.within()));
        stored.or_else(|| {
            if !self.built_in.are_some(&address.kind) {
                return None;
            }
            let state = self.cache.space_state(&address.space)?;
            self.built_in.find(address, &state)
        })
    }

    /// Returns the object from the cache; if it is not there, with every change that was
    /// acknowledged before the call.
    pub async fn cached_or_fresh(&self, address: &Address) -> Result<Option<Arc<Stored>>> {
        match self.cached(address) {
            Some(found) => Ok(Some(found)),
            None => self.fresh(address).await,
        }
    }

    /// Returns the object with every change that was acknowledged before the call.
    pub async fn fresh(&self, address: &Address) -> Result<Option<Arc<Stored>>> {
        self.catch_up().await?;
        Ok(self.cached(address))
    }

    /// Returns the collection of a resource in a space.
    pub fn collection(&self, kind: impl Keyed, space: &Space) -> Arc<Collection> {
        self.cache.collection(kind, space)
    }

    /// Commits a transaction to the store.
    pub async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        let outcome = self.store.commit(transaction).await?;
        if let Outcome::Committed(revision) = &outcome {
            self.committed.fetch_max(revision.get(), Ordering::AcqRel);
        }
        Ok(outcome)
    }

    /// Returns the object from the store, bypassing the cache.
    pub async fn stored(&self, address: &Address) -> Result<Option<Arc<Stored>>> {
        let entry = self.store.get(&self.key(address)).await?;
        Ok(entry.map(|entry| {
            Arc::new(Stored::new(
                address.within().into(),
                entry.modified,
                &entry.value,
            ))
        }))
    }
}

/// The state of a tenant, from its object.
#[derive(Clone, Debug)]
pub struct TenantState {
    /// The tenant object.
    pub object: Arc<Stored>,
    /// Whether the tenant is being deleted.
    pub terminating: bool,
}

impl Registry {
    /// Returns the state of a space. If the cache lacks it, waits for every change that was
    /// acknowledged before the call.
    pub async fn find_space(&self, space: &Space) -> Result<Option<Arc<SpaceState>>> {
        if let Some(found) = self.cache.space_state(space) {
            return Ok(Some(found));
        }
        Box::pin(self.catch_up()).await?;
        Ok(self.cache.space_state(space))
    }

    /// Returns the tenant from the cache, which may be stale.
    pub fn tenant(&self, name: &str) -> Option<TenantState> {
        let address = tenant_address(name);
        let object = self.cached(&address)?;
        let terminating = object.is_terminating();
        Some(TenantState {
            object,
            terminating,
        })
    }

    /// Returns the tenant. If the cache lacks it, waits for every change that was acknowledged
    /// before the call.
    pub async fn find_tenant(&self, name: &str) -> Result<Option<TenantState>> {
        if let Some(found) = self.tenant(name) {
            return Ok(Some(found));
        }
        Box::pin(self.catch_up()).await?;
        Ok(self.tenant(name))
    }
}

/// Returns the address of a tenant.
pub fn tenant_address(name: &str) -> Address {
    Address {
        kind: core_kind("tenants").into(),
        space: Space::System,
        namespace: None,
        name: name.to_owned(),
    }
}

/// Returns the address of a namespace.
pub fn namespace_address(space: &Space, name: &str) -> Address {
    Address {
        kind: core_kind("namespaces").into(),
        space: space.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

/// Returns the 404 of a missing tenant.
pub fn no_such_tenant(name: &str) -> StatusError {
    StatusError::not_found(kinds().get(core_kind("tenants")), name)
}

/// Whether the space serves a built-in kind. Some kinds exist in the system space only.
pub fn serves(space: &Space, kind: &Kind) -> bool {
    space.is_system() || !kind.system_only
}
