//! Objects behind the pipeline: the store for what is written, the cache for what is read.

pub mod apis;
pub mod built_in;
pub mod continue_token;
mod conversion;
pub mod definitions;
pub mod encoding;
pub mod fair_locks;
pub(crate) mod hooks;
pub(crate) mod publish;
pub mod rbac_kinds;
pub mod resource;
pub mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use insula_core::{Layout, Place, ResourceName, Revision, Space};
use insula_kinds::{Kind, core_kind, kinds};
use insula_store::{Key, Outcome, Store, Transaction};
use tokio::sync::Notify;

use crate::egress::Egress;
use crate::registry::continue_token::ContinueTokens;
use crate::registry::definitions::Definitions;
use crate::registry::fair_locks::FairLocks;
use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};
use insula_cache::Keyed;
use insula_cache::{Cache, Collection, SpaceState, Stored};

/// Where objects are.
pub struct Registry {
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    layout: Layout,
    tokens: ContinueTokens,
    closing: Closing,
    definitions: Definitions,
    egress: Egress,
    root_ca: Option<Arc<str>>,
    namespace_locks: FairLocks,
    /// The revision of the last change that went through here.
    committed: AtomicU64,
}

/// That the server stops, for those who would go on for ever.
#[derive(Debug, Default)]
pub struct Closing {
    closed: AtomicBool,
    signal: Notify,
}

impl Closing {
    /// Whether it does.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Is notified when it does.
    pub const fn signal(&self) -> &Notify {
        &self.signal
    }
}

/// One object, whether it is there or not.
#[derive(Clone, Debug)]
pub struct Address {
    /// The kind as which it is stored.
    pub kind: Resource,
    /// Its space.
    pub space: Space,
    /// Its namespace, if the kind has any.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Address {
    /// What is known of the kind.
    pub fn of(&self) -> &Kind {
        &self.kind
    }

    /// `namespace/name` or `name`.
    pub fn within(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The full path: what `metadata.selfLink` says.
    pub fn self_link(&self) -> String {
        let kind = self.of();
        let mut path = match kind.group.as_str() {
            "" => format!("/api/{}", kind.version),
            group => format!("/apis/{group}/{}", kind.version),
        };
        if let Some(tenant) = self.space.tenant() {
            path.push_str("/tenants/");
            path.push_str(tenant.as_str());
        }
        if let Some(namespace) = &self.namespace {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        format!("{path}/{}/{}", kind.resource, self.name)
    }
}

impl Registry {
    /// Over a store and the cache that follows it.
    pub fn new(
        store: Arc<dyn Store>,
        cache: Arc<Cache>,
        layout: Layout,
        secret: &[u8],
        egress: Egress,
        root_ca: Option<&str>,
    ) -> Self {
        Self {
            store,
            cache,
            layout,
            tokens: ContinueTokens::new(secret),
            closing: Closing::default(),
            definitions: Definitions::default(),
            egress,
            root_ca: root_ca.map(Arc::from),
            namespace_locks: FairLocks::default(),
            committed: AtomicU64::new(0),
        }
    }

    /// Ends all watches.
    pub fn close(&self) {
        self.closing.closed.store(true, Ordering::Release);
        self.closing.signal.notify_waiters();
    }

    /// Whether the server stops.
    pub const fn closing(&self) -> &Closing {
        &self.closing
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Makes and checks continue tokens.
    pub const fn continue_tokens(&self) -> &ContinueTokens {
        &self.tokens
    }

    /// What users define, compiled.
    pub const fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Calls webhooks.
    pub const fn egress(&self) -> &Egress {
        &self.egress
    }

    /// What the server's certificate is verified with, in PEM: every namespace is told.
    pub fn root_ca(&self) -> Option<&str> {
        self.root_ca.as_deref()
    }

    /// Turns at what only one can change at a time.
    pub const fn namespace_locks(&self) -> &FairLocks {
        &self.namespace_locks
    }

    /// How keys are made.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The key of an object.
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

    /// Waits until the cache shows every change that this server itself has made: who takes
    /// a right away is obeyed from the next request on, without a question to the store.
    pub async fn await_own_writes(&self) {
        let committed = Revision::new(self.committed.load(Ordering::Acquire));
        self.cache.await_applied(committed).await;
    }

    /// The object as the cache has it, which may be behind; or as every space has it.
    pub fn cached(&self, address: &Address) -> Option<Arc<Stored>> {
        let collection = self.cache.find(&address.kind, &address.space);
        let stored = collection.and_then(|collection| collection.get(&address.within()));
        stored.or_else(|| {
            if !built_in::are_some(&address.kind) {
                return None;
            }
            let life = self.cache.space_state(&address.space)?;
            built_in::find(address, &life)
        })
    }

    /// The object as it is, with everything that was acknowledged before the call.
    pub async fn fresh(&self, address: &Address) -> Result<Option<Arc<Stored>>> {
        self.catch_up().await?;
        Ok(self.cached(address))
    }

    /// The collection of a kind in a space.
    pub fn collection(&self, kind: impl Keyed, space: &Space) -> Arc<Collection> {
        self.cache.collection(kind, space)
    }

    /// Carries out a transaction.
    pub async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        let outcome = self.store.commit(transaction).await?;
        if let Outcome::Committed(revision) = &outcome {
            self.committed.fetch_max(revision.get(), Ordering::AcqRel);
        }
        Ok(outcome)
    }

    /// The object that the store holds there, past the cache.
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
    /// The object.
    pub object: Arc<Stored>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl Registry {
    /// The space, after everything that was acknowledged before the call if the cache does
    /// not have it.
    pub async fn find_space(&self, space: &Space) -> Result<Option<Arc<SpaceState>>> {
        if let Some(found) = self.cache.space_state(space) {
            return Ok(Some(found));
        }
        self.catch_up().await?;
        Ok(self.cache.space_state(space))
    }

    /// The tenant's object, as the cache has it.
    pub fn tenant(&self, name: &str) -> Option<TenantState> {
        let address = tenant_address(name);
        let object = self.cached(&address)?;
        let terminating = object.is_terminating();
        Some(TenantState {
            object,
            terminating,
        })
    }

    /// The tenant's object, after everything that was acknowledged before the call if the
    /// cache does not have it.
    pub async fn find_tenant(&self, name: &str) -> Result<Option<TenantState>> {
        if let Some(found) = self.tenant(name) {
            return Ok(Some(found));
        }
        self.catch_up().await?;
        Ok(self.tenant(name))
    }
}

/// Where a tenant's object is.
pub fn tenant_address(name: &str) -> Address {
    Address {
        kind: core_kind("tenants").into(),
        space: Space::System,
        namespace: None,
        name: name.to_owned(),
    }
}

/// Where a namespace's object is.
pub fn namespace_address(space: &Space, name: &str) -> Address {
    Address {
        kind: core_kind("namespaces").into(),
        space: space.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

/// What a missing tenant is answered with.
pub fn no_such_tenant(name: &str) -> StatusError {
    StatusError::not_found(kinds().get(core_kind("tenants")), name)
}

/// Whether the space serves a built-in kind: some are the system's only.
pub fn serves(space: &Space, kind: &Kind) -> bool {
    space.is_system() || !kind.system_only
}
